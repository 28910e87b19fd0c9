"""Notes and symbols of real ELF files, made by the compiler: what libcuda and libnvJitLink say about themselves."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.probes.stand_ins import built
from tests.told import Host, ToldHost, load

ELF, NVIDIA = load("elf.py"), load("nvidia.py")
SECTION = ".note.cuda.fwd_compatibility"
# As in libcuda.so.580.159.04 on an H200 host, read 2026-11-21.
SAID = {"format": 1, "CUDA version": "13.0", "driver": [535, 550, 565, 570, 575, 580], "device": [1, 2, 7]}
HELD = {"format": 1, "cuda": "13.0", "drivers": [535, 550, 565, 570, 575, 580], "devices": [1, 2, 7]}
NEEDED, OTHER = "__nvJitLinkComplete_12_4", "__nvJitLinkCreate_12_4"


def noted(path: Path, said: str, owner: str = "NVIDIA Corporation", flags: str = "") -> Path:
    """Compile a library with a note."""
    text = said.replace('"', '\\\\\\"')
    lines = [
        rf".pushsection {SECTION},\"a\",@note",
        f".balign 4; .long {len(owner) + 1}; .long {len(said) + 1}; .long 1",
        rf".asciz \"{owner}\"; .balign 4; .asciz \"{text}\"; .balign 4",
        ".popsection",
    ]
    return built(path, f'__asm__("{"; ".join(lines)}");', *flags.split())


@pytest.mark.parametrize(
    "said", [SAID, {"Format": 1, "CUDA Version": "13.0", "Driver": SAID["driver"], "Device": [1, 2, 7]}]
)
def test_a_libcuda_says_which_drivers_it_is_for(tmp_path: Path, said: dict[str, object]) -> None:
    host = Host()
    path = str(noted(tmp_path / "libcuda.so.580.95.05", json.dumps(said)))
    assert NVIDIA["note"](host, path) == HELD
    assert host.log == [("read", path, "ok")]


@pytest.mark.parametrize(
    ("said", "held"),
    [
        ("[1]", None),
        ("no json", None),
        ("{}", {"format": None, "cuda": None, "drivers": [], "devices": []}),
        ('{"driver": ["R535", 550], "device": 7}', {"format": None, "cuda": None, "drivers": [550], "devices": []}),
    ],
)
def test_a_note_that_is_none_of_it_says_nothing(tmp_path: Path, said: str, held: dict[str, object] | None) -> None:
    assert NVIDIA["note"](Host(), str(noted(tmp_path / "libcuda.so.1", said))) == held


def test_a_note_of_another_owner_and_a_library_without_one(tmp_path: Path) -> None:
    other = noted(tmp_path / "libcuda.so.2", json.dumps(SAID), owner="Somebody Else")
    assert NVIDIA["note"](Host(), str(other)) is None
    assert NVIDIA["note"](Host(), str(built(tmp_path / "libplain.so", "int x;"))) is None
    assert NVIDIA["note"](ToldHost({"/x": "text"}), "/x") is None


def test_the_note_is_among_the_copies(tmp_path: Path) -> None:
    folder = tmp_path / "compat"
    folder.mkdir()
    noted(folder / "libcuda.so.580.95.05", json.dumps(SAID))
    (folder / "libcuda.so.1").symlink_to("libcuda.so.580.95.05")
    host = Host(environ={"LD_LIBRARY_PATH": str(folder)})
    copy = next(one for one in NVIDIA["copies"](host, "libcuda.so") if one["path"] == f"{folder}/libcuda.so.1")
    assert (copy["kind"], copy["release"], copy["note"]) == ("compat", "580.95.05", HELD)


def linker(folder: Path, *names: str) -> Path:
    """Compile a libnvJitLink that exports these names."""
    return built(folder / "libnvJitLink.so.12", "".join(f"void {name}(void) {{}}" for name in names))


def sparse(folder: Path) -> Path:
    """Compile a libcusparse that requires two names from 12.4."""
    calls = f"void {NEEDED}(void); void {OTHER}(void);"
    return built(folder / "libcusparse.so.12", f"{calls} void cusparse(void) {{ {NEEDED}(); {OTHER}(); }}")


def test_what_an_older_linker_lacks_is_reported(tmp_path: Path) -> None:
    old = linker(tmp_path, "__nvJitLinkComplete_12_0", "__nvJitLinkComplete_12_2", "__nvJitLinkAPI")
    asking = sparse(tmp_path)
    said = NVIDIA["linker"](Host(), str(asking), [{"path": str(old)}])
    assert said == {
        "by": str(asking),
        "path": str(old),
        "wanted": [NEEDED, OTHER],
        "lacking": [NEEDED, OTHER],
        "newest": "12.2",
    }
    new = linker(tmp_path, NEEDED, OTHER, "__nvJitLinkComplete_12_10")
    said = NVIDIA["linker"](Host(), str(asking), [{"path": str(new)}])
    assert (said["lacking"], said["newest"]) == ([], "12.10")


def test_a_linker_that_cannot_be_read_lacks_nothing_that_we_know_of(tmp_path: Path) -> None:
    damaged = tmp_path / "libnvJitLink.so.12"
    damaged.write_text("not a library")
    said = NVIDIA["linker"](Host(), str(sparse(tmp_path)), [{"path": str(damaged)}])
    assert (said["wanted"], said["lacking"], said["newest"]) == ([NEEDED, OTHER], [], None)
    assert NVIDIA["linker"](Host(), str(sparse(tmp_path)), [])["path"] is None


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return noted(tmp_path_factory.mktemp("damaged") / "libcuda.so.1", "{}").read_bytes()


@given(st.data())
def test_no_damage_makes_notes_and_symbols_raise(whole: bytes, data: st.DataObject) -> None:
    held = bytearray(whole)
    sections = range(len(held) - 40 * 64, len(held))
    for _ in range(data.draw(st.integers(1, 8))):
        held[data.draw(st.sampled_from([*range(64), *sections]))] = data.draw(st.integers(0, 255))

    def take(offset: int, size: int) -> bytes:
        return bytes(held[offset : offset + size])

    note, symbols = ELF["note"](take, SECTION, "NVIDIA Corporation"), ELF["symbols"](take, "")
    assert note is None or isinstance(note, bytes)
    assert set(symbols) == {"wanted", "offered"}
