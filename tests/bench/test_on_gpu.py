"""The benchmarks on a real GPU: figures in ranges, not numbers."""

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
    again = {result.id: result for result in bench.measure(("pcie.*", "hbm.*"), quick=True).results}
    for result in report().results:
        other = again.get(result.id)
        if other and result.steady and other.steady:
            assert result.value == pytest.approx(other.value, rel=0.02)


def test_zeros_need_no_more_time_than_random_numbers() -> None:
    (zeros,) = bench.measure(("gemm.bf16",), quick=True, data="zeros").results
    random = next(result for result in report().results if result.id == "gemm.bf16")
    if zeros.value and random.value:
        assert zeros.value > 0.97 * random.value
