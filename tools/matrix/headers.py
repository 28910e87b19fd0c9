"""What nvcc's header says of host compilers: by the conditions that it tests, not by the messages beside them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import zipfile
    from collections.abc import Iterator, Mapping

    from gpustack.matrix.subjects.toolkits import HostCompilers

HEADER = re.compile(r"[^\0]*/crt/host_config\.h")
# What follows the condition of each check is its message, of which nothing is read but whom it is about.
CHECK = re.compile(
    r"^#if (?P<condition>[^\n]+)\n(?:\s*\n)*#error -- unsupported (?P<whom>GNU|clang|Microsoft) ", re.MULTILINE
)
BOUNDS = {
    "gcc_max": ("GNU", re.compile(r"__GNUC__ > (\d+)"), 0),
    "clang_max": ("clang", re.compile(r"__clang_major__ >= (\d+)"), -1),
    "msc_min": ("Microsoft", re.compile(r"_MSC_VER < (\d+)"), 0),
    "msc_max": ("Microsoft", re.compile(r"_MSC_VER >= (\d+)"), -1),
}


def limits(text: str) -> Mapping[str, int]:
    """Return the bounds that a host_config.h tests, as the rows of host_compiler.toml name them."""
    conditions = {found["whom"]: found["condition"] for found in CHECK.finditer(text)}
    return {
        name: int(found[1]) + more
        for name, (whom, bound, more) in BOUNDS.items()
        if (found := bound.search(conditions.get(whom, "")))
    }


def listed(archive: zipfile.ZipFile) -> Mapping[str, int]:
    """Return the bounds that the header in a wheel tests; raises KeyError if it has no such header."""
    name = next((one for one in archive.namelist() if HEADER.fullmatch(one)), None)
    if name is None:
        raise KeyError("no crt/host_config.h is in it")
    return limits(archive.read(name).decode("utf-8", "replace"))


def differing(found: Mapping[str, int], row: HostCompilers) -> Iterator[str]:
    """Yield what a row says otherwise than a header."""
    for name, value in found.items():
        stated = getattr(row, name, value)
        if stated is not None and stated != value:
            yield f"{name} is {value}, and the row says {stated}"
