"""Which external functions an extension needs, and whether a library offers them, from the tables the loader reads.

A library's ``.gnu.hash`` has a number for each name that it offers, so checking a library of 500 MB takes reading half
a megabyte; two of 200 000 names do not share all 31 bits and the same bucket. In the symbol table, the names that a
file needs come before the first that it offers. Sources: System V ABI (gABI), "Symbol Table"; glibc,
``elf/dl-lookup.c`` (``do_lookup_x``) for the layout of ``.gnu.hash``.
"""

import struct
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from typing import List, Optional, Tuple

    from probes.elf import Take
    from probes.host import Facts, Host

HASHES, DYNSYM = 0x6FFFFFF6, 11
GLOBAL = 1  # a weak name may remain undefined
MOST_HASHES = 32 << 20
MOST_SYMBOLS = 8 << 20
MOST_NAMES = 16 << 20
ENTRY = struct.Struct("<IBBHQQ")
HEAD = struct.Struct("<IIII")
MASK = 0xFFFFFFFF


class Offers:
    """The names that one library offers."""

    def __init__(self, data: bytes) -> None:
        """Read the table's header: buckets, the number of the first name, the filter in between."""
        buckets, self.first, words, _ = HEAD.unpack_from(data)
        start = HEAD.size + 8 * words
        whole = memoryview(data)
        self.buckets = whole[start : start + 4 * buckets].cast("I")
        self.chain = whole[start + 4 * buckets : len(data) // 4 * 4].cast("I")
        if not buckets or len(self.buckets) != buckets:
            raise ValueError("the table of names ends too early")

    def has(self, name: bytes) -> bool:
        """Return whether the library offers this name."""
        wanted = hashed(name)
        at = self.buckets[wanted % len(self.buckets)] - self.first
        while 0 <= at < len(self.chain):
            held = self.chain[at]
            if (held ^ wanted) < 2:  # noqa: PLR2004 - the lowest bit only marks the end of a chain
                return True
            if held & 1:
                return False
            at += 1
        return False


def hashed(name: bytes) -> int:
    """Return the hash of a name, as GNU's linkers compute it."""
    found = 5381
    for letter in name:
        found = (found * 33 + letter) & MASK
    return found


def offers(host: "Host", path: str) -> "Optional[Offers]":
    """Return the names that a library offers, or None if they cannot be read."""
    try:
        data = _table(host, path, HASHES, MOST_HASHES)
        return Offers(data) if data else None
    except (ValueError, struct.error, TypeError):
        return None


def wanted(host: "Host", path: str, names: "re.Pattern[bytes]") -> "Optional[List[bytes]]":
    """Return the names of this kind that a file needs from others; None if they cannot be read or are too many."""
    elf = host.shared("elf.py")
    take = elf["reader"](host, path)
    try:
        sections = _sections(elf, take)
        kind = next(part for part in sections if part[1] == DYNSYM)
        text = sections[kind[4]]
        entries = take(kind[2], min(kind[3], MOST_SYMBOLS, _own(take, sections) * ENTRY.size)) or b""
        held = take(text[2], text[3]) if text[3] <= MOST_NAMES else None
    except (StopIteration, IndexError, ValueError, struct.error):
        return None
    if held is None:
        return None
    found = []
    for at, info, _, section, _, _ in ENTRY.iter_unpack(entries[: len(entries) // ENTRY.size * ENTRY.size]):
        if section == 0 and info >> 4 == GLOBAL:
            name = held[at : held.find(b"\0", at)]
            if names.match(name):
                found.append(name)
    return found


def _own(take: "Take", sections: "List[Tuple[int, int, int, int, int]]") -> int:
    """Return the number of the first name that the file itself offers; a large one if no table states it."""
    place = next((part[2] for part in sections if part[1] == HASHES), None)
    head = take(place, HEAD.size) if place is not None else None
    return HEAD.unpack(head)[1] if head and len(head) == HEAD.size else MOST_SYMBOLS


def _table(host: "Host", path: str, kind: int, most: int) -> "Optional[bytes]":
    elf = host.shared("elf.py")
    take = elf["reader"](host, path)
    place = next((part for part in _sections(elf, take) if part[1] == kind), None)
    return take(place[2], place[3]) if place and place[3] <= most else None


def _sections(elf: "Facts", take: "Take") -> "List[Tuple[int, int, int, int, int]]":
    """Return the sections of a 64-bit file with this machine's byte order; other files are skipped."""
    file = elf["Binary"](take)
    if not file.wide or file.order != "<" or sys.byteorder != "little":
        raise ValueError("not laid out as this machine's own files")
    sections: "List[Tuple[int, int, int, int, int]]" = elf["_sections"](file)[0]
    return sections
