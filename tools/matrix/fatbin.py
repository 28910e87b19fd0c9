"""The GPU code in a library: what nvcc packed into its section ``.nv_fatbin``, as ``cuobjdump`` lists it.

A fat binary is a header (magic, version, size of the header, size of what follows) and entries, each with its own
header: kind (1 PTX, 2 machine code), size of the header, size of the code, at byte 28 the architecture, then flags.
The layout, and the flag of targets such as sm_90a, were determined from libraries whose code cuobjdump 13.5 lists.
"""

from __future__ import annotations

import mmap
import shutil
import struct
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import zipfile

    Bytes = bytes | mmap.mmap

MAGIC = struct.pack("<I", 0xBA55ED50)
HEADER = struct.Struct("<IHHQ")  # magic, version, size of the header, size of the entries
ENTRY = struct.Struct("<HHIQ12xI8xQ")  # kind, version, size of the header, size of the code, architecture, flags
KINDS = {1: "compute", 2: "sm"}
ACCELERATED = 1 << 20  # the flag of targets such as sm_90a, whose code runs only on that one architecture
SECTION = b".nv_fatbin"
LEAST = 64  # bytes of an ELF header
SECTION_HEADER = struct.Struct("<II8xQQQ24x")


def listed(archive: zipfile.ZipFile, pattern: str = "*.so*") -> Mapping[str, int]:
    """Return how often each target, by name (sm_90a, compute_80), occurs in a wheel's libraries with matching names."""
    found: Counter[str] = Counter()
    for name in archive.namelist():
        if fnmatchcase(name, pattern) and ".so" in name:
            with archive.open(name) as member, tempfile.TemporaryFile() as whole:
                shutil.copyfileobj(member, whole)
                whole.flush()
                if whole.tell():
                    with mmap.mmap(whole.fileno(), 0, access=mmap.ACCESS_READ) as held:
                        found.update(targets(held))
    return dict(sorted(found.items(), key=lambda one: _order(one[0])))


def targets(library: Bytes) -> Iterator[str]:
    """Yield the target of each piece of GPU code in an ELF library; nothing for any other file."""
    for first, last in _sections(library):
        at = library.find(MAGIC, first, last)
        while at != -1:
            _, _, header, size = HEADER.unpack_from(library, at)
            end = min(at + header + size, last)
            yield from _entries(library, at + header, end)
            at = library.find(MAGIC, end, last)


def _entries(library: Bytes, at: int, end: int) -> Iterator[str]:
    while at + ENTRY.size <= end:
        kind, _, header, size, architecture, flags = ENTRY.unpack_from(library, at)
        if kind in KINDS:
            yield f"{KINDS[kind]}_{architecture}{'a' if flags & ACCELERATED else ''}"
        if not header + size:
            return
        at += header + size


def _sections(library: Bytes) -> Iterator[tuple[int, int]]:
    """Yield where the sections with fat binaries begin and end."""
    if len(library) < LEAST or library[:4] != b"\x7fELF" or library[4:6] != b"\x02\x01":  # 64 bits, little-endian
        return
    offset, (size, count, names) = struct.unpack_from("<Q", library, 40)[0], struct.unpack_from("<HHH", library, 58)
    heads = [SECTION_HEADER.unpack_from(library, offset + number * size) for number in range(count)]
    if names >= len(heads):
        return
    texts = heads[names][3]
    for name, _, _, begins, length in heads:
        if library[texts + name : texts + name + len(SECTION) + 1] == SECTION + b"\0":
            yield begins, begins + length


def _order(target: str) -> tuple[str, int]:
    kind, _, number = target.partition("_")
    return ("", int(number.rstrip("a"))) if kind == "sm" else (kind, int(number.rstrip("a")))
