"""The reader of ELF files agrees with readelf, reads little, and never raises."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.probes.stand_ins import compiled
from tests.told import Host, ToldHost, load

read = load("elf.py")["read"]


def told(data: bytes) -> Any:  # noqa: ANN401 - what the reader gives
    return read(lambda offset, size: data[offset : offset + size])


def readelf(path: Path, *options: str) -> str:
    tool = shutil.which("readelf")
    if tool is None:
        pytest.skip("no readelf here to compare with")
    return subprocess.run([tool, "-W", *options, str(path)], capture_output=True, text=True, check=True).stdout


def tagged(text: str, tag: str) -> list[str]:
    return re.findall(rf"\({tag}\).*\[(.*)\]", text)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("elf")
    needed = compiled(folder / "libcudnn.so.9")
    return compiled(
        folder / "libroot.so", soname="libroot.so.1", needs=[needed], rpath="$ORIGIN/../nvidia/cudnn/lib:$ORIGIN"
    )


def test_it_reads_what_readelf_reads(library: Path) -> None:
    said = readelf(library, "-d")
    found = Host().elf(str(library))
    assert found is not None
    assert found["soname"] == "libroot.so.1"
    assert found["needed"] == tagged(said, "NEEDED") == ["libcudnn.so.9", "libc.so.6"]
    assert found["rpath"] == tagged(said, "RPATH")[0].split(":") == ["$ORIGIN/../nvidia/cudnn/lib", "$ORIGIN"]
    assert found["runpath"] == []
    assert found["bits"] == 64


def test_a_runpath_is_not_an_rpath(tmp_path: Path) -> None:
    found = Host().elf(str(compiled(tmp_path / "libx.so", runpath="/opt/lib")))
    assert found is not None
    assert (found["rpath"], found["runpath"]) == ([], ["/opt/lib"])


def test_the_glibc_floor_of_a_real_program_is_that_of_its_symbol_versions() -> None:
    program = Path(sys.executable).resolve()
    versions = re.findall(r"Name: GLIBC_([\d.]+)", readelf(program, "-V"))
    found = Host().elf(str(program))
    assert found is not None
    assert versions
    assert found["glibc"] == max(versions, key=lambda text: [int(part) for part in text.split(".")])


def test_a_library_of_32_bits_is_read_too(tmp_path: Path) -> None:
    try:
        path = compiled(tmp_path / "libold.so", rpath="/opt/lib32", flags=["-m32", "-nostdlib"])
    except subprocess.CalledProcessError:
        pytest.skip("this compiler makes nothing for 32 bits")
    found = Host().elf(str(path))
    assert found is not None
    assert (found["bits"], found["machine"], found["soname"]) == (32, "i386", "libold.so")
    assert (found["rpath"], found["glibc"]) == (["/opt/lib32"], None)


def test_only_pages_are_read_and_the_log_has_one_line(library: Path) -> None:
    data = library.read_bytes()
    taken: list[int] = []

    def take(offset: int, size: int) -> bytes:
        taken.append(size)
        return (data + bytes(1 << 26))[offset : offset + size]

    assert read(take)["soname"] == "libroot.so.1"
    assert sum(taken) < 1 << 16
    host = Host()
    host.elf(str(library))
    assert host.log == [("read", str(library), "ok")]


def test_what_is_not_an_elf_file_missing_or_denied_is_none() -> None:
    host = ToldHost(files={"/a": "text", "/b": PermissionError(13, "denied"), "/c": b"\x7fELF\x02\x01"})
    assert [host.elf(path) for path in ("/a", "/b", "/c", "/d")] == [None] * 4
    assert host.why("/b") == "denied"


@given(st.binary(max_size=300))
def test_no_bytes_make_it_raise(data: bytes) -> None:
    told(data)
    told(b"\x7fELF\x02\x01" + data)
    told(b"\x7fELF\x01\x02" + data)


@given(st.data())
def test_no_damage_makes_it_raise(library: Path, data: st.DataObject) -> None:
    whole = bytearray(library.read_bytes())
    interesting = [*range(64, 64 + 56 * 12), *range(len(whole) // 2, len(whole))]
    for _ in range(data.draw(st.integers(1, 8))):
        whole[data.draw(st.sampled_from(interesting))] = data.draw(st.integers(0, 255))
    found = told(bytes(whole[: data.draw(st.integers(0, len(whole)))]) if data.draw(st.booleans()) else bytes(whole))
    assert found is None or isinstance(found["needed"], list)


def test_a_string_that_never_ends_and_versions_in_a_circle_are_bounded(library: Path) -> None:
    whole = bytearray(library.read_bytes())
    start = whole.find(b"libroot.so.1")
    end = whole.find(b"\0", start)
    whole[end:] = b"x" * (1 << 18)
    found = told(bytes(whole))
    assert found is None or len(found["soname"] or "") <= 1 << 18
