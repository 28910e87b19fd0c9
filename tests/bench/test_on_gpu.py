"""The benchmarks on a real GPU: values within ranges, not exact numbers."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from gpustack import bench
from gpustack.model.bench import BenchReport, Mark

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not Path("/dev/nvidiactl").exists(), reason="there is no NVIDIA driver here"),
]


@cache
def report() -> BenchReport:
    return bench.measure(quick=True)


def test_every_benchmark_has_a_figure_under_its_limit() -> None:
    for result in report().results:
        if result.verdict is Mark.SKIPPED:
            assert result.remedy or result.why
            continue
        assert result.verdict in {Mark.OK, Mark.LOW, Mark.UNSTEADY}, result
        assert result.value
        assert result.ratio is None or 0.05 < result.ratio < 1.02


def test_figures_have_their_samples_and_what_the_card_did() -> None:
    for result in report().results:
        if result.value is not None:
            assert len(result.samples) >= 6
            assert result.telemetry
            assert result.telemetry.clocks.held


def test_two_runs_agree_where_both_are_steady() -> None:
    again = {
        (result.name(), result.device): result for result in bench.measure(("pcie.*", "hbm.*"), quick=True).results
    }
    for result in report().results:
        other = again.get((result.name(), result.device))
        if other and result.steady and other.steady:
            assert result.value == pytest.approx(other.value, rel=0.02)


def test_zeros_need_no_more_time_than_random_numbers() -> None:
    (zeros,) = bench.measure(("gemm.bf16",), quick=True, gpus=[0], data="zeros").results
    random = next(result for result in report().results if result.id == "gemm.bf16")
    if zeros.value and random.value:
        assert zeros.value > 0.97 * random.value


def test_products_of_narrow_types_are_right_and_faster_than_those_of_wide_ones() -> None:
    seen = {
        one.id: one for one in bench.measure(("gemm.fp8", "gemm.int8", "gemm.bf16", "gemm.fp64"), quick=True).results
    }
    assert {one.verdict for one in seen.values()} <= {Mark.OK, Mark.LOW, Mark.UNSTEADY, Mark.SKIPPED}
    fp8, bf16 = seen["gemm.fp8"].value, seen["gemm.bf16"].value
    if fp8 and bf16:
        assert 1.3 < fp8 / bf16 < 2.2


def test_work_without_rest_is_not_faster_than_the_burst_and_has_its_watts() -> None:
    (result,) = bench.measure(("gemm.bf16",), quick=True, gpus=[0], sustain=3.0).results
    if result.sustained and result.value:
        assert 0.5 < result.sustained.value / result.value < 1.02
        assert result.sustained.telemetry
        assert result.sustained.telemetry.clocks.held


def test_a_short_load_finds_no_wrong_bit() -> None:
    for result in bench.stress(3.0).results:
        assert result.verdict in {Mark.OK, Mark.LOW, Mark.SKIPPED}, result
        if result.stress:
            assert result.stress.products > 1
            assert result.stress.wrong_bits == 0


def test_nearer_memory_is_faster() -> None:
    values = {result.id: result.value for result in report().results if result.value}
    rates = [values[name] for name in ("hbm.copy", "hbm.read", "l2.read", "smem.read") if name in values]
    assert rates == sorted(rates)


def test_kernels_say_how_they_came_about() -> None:
    for result in report().results:
        if result.id.startswith(("hbm.r", "hbm.w", "hbm.t", "l2.", "smem.")) and result.value:
            assert str(result.method["kernels"]).startswith(("compiled for sm_", "shipped PTX: "))


def test_the_host_side_is_within_what_hosts_do() -> None:
    some = bench.measure(("pcie.*", "launch.*", "alloc.*"), quick=True, gpus=[0])
    seen = {result.id: result for result in some.results}
    ranges = {
        "pcie.latency": (200, 10_000),
        "launch.kernel": (0.5, 50),
        "launch.graph": (0.1, 20),
        "alloc.async": (0.05, 100),
    }
    for name, (least, most) in ranges.items():
        value = seen[name].value
        assert value is not None, seen[name]
        assert least < value < most
    one, both = seen["pcie.h2d.pinned"].value, seen["pcie.bidir.pinned"].value
    assert one
    assert both
    assert 0.9 * one < both < 2.1 * one
    for way in ("h2d", "d2h"):
        pinned, pageable = seen[f"pcie.{way}.pinned"].value, seen[f"pcie.{way}.pageable"].value
        assert pinned
        assert pageable
        assert pageable < 1.1 * pinned
    links = [one for name, one in seen.items() if name.startswith("pcie.") and one.value and not name.endswith(".all")]
    assert all("NUMA" in str(one.method["numa"]) for one in links)


def test_what_goes_on_between_gpus_is_within_what_their_links_allow() -> None:
    results = bench.measure(("p2p.*", "nccl.*")).results
    for result in results:
        if result.verdict is Mark.SKIPPED:
            assert result.remedy
            continue
        assert result.verdict in {Mark.OK, Mark.LOW, Mark.UNSTEADY}, result
        assert result.value
        assert result.ratio is None or 0.05 < result.ratio < 1.02
        if result.id == "p2p.latency":
            assert 200 < result.value < 10_000
        both = result.method.get("both_gb_s")
        if isinstance(both, float):
            assert 0.9 * result.value < both < 2.1 * result.value
        if result.id == "nccl.all_reduce":
            assert str(result.method["library"]).rpartition("/")[2].startswith("libnccl.so.2")
    assert len({result.name() for result in results}) == len(results)
