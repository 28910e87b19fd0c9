"""Kernels compiled at run time: which compiler is used, what is cached, and how a damaged cache is handled."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gpustack import assets
from gpustack.bench import compiling
from gpustack.bench.compiling import Code, Kernels, keep, read


@pytest.fixture
def toolkit(compile_library: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a toolkit with a stand-in compiler, the only one found here, and one source with its shipped PTX."""
    (tmp_path / "toolkit/lib64").mkdir(parents=True)
    (tmp_path / "toolkit/lib64/libnvrtc.so.12").symlink_to(compile_library("libnvrtc_bench.c", "libnvrtc.so.12", "-w"))
    (tmp_path / "sources").mkdir()
    (tmp_path / "sources/one.cu").write_text("__global__ void f() {}")
    (tmp_path / "sources/one.ptx").write_text("the shipped text")
    monkeypatch.setattr(assets, "MICROBENCH", tmp_path / "sources")
    monkeypatch.setattr(compiling, "USUAL_TOOLKIT", str(tmp_path / "none"))
    monkeypatch.setattr("sys.path", [])
    return tmp_path / "toolkit"


def made(toolkit: Path, *, major: int = 9, cuda: int = 12080, **environ: str) -> Code:
    """Return the code of the source as a new process would get it: nothing is remembered but the cache."""
    place = {"CUDA_HOME": str(toolkit), "XDG_CACHE_HOME": str(toolkit.parent / "cache"), **environ}
    return Kernels(capability=(major, 0), cuda=cuda, environ=place).code("one")


def number(code: Code) -> int:
    """Return how many sources the stand-in compiler had compiled when it made this."""
    return int(code.data.split()[1])


def test_what_was_compiled_is_kept_for_the_next_run(toolkit: Path) -> None:
    first, second = made(toolkit), made(toolkit)
    assert (first.compiled, first.how) == (True, "compiled for sm_90a by NVRTC 12.0")
    assert second == Code(data=first.data, compiled=True, how=f"{first.how}, cached from an earlier run")


def test_another_source_architecture_or_compiler_is_another_entry(
    toolkit: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = [number(made(toolkit)), number(made(toolkit, major=8))]
    (assets.MICROBENCH / "one.cu").write_text("__global__ void g() {}")
    seen.append(number(made(toolkit)))
    monkeypatch.setenv("FAKE_NVRTC", "11")
    seen.append(number(made(toolkit)))
    assert seen == list(range(seen[0], seen[0] + 4))
    assert len(list((toolkit.parent / "cache/gpustack/kernels").iterdir())) == 4


@pytest.mark.parametrize("damage", [b"", b"short", b"\x00" * 200])
def test_a_damaged_entry_is_recreated(toolkit: Path, damage: bytes) -> None:
    first = made(toolkit)
    (entry,) = (toolkit.parent / "cache/gpustack/kernels").iterdir()
    entry.write_bytes(damage or entry.read_bytes()[:-1])
    second = made(toolkit)
    assert number(second) == number(first) + 1
    assert "kept" not in second.how
    assert made(toolkit).data == second.data


def test_where_nothing_can_be_kept_it_is_compiled_every_time(toolkit: Path) -> None:
    (toolkit.parent / "file").touch()  # no folder can be created below a file, not even by root
    for place in (str(toolkit.parent / "file"), "relative"):
        codes = [made(toolkit, XDG_CACHE_HOME=place, HOME="") for _ in range(2)]
        assert [code.compiled for code in codes] == [True, True]
        assert number(codes[1]) == number(codes[0]) + 1


def test_without_a_place_of_its_own_the_cache_is_in_the_home(toolkit: Path) -> None:
    made(toolkit, XDG_CACHE_HOME="", HOME=str(toolkit.parent))
    assert list((toolkit.parent / ".cache/gpustack/kernels").glob("one-sm_90a-*.cubin"))


def test_half_an_entry_is_never_seen(tmp_path: Path) -> None:
    entry = tmp_path / "deep/entry"
    assert read(entry) is None
    keep(entry, b"code")
    assert read(entry) == b"code"
    entry.unlink()
    entry.mkdir()
    keep(entry, b"code")  # a folder at its path cannot be replaced by a file
    assert list(entry.parent.iterdir()) == [entry]


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"major": 12}, "NVRTC 12.0 does not know sm_120"),
        ({"cuda": 11080}, "NVRTC 12 is newer than the driver"),
        ({"CUDA_HOME": ""}, "no NVRTC was found"),
    ],
)
def test_without_a_fitting_compiler_the_shipped_text_is_taken(
    toolkit: Path, asked: dict[str, str | int], why: str
) -> None:
    assert made(toolkit, **asked) == Code(  # type: ignore[arg-type]
        data=b"the shipped text", compiled=False, how=f"shipped PTX: {why}"
    )


def test_a_source_that_the_compiler_refuses_is_taken_as_shipped(toolkit: Path) -> None:
    (assets.MICROBENCH / "one.cu").write_text("#error")
    code = made(toolkit)
    assert (code.data, code.compiled) == (b"the shipped text", False)
    assert code.how == "shipped PTX: NVRTC 12.0 refused the source (line 1: told to fail)"


def test_a_compiler_that_cannot_be_loaded_is_skipped(toolkit: Path) -> None:
    wheel = toolkit.parent / "site/nvidia/cuda_nvrtc/lib"
    wheel.mkdir(parents=True)
    (wheel / "libnvrtc.so.12").write_text("no library")
    library = str(toolkit.parent / "site/nvidia/cublas/lib/libcublasLt.so.12")
    place = {"CUDA_HOME": str(toolkit)}
    assert [path.parent for _, path in compiling.copies(library, [], place)] == [wheel, toolkit / "lib64"]
    assert Kernels(capability=(9, 0), cuda=12080, library=library, environ=place).code("one").compiled
