"""The small modules of the bench: the list of benchmarks, libraries, payloads, progress, and the shipped PTX."""

from __future__ import annotations

import io
import os
import struct
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpustack import assets
from gpustack.bench import listed, numa, progress, setting, suite
from gpustack.errors import BrokenError, NothingSeenError, UsageError
from gpustack.model.bench import Mark, Result
from tests.leaving import leave_out
from tools import kernels

LISTED = (
    "pcie.h2d.pinned",
    "pcie.d2h.pinned",
    "pcie.h2d.all",
    "pcie.d2h.all",
    "pcie.bidir.pinned",
    "pcie.h2d.far",
    "pcie.d2h.far",
    "pcie.h2d.pageable",
    "pcie.d2h.pageable",
    "pcie.latency",
    "hbm.read",
    "hbm.write",
    "hbm.copy",
    "hbm.triad",
    "l2.read",
    "smem.read",
    "gemm.fp64",
    "gemm.fp32",
    "gemm.tf32",
    "gemm.fp16",
    "gemm.bf16",
    "gemm.fp8",
    "gemm.int8",
    "gemm.fp4",
    "launch.kernel",
    "launch.graph",
    "alloc.async",
    "p2p.bandwidth",
    "p2p.all_to_all",
    "p2p.latency",
    "nccl.all_reduce",
    "nccl.all_gather",
    "nccl.reduce_scatter",
    "nccl.all_to_all",
    "nccl.send_recv",
)


def test_the_benchmarks_are_those_that_are_promised() -> None:
    assert listed() == LISTED


def test_names_and_patterns_choose_in_the_order_of_the_list() -> None:
    assert [bench.id for bench in suite.chosen(["hbm.c*", "pcie.*"])] == [*LISTED[:10], "hbm.copy"]
    assert [bench.id for bench in suite.chosen([])] == list(LISTED)
    with pytest.raises(UsageError, match="HBM"):
        suite.chosen(["HBM.read"])


@pytest.mark.parametrize("text", [None, "BENCHES = 3", "import nothing_of_this_name", "BENCHES = {'a': {}}", "x ="])
def test_a_damaged_benchmark_is_our_bug(text: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if text is not None:
        (tmp_path / "pcie.py").write_text(text)
    monkeypatch.setattr(assets, "MICROBENCH", tmp_path)
    suite.listed.cache_clear()
    try:
        with pytest.raises(BrokenError, match=r"pcie\.py"):
            listed()
    finally:
        suite.listed.cache_clear()


def test_every_benchmark_says_its_unit_and_its_formula() -> None:
    for family in suite.FAMILIES:
        text = (assets.MICROBENCH / f"{family}.py").read_text("utf-8").partition('"""\n\nfrom')[0]
        for bench in suite.listed():
            if bench.id.startswith(family + "."):
                assert any(line.split()[:2] == [bench.id, bench.unit] for line in text.splitlines())


def test_the_shipped_ptx_is_made_of_the_shipped_sources() -> None:
    """When this fails: ``python -m tools.kernels``."""
    assert {"engine.cu", "hbm.cu", "cache.cu", "probe.cu"} <= {source.name for source in kernels.sources()}
    for source in kernels.sources():
        text = source.with_suffix(".ptx").read_text("utf-8")
        assert kernels.origin(text) == kernels.expected(source)
        oldest = 80 if source.name == "probe.cu" else 60  # there is no such product before Ampere
        assert f"\n.version 8.0\n.target sm_{oldest}\n" in text  # what a branch 525 driver can read


def test_the_shipped_ptx_is_what_the_compiler_makes() -> None:
    try:
        nvrtc = kernels.find()
    except NothingSeenError:
        leave_out(f"NVRTC 12.0 is not installed: {kernels.REMEDY}")
    with ThreadPoolExecutor(1) as apart:  # NVRTC leaves the calling thread in the C locale
        made = [apart.submit(kernels.build, source, nvrtc).result() for source in kernels.sources()]
        refused = apart.submit(nvrtc.ptx, "__global__ void f() { nonsense }", "nonsense.cu", ()).exception()
    assert made == [source.with_suffix(".ptx").read_text("utf-8") for source in kernels.sources()]
    assert isinstance(refused, BrokenError)
    assert "does not compile" in str(refused)


@pytest.fixture
def stand_in(compile_library: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder of sources, beside a stand-in for the compiler's wheel."""
    wheel = tmp_path / "site/nvidia/cuda_nvrtc/lib"
    wheel.mkdir(parents=True)
    (wheel / "libnvrtc.so.12").symlink_to(compile_library("libnvrtc_bench.c", "libnvrtc.so.12", "-w"))
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    sources = tmp_path / "sources"
    sources.mkdir()
    monkeypatch.setattr(assets, "MICROBENCH", sources)
    return sources


def test_new_ptx_is_written_beside_its_source(stand_in: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (stand_in / "new.cu").write_text("__global__ void f() {}")
    kernels.main()
    text = (stand_in / "new.ptx").read_text()
    assert text.endswith(".version 8.0 // new.cu\n")
    assert kernels.origin(text) == kernels.expected(stand_in / "new.cu")
    assert capsys.readouterr().out == f"new.ptx: {len(text)} bytes\n"
    (stand_in / "new.cu").write_text("__global__ void g() {}")
    assert kernels.origin(text) != kernels.expected(stand_in / "new.cu")


@pytest.mark.parametrize(("source", "says"), [("#error", "line 1: told to fail"), ("", "NVRTC answered 3")])
def test_what_the_compiler_refuses_is_our_bug(stand_in: Path, source: str, says: str) -> None:
    (stand_in / "bad.cu").write_text(source)
    with pytest.raises(BrokenError, match=says):
        kernels.main()


@pytest.mark.usefixtures("stand_in")
def test_another_compiler_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_NVRTC", "13")
    with pytest.raises(NothingSeenError, match=r"is NVRTC 13\.0, not 12\.0"):
        kernels.find()


@given(st.text())
def test_any_text_has_an_origin_or_none(text: str) -> None:
    seen = kernels.origin(text)
    assert seen is None or seen.source in text


def config(*, code: int, at: int = 0x60, status: int = 0x10, following: int = 0) -> bytes:
    space = bytearray(256)
    space[0x06], space[0x34] = status, 0x40
    space[0x40:0x42] = (0x01, at)  # power management first
    space[at : at + 2] = (0x10, following)
    struct.pack_into("<H", space, at + 8, code << 5 | 0x10)
    return bytes(space)


@pytest.mark.parametrize(
    ("space", "wanted"),
    [
        (config(code=0), 128),
        (config(code=1), 256),
        (config(code=5), 4096),
        (config(code=7), None),
        (config(code=1)[:64], None),
        (config(code=1, status=0), None),
        (b"", None),
        (config(code=1)[:0x60] + b"\x01\x40" + bytes(200), None),
    ],
)
def test_the_payload_is_read_from_the_configuration(space: bytes, wanted: int | None, tmp_path: Path) -> None:
    folder = tmp_path / "bus/pci/devices/0000:00:06.0"
    folder.mkdir(parents=True)
    (folder / "config").write_bytes(space)
    assert numa.payload("0000:00:06.0", str(tmp_path)) == wanted


def test_a_payload_that_is_not_shown_is_unknown(tmp_path: Path) -> None:
    assert numa.payload("0000:00:06.0", str(tmp_path)) is None


@given(st.binary(max_size=300))
def test_any_configuration_has_a_legal_payload_or_none(tmp_path_factory: pytest.TempPathFactory, space: bytes) -> None:
    folder = tmp_path_factory.mktemp("sys") / "bus/pci/devices/x"
    folder.mkdir(parents=True)
    (folder / "config").write_bytes(space)
    assert numa.payload("x", str(folder.parents[3])) in {None, 128, 256, 512, 1024, 2048, 4096}


def copies(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()


def test_the_library_is_the_youngest_of_the_first_environment_that_has_one(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    copies(second, "lib/libcublasLt.so.11", "lib/python3.10/site-packages/nvidia/cublas/lib/libcublasLt.so.12")
    assert setting.of_environment([str(first), str(second)]) == str(
        second / "lib/python3.10/site-packages/nvidia/cublas/lib/libcublasLt.so.12"
    )
    copies(first, "lib/libcublasLt.so.12.9.1.4", "lib/libcublasLt.so.x")
    assert setting.of_environment([str(first)]) is None
    copies(first, "lib/libcublasLt.so.12")
    assert setting.of_environment([str(first), str(second)]) == str(first / "lib/libcublasLt.so.12")
    assert setting.of_environment([]) is None


RESULT = Result(
    id="hbm.read", device=0, unit="GB/s", verdict=Mark.LOW, value=3000.0, ratio=0.62, why=("62% of the limit",)
)
NONE = Result(id="gemm.bf16", device=1, unit="TFLOP/s", verdict=Mark.SKIPPED, why=("no library",))


def test_a_pipe_gets_one_line_a_benchmark() -> None:
    stream = io.StringIO()
    shown = progress.shown_on(stream)
    shown.started("hbm.read", 1, 2)
    shown.moved(0.5)
    shown.finished(RESULT, 1, 2)
    shown.finished(NONE, 2, 2)
    shown.close()
    assert stream.getvalue() == (
        "[1/2] hbm.read 3000 GB/s, 62% of the limit: low (62% of the limit)\n"
        "[2/2] gemm.bf16 on GPU 1: skipped (no library)\n"
    )


def test_a_terminal_gets_a_line_that_moves() -> None:
    primary, secondary = os.openpty()
    with os.fdopen(primary, "rb", buffering=0) as seen, os.fdopen(secondary, "w") as stream:
        shown = progress.shown_on(stream)
        shown.started("hbm.read", 1, 2)
        shown.moved(0.5)
        shown.finished(RESULT, 1, 2)
        shown.close()
        text = ""
        while text.count(progress.ERASE) < 4:  # a terminal receives its output piece by piece
            text += seen.read(4096).decode()
    assert f"{'#' * 6}{'-' * 18} [1/2] hbm.read, about 0 s left" in text
    assert "[1/2] hbm.read 3000 GB/s" in text
    assert text.endswith(progress.ERASE)


def test_a_silent_progress_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    shown: progress.Progress = progress.Progress()
    shown.started("hbm.read", 1, 1)
    shown.moved(0.1)
    shown.finished(RESULT, 1, 1)
    shown.close()
    assert capfd.readouterr() == ("", "")
