"""Symbols that a file needs and a library exports: as nm reads them from real libraries, and no crash on any bytes."""

from __future__ import annotations

import contextlib
import re
import shutil
import struct
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.probes.stand_ins import built
from tests.told import Host, ToldHost, load

SYMBOLS = load("symbols.py")
EVERY = re.compile(b"")
PROVIDER = "\n".join(f"int _ZN3c10{len(str(n)) + 1}f{n}Ev(void) {{ return {n}; }}" for n in range(300))


def nm(path: Path, option: str) -> set[str]:
    tool = shutil.which("nm")
    if tool is None:
        pytest.skip("no nm here to compare with")
    said = subprocess.run([tool, "-D", option, str(path)], capture_output=True, text=True, check=True).stdout
    return {line.split()[-1].partition("@")[0] for line in said.splitlines()}


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("symbols")
    library = built(folder / "libc10.so", PROVIDER, "-Wl,--hash-style=gnu")
    source = "int _ZN3c102f1Ev(void); int gone(void); __attribute__((weak)) int perhaps(void);"
    source += "int mine(void) { return _ZN3c102f1Ev() + gone() + (perhaps ? perhaps() : 0); }"
    return library, built(folder / "extension.so", source, "-Wl,--hash-style=gnu", "-xnone", str(library))


def test_a_library_offers_what_nm_lists_and_nothing_else(pair: tuple[Path, Path]) -> None:
    offers = SYMBOLS["offers"](Host(), str(pair[0]))
    listed = nm(pair[0], "--defined-only")
    assert len([name for name in listed if name.startswith("_ZN3c10")]) == 300
    assert all(offers.has(name.encode()) for name in listed)
    assert not offers.has(b"_ZN3c104f300Ev")
    assert not offers.has(b"gone")


def test_an_extension_needs_what_nm_calls_undefined_but_for_weak_names(pair: tuple[Path, Path]) -> None:
    wanted = {name.decode() for name in SYMBOLS["wanted"](Host(), str(pair[1]), EVERY)}
    assert wanted == {"_ZN3c102f1Ev", "gone"}
    assert wanted <= nm(pair[1], "--undefined-only")
    assert SYMBOLS["wanted"](Host(), str(pair[1]), re.compile(b"_ZN3c10")) == [b"_ZN3c102f1Ev"]


def test_names_are_hashed_as_the_linker_does() -> None:
    assert SYMBOLS["hashed"](b"") == 0x1505
    assert SYMBOLS["hashed"](b"printf") == 0x156B2BB8


def test_a_library_with_the_old_table_alone_is_not_guessed_at(tmp_path: Path) -> None:
    old = built(tmp_path / "libold.so", PROVIDER, "-Wl,--hash-style=sysv")
    assert SYMBOLS["offers"](Host(), str(old)) is None
    assert "_ZN3c102f1Ev" in nm(old, "--defined-only")


def test_what_cannot_be_read_is_none() -> None:
    host = ToldHost({"/denied.so": PermissionError(13, "denied"), "/text.so": "no library"})
    for path in ("/missing.so", "/denied.so", "/text.so"):
        assert SYMBOLS["offers"](host, path) is None
        assert SYMBOLS["wanted"](host, path, EVERY) is None


@given(st.binary(max_size=400))
def test_no_bytes_make_it_crash(data: bytes) -> None:
    host = ToldHost({"/x.so": data})
    assert SYMBOLS["offers"](host, "/x.so") is None
    assert SYMBOLS["wanted"](host, "/x.so", EVERY) is None
    with contextlib.suppress(ValueError, struct.error, TypeError):
        SYMBOLS["Offers"](data).has(b"name")


@given(st.data())
def test_no_damage_to_a_real_library_makes_it_crash(pair: tuple[Path, Path], data: st.DataObject) -> None:
    held = bytearray(pair[1].read_bytes())
    for _ in range(data.draw(st.integers(1, 20))):
        held[data.draw(st.integers(0, len(held) - 1))] = data.draw(st.integers(0, 255))
    host = ToldHost({"/x.so": bytes(held[: data.draw(st.integers(0, len(held)))])})
    for answer in (SYMBOLS["offers"](host, "/x.so"), SYMBOLS["wanted"](host, "/x.so", EVERY)):
        assert answer is None or isinstance(answer, list | SYMBOLS["Offers"])
