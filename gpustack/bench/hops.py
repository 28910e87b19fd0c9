"""The PCIe links from a GPU up to the root, as the kernel reads them from the devices: anybody may see them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

ADDRESS = re.compile(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
# The rate of a lane as the kernel writes it (drivers/pci/probe.c, pci_speed_string), by generation.
GENERATIONS = {"2.5": 1, "5.0": 2, "8.0": 3, "16.0": 4, "32.0": 5, "64.0": 6}
MOST_LANES = 32
FILES = ("current_link_speed", "current_link_width", "max_link_speed", "max_link_width")
Hop = tuple[str, int | None, int | None, int | None, int | None]


def chain(pci: str, root: str = "/sys") -> tuple[Path, ...]:
    """Give the folders of a device and of every bridge above it; nothing where the kernel does not know it."""
    own = Path(root, "bus/pci/devices", pci)
    try:
        real = own.resolve(strict=True)
    except OSError:
        return ()
    return tuple(folder for folder in (real, *real.parents) if ADDRESS.fullmatch(folder.name))


def look(folders: Sequence[Path]) -> list[Hop]:
    """Give what each link runs at and can do: address, generation, lanes, and the most of both."""
    return [(folder.name, *_numbers([_said(folder / name) for name in FILES])) for folder in folders]


def _numbers(said: Sequence[str]) -> tuple[int | None, int | None, int | None, int | None]:
    speed, width, max_speed, max_width = said
    return _generation(speed), _lanes(width), _generation(max_speed), _lanes(max_width)


def _generation(said: str) -> int | None:
    return GENERATIONS.get(said.partition(" ")[0])


def _lanes(said: str) -> int | None:
    """Give the lanes; root ports that are made up tell none, or 255."""
    return int(said) if said.isdecimal() and 0 < int(said) <= MOST_LANES else None


def _said(path: Path) -> str:
    try:
        return path.read_text("ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""
