"""The table of PCI device numbers: NVIDIA's GPUs by architecture, from the file pci.ids.

How to read the next: run it on the current pci.ids (pciutils/pciids, or a distribution's package pci.ids). A device is
recognised by the chip named before its product. Neighbouring numbers of one architecture are joined, also across the
audio, USB and switch functions of a GPU; anything else between them (a chipset, a GPU without letters) separates them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

VENDOR = "10de"
CHIPS = {
    r"G[89]\d|GT2\d\d": "Tesla",
    r"GF\d": "Fermi",
    r"GK\d": "Kepler",
    r"GM\d": "Maxwell",
    r"GP\d": "Pascal",
    r"GV\d": "Volta",
    r"TU\d": "Turing",
    r"GA\d": "Ampere",
    r"AD\d": "Ada",
    r"GH\d": "Hopper",
    r"GB\d": "Blackwell",
}
BESIDE = re.compile(r"Audio|USB|UCSI|Type-C|Switch|[Bb]ridge|PCIe host|NVLink")  # of a GPU, but not GPUs
DEVICE = re.compile(r"\t([0-9a-f]{4})  (.+)")
DAY = re.compile(r"^#\s*Date:\s*(\d{4}-\d\d-\d\d)", re.MULTILINE)
FAR = 0x100  # the largest gap: products further apart say nothing about the numbers between them
ABOUT = """\
# Which architecture a PCI device number of NVIDIA (vendor 10de) is: for GPUs whose driver does not answer.
# Made by: python -m tools.matrix pci FILE (the file pci.ids). Do not edit.
#
# ranges  first and last: device numbers; arch: that of every GPU between them, by the chip's letters in its name.
"""


def table(text: str, date: str) -> str:
    """Return the table made from a pci.ids, always the same for the same file; raises ValueError if it is not one."""
    day = DAY.search(text)
    found = tuple(ranges(text))
    if day is None or not found:
        raise ValueError(f"no pci.ids with a date and devices of {VENDOR}")
    rows = "".join(
        f'  {{ first = "{first:#06x}", last = "{last:#06x}", arch = "{arch}" }},\n' for first, last, arch in found
    )
    head = f'schema = 1\nsubjects = ["gpu", "pci-display"]\nsource = "pciutils/pciids: pci.ids of {day[1]}"\n'
    return f'{ABOUT}{head}checked = "{date}"\n\nranges = [\n{rows}]\n'


def ranges(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield the first and last device number of each architecture's runs."""
    run: tuple[int, int, str] | None = None
    for number, name in _devices(text):
        arch = next((arch for chip, arch in CHIPS.items() if re.match(chip, name)), None)
        if BESIDE.search(name):
            continue
        if run and run[2] == arch and number - run[1] < FAR:
            run = (run[0], number, run[2])
            continue
        if run:
            yield run
        run = (number, number, arch) if arch else None
    if run:
        yield run


def _devices(text: str) -> Iterator[tuple[int, str]]:
    inside = False
    for line in text.splitlines():
        if line[:1] not in {"\t", "#", ""}:
            inside = line.startswith(VENDOR)
        elif inside and (match := DEVICE.fullmatch(line)):
            yield int(match[1], 16), match[2]
