"""The scanner for GPU code: made-up libraries in the layout that nvcc writes, intact and broken."""

from __future__ import annotations

import io
import struct
import zipfile

from tools.matrix import fatbin

CODE = ((2, 75, 0x11), (2, 90, 0x100011), (1, 80, 0x2011), (2, 120, 0x1000011))


def packed(code: tuple[tuple[int, int, int], ...]) -> bytes:
    """Return a fat binary: each piece of code of a different length, like compressed ones."""
    entries = b""
    for number, (kind, architecture, flags) in enumerate(code):
        body = b"\x90" * (8 + 8 * number)
        entries += struct.pack("<HHIQ12xI8xQ16x", kind, 0x101, 64, len(body), architecture, flags) + body
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(entries)) + entries


def library(fat: bytes, section: bytes = b".nv_fatbin", elsewhere: bytes = b"") -> bytes:
    """Return an ELF library with a section of this name, and one of another name."""
    names = b"\0" + section + b"\0__nv_relfatbin\0.shstrtab\0"
    at = 64
    places = [(fat, 1), (elsewhere, 2 + len(section)), (names, len(names) - 10)]
    body, heads = b"", struct.pack("<64x")
    for held, name in places:
        heads += struct.pack("<II8xQQQ24x", name, 1, 0, at + len(body), len(held))
        body += held
    start = struct.pack("<4sBB34xQ10xHHH", b"\x7fELF", 2, 1, at + len(body), 64, 4, 3)
    return start + body + heads


def test_each_piece_of_code_is_listed_with_its_suffix() -> None:
    found = list(fatbin.targets(library(packed(CODE[:2]) + b"\0" * 8 + packed(CODE[2:]))))
    assert found == ["sm_75", "sm_90a", "compute_80", "sm_120"]


def test_relocatable_code_is_left_out_as_cuobjdump_does() -> None:
    assert list(fatbin.targets(library(packed(CODE[:1]), elsewhere=packed(CODE)))) == ["sm_75"]
    assert not list(fatbin.targets(library(packed(CODE), section=b".data_fatbin")))


def test_what_is_not_a_library_or_a_broken_one_has_no_code_and_does_not_hang() -> None:
    whole = library(packed(CODE))
    assert not list(fatbin.targets(b""))
    assert not list(fatbin.targets(b"MZ" + whole))
    endless = struct.pack("<IHHQ", 0xBA55ED50, 1, 16, 1 << 40) + struct.pack("<HHIQ12xI8xQ16x", 2, 0, 0, 0, 75, 0)
    assert list(fatbin.targets(library(endless))) == ["sm_75"]


def test_of_a_wheel_the_libraries_alone_are_read() -> None:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as wheel:
        wheel.writestr("demo/libdemo.so", library(packed(CODE)))
        wheel.writestr("demo/other.so.1", library(packed(CODE[:1])))
        wheel.writestr("demo/empty.so", b"")
        wheel.writestr("demo/notes.txt", library(packed(CODE)))
    with zipfile.ZipFile(made) as wheel:
        assert fatbin.listed(wheel) == {"sm_75": 2, "sm_90a": 1, "sm_120": 1, "compute_80": 1}
        assert fatbin.listed(wheel, "*other*") == {"sm_75": 1}
