"""What the dynamic loader reads from an ELF file: its name, its dependencies, its search paths, the glibc it requires.

Only headers are read, by offset, so a file of two gigabytes costs a few kilobytes. Whatever the bytes are, the result
is a description or None. Source: System V ABI (gABI), "Program Loading", "Dynamic Linking", "Sections" and "Note
Section"; symbol versions according to the Linux Standard Base, "Symbol Versioning".
"""

import re
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Dict, Iterator, List, Optional, Tuple

    from probes.host import Facts, Host

    Take = Callable[[int, int], Optional[bytes]]  # (offset, size): the bytes there, fewer at the end of the file
    Section = Tuple[int, int, int, int, int]  # position of its name, kind, offset, size, the related section

PAGE = 1 << 12
BLOCK = 1 << 20
LAST = 1 << 46  # no file has more bytes; a larger offset is a damaged header
MOST_ENTRIES = 4096
MOST_TEXT = 1 << 16
MACHINES = {3: "i386", 21: "ppc64", 62: "x86_64", 183: "aarch64", 243: "riscv64"}
WIDE = {1: False, 2: True}
ORDER = {1: "<", 2: ">"}
LOAD, DYNAMIC = 1, 2
NOTE, DYNSYM = 7, 11
MOST_TABLE = 8 << 20
NEEDED, STRTAB, SONAME, RPATH, RUNPATH, VERNEED, VERNEEDNUM = 1, 5, 14, 15, 29, 0x6FFFFFFE, 0x6FFFFFFF


class DamagedError(ValueError):
    """The file ends too early, or refers to a place outside it."""


class Binary:
    """An ELF file, read page by page by offset and number layout."""

    def __init__(self, take: "Take") -> None:
        """Read the identification, which gives the width of numbers and the byte order."""
        self.take = take
        self.pages: "Dict[int, bytes]" = {}
        mark = self.some(0, 16)
        if mark[:4] != b"\x7fELF" or mark[4] not in WIDE or mark[5] not in ORDER:
            raise DamagedError("no ELF file")
        self.wide = WIDE[mark[4]]
        self.order = ORDER[mark[5]]

    def some(self, offset: int, size: int) -> bytes:
        """Return exactly this many bytes."""
        if not 0 <= offset <= LAST:
            raise DamagedError("offset out of reach")
        first = offset // PAGE
        held = b"".join(self._page(number) for number in range(first, (offset + size - 1) // PAGE + 1))
        found = held[offset - first * PAGE :][:size]
        if len(found) < size:
            raise DamagedError("ends too early")
        return found

    def numbers(self, offset: int, narrow: str, wide: str) -> "Tuple[int, ...]":
        """Return the numbers at an offset, by the layout for 32-bit or 64-bit files."""
        layout = self.order + (wide if self.wide else narrow)
        return struct.unpack(layout, self.some(offset, struct.calcsize(layout)))

    def text(self, offset: int) -> str:
        """Return the text that ends with a zero byte."""
        if not 0 <= offset <= LAST:
            raise DamagedError("offset out of reach")
        held, at = b"", offset
        while b"\0" not in held and len(held) < MOST_TEXT:
            part = self._page(at // PAGE)[at % PAGE :]
            if not part:
                raise DamagedError("ends too early")
            held += part
            at += len(part)
        return held.split(b"\0", 1)[0].decode("utf-8", "replace")

    def _page(self, number: int) -> bytes:
        if number not in self.pages:
            self.pages[number] = self.take(number * PAGE, PAGE) or b""
        return self.pages[number]


def read(take: "Take") -> "Optional[Facts]":
    """Return class, machine, soname, needed, rpath, runpath and the highest glibc required; None if it is not ELF."""
    try:
        return _describe(Binary(take))
    except (DamagedError, struct.error):
        return None


def pieces(take: "Take", size: int, word: bytes, around: int) -> "Iterator[bytes]":
    """Yield the bytes around each occurrence of a word, from the end of the file (where constants are) to its start."""
    end = size
    while end > 0:
        begin = max(0, end - BLOCK)
        low = min(begin, around)
        data = take(begin - low, low + end - begin + around) or b""
        hit = data.rfind(word, low, low + end - begin + len(word) - 1)
        while hit >= 0:
            yield data[max(0, hit - around) : hit + around]
            hit = data.rfind(word, low, hit + len(word) - 1)
        end = begin


def within(take: "Take", named: str, word: bytes, around: int) -> "Iterator[bytes]":
    """Yield the bytes around each occurrence of a word in one section, from its end; nothing if there are none."""
    try:
        file = Binary(take)
        sections, names = _sections(file)
        spans = [(offset, size) for at, _, offset, size, _ in sections if size and file.text(names + at) == named]
    except (DamagedError, struct.error):
        return
    for begin, size in spans:
        yield from pieces(lambda offset, much: take(begin + offset, much), size, word, around)  # noqa: B023 - used at once


def reader(host: "Host", path: str) -> "Take":
    """Return a function that reads bytes of a file; its many small reads are logged as one."""
    host.bytes(path, 1)
    kept = len(host.log)

    def take(offset: int, size: int) -> "Optional[bytes]":
        data = host.bytes(path, size, offset)
        del host.log[kept:]
        return data

    return take


def note(take: "Take", named: str, owner: str) -> "Optional[bytes]":
    """Return the content of the note section with this name; None if there is none, or if another owner wrote it."""
    try:
        file = Binary(take)
        sections, names = _sections(file)
        for at, kind, offset, _, _ in sections:
            if kind == NOTE and file.text(names + at) == named:
                spelled, size = file.numbers(offset, "II", "II")
                if file.some(offset + 12, min(spelled, PAGE)).rstrip(b"\0") == owner.encode("utf-8"):
                    # zero bytes pad the name to the section's alignment
                    return (take(offset + 12 + spelled, min(size, MOST_TEXT) + 8) or b"").lstrip(b"\0")[:size]
    except (DamagedError, struct.error):
        pass
    return None


def symbols(take: "Take", begins: str) -> "Dict[str, List[str]]":
    """Return the dynamic symbols with this prefix: those ``wanted`` from other files, and those ``offered`` to them."""
    found: "Dict[str, List[str]]" = {"wanted": [], "offered": []}
    try:
        file = Binary(take)
        sections = _sections(file)[0]
        for _, kind, offset, size, link in sections:
            if kind == DYNSYM and link < len(sections):
                layout = struct.Struct(file.order + ("IBBHQQ" if file.wide else "IIIBBH"))
                table = take(offset, min(size, MOST_TABLE)) or b""
                names = take(sections[link][2], min(sections[link][3], MOST_TABLE)) or b""
                for fields in layout.iter_unpack(table[: len(table) // layout.size * layout.size]):
                    name = names[fields[0] : names.find(b"\0", fields[0])].decode("utf-8", "replace")
                    if name.startswith(begins):
                        found["offered" if fields[3 if file.wide else 5] else "wanted"].append(name)
    except (DamagedError, struct.error, OverflowError, ValueError):
        pass
    return found


def _sections(file: Binary) -> "Tuple[List[Section], int]":
    """Return every section, and where in the file their names begin."""
    start = file.numbers(32 if not file.wide else 40, "I", "Q")[0]
    size, count, naming = file.numbers(46 if not file.wide else 58, "HHH", "HHH")
    found: "List[Section]" = []
    for number in range(min(count, MOST_ENTRIES)):
        name, kind, _, _, offset, held, link = file.numbers(start + number * size, "7I", "IIQQQQI")
        found.append((name, kind, offset, held, link))
    return found, found[naming][2] if naming < len(found) else 0


def _describe(file: Binary) -> "Facts":
    segments = list(_segments(file))
    entries = [entry for kind, offset, size, _ in segments if kind == DYNAMIC for entry in _entries(file, offset, size)]
    held = dict(reversed(entries))  # of a tag that may occur only once, the first counts
    strings = _place(segments, held[STRTAB]) if STRTAB in held else 0
    texts = [(tag, file.text(strings + value)) for tag, value in entries if tag in (NEEDED, SONAME, RPATH, RUNPATH)]
    versions = list(_versions(file, _place(segments, held[VERNEED]), strings, held)) if VERNEED in held else []
    machine = file.numbers(18, "H", "H")[0]
    return {
        "bits": 64 if file.wide else 32,
        "machine": MACHINES.get(machine, str(machine)),
        "soname": next((text for tag, text in texts if tag == SONAME), None),
        "needed": [text for tag, text in texts if tag == NEEDED],
        "rpath": _folders(texts, RPATH),
        "runpath": _folders(texts, RUNPATH),
        "glibc": _highest(versions, "GLIBC"),
        "glibcxx": _highest(versions, "GLIBCXX"),
    }


def _segments(file: Binary) -> "Iterator[Tuple[int, int, int, int]]":
    """Yield kind, offset, size and address of each program header."""
    start = file.numbers(28 if not file.wide else 32, "I", "Q")[0]
    size, count = file.numbers(42 if not file.wide else 54, "HH", "HH")
    for number in range(min(count, MOST_ENTRIES)):
        fields = file.numbers(start + number * size, "8I", "II6Q")
        if file.wide:
            kind, _, offset, address, _, held = fields[:6]
        else:
            kind, offset, address, _, held = fields[:5]
        yield kind, offset, held, address


def _entries(file: Binary, offset: int, size: int) -> "Iterator[Tuple[int, int]]":
    """Yield tag and value of each entry of the dynamic section."""
    step = 16 if file.wide else 8
    for number in range(min(size // step, MOST_ENTRIES)):
        tag, value = file.numbers(offset + number * step, "iI", "qQ")
        if tag == 0:
            return
        yield tag, value


def _place(segments: "List[Tuple[int, int, int, int]]", address: int) -> int:
    """Return the file offset of what will be at this address."""
    for kind, offset, size, start in segments:
        if kind == LOAD and start <= address < start + size:
            return offset + address - start
    raise DamagedError("an address that nothing is loaded to")


def _folders(texts: "List[Tuple[int, str]]", wanted: int) -> "List[str]":
    return [folder for tag, text in texts if tag == wanted for folder in text.split(":") if folder]


def _versions(file: Binary, offset: int, strings: int, held: "Dict[int, int]") -> "Iterator[str]":
    """Yield the name of every symbol version that the file requires from others."""
    left = MOST_ENTRIES
    for _ in range(min(held.get(VERNEEDNUM, 0), MOST_ENTRIES)):
        _, count, _, first, following = file.numbers(offset, "HHIII", "HHIII")
        at = offset + first
        for _ in range(count):
            left -= 1
            if left < 0:
                return
            name, step = file.numbers(at + 8, "II", "II")
            yield file.text(strings + name)
            at += step
        if not following:
            return
        offset += following


def _highest(versions: "List[str]", family: str) -> "Optional[str]":
    """Return the highest number among versions such as GLIBC_2.17."""
    matches = (re.match(family + r"_(\d{1,4}(?:\.\d{1,4}){1,3})$", version) for version in versions)
    numbers = [tuple(int(part) for part in match.group(1).split(".")) for match in matches if match]
    return ".".join(map(str, max(numbers))) if numbers else None
