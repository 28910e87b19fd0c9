"""The child's lines become results, and whatever is no such line becomes a failed one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpustack.bench import readings, results, suite
from gpustack.bench.results import MALFORMED
from gpustack.matrix import Matrix
from gpustack.model.bench import Ecc, Link, Mark, Result, Span
from gpustack.model.versions import ComputeCapability
from tests.bench import lines

SEEN = results.opened(lines.OPENED, 0)
HOPPER = Matrix().arch(ComputeCapability(9, 0))
BENCHES = {bench.id: bench for bench in suite.listed()}


def judged(name: str, rate: float, /, **more: Any) -> Result:  # noqa: ANN401 - any field of the line
    return results.measured({**lines.measured(name, rate, 1.0), **more}, BENCHES[name], SEEN, HOPPER)


def test_a_copy_becomes_a_figure_beside_the_limit_of_its_direction() -> None:
    seen = judged("pcie.d2h.pinned", 55.46e9)
    assert seen.value == seen.median == pytest.approx(55.46)
    assert seen.ceiling == pytest.approx(57.6, abs=0.05)
    assert seen.ratio == pytest.approx(0.963, abs=1e-3)
    assert seen.ratio_held == seen.ratio
    assert (seen.verdict, seen.steady, seen.device, len(seen.samples)) == (Mark.OK, True, 0, 12)
    assert seen.method["way"] == "copy engine"
    assert judged("pcie.h2d.pinned", 55.56e9).ceiling == pytest.approx(58.45, abs=0.05)


def test_memory_and_products_have_the_limits_that_the_card_reports() -> None:
    assert judged("hbm.read", 4614e9).ceiling == pytest.approx(4814.3, abs=0.1)
    power = {**lines.READING, "mask": 0x4, "watts": 698.0}
    product = judged("gemm.bf16", 818.5e12, clocks=[1569.0] * 12, readings=[power])
    assert product.unit == "TFLOP/s"
    assert product.ceiling == pytest.approx(1070.5, abs=0.1)
    assert product.ratio_held == pytest.approx(0.965, abs=1e-3)
    assert product.why == ("power-bound: 1569 of 1980 MHz held, 698 of 700 W",)
    assert results.measured(lines.measured("gemm.bf16", 1e12, 1.0), BENCHES["gemm.bf16"], SEEN, None).ceiling is None


def test_telemetry_is_summed_up_over_the_window() -> None:
    after = {"replays": 4, "corrected": 1, "uncorrected": None, "events": {"4": 900, "16": 5, "32": 0}}
    seen = judged("pcie.d2h.pinned", 55e9, after=after).telemetry
    assert seen
    assert seen.readings == 2
    assert seen.power.watts == Span(low=450.0, median=455.0, high=460.0)
    assert seen.link == Link(generation=5, width=16, max_generation=5, max_width=16, replays=4)
    assert seen.ecc == Ecc(corrected=1, uncorrected=None)
    assert (seen.throttle.mask, seen.throttle.reasons) == (0x4, ("power cap",))
    assert (seen.clocks.held, seen.unavailable) == (1980.0, None)


def test_without_nvml_the_figure_stands_and_says_so() -> None:
    blind = dict.fromkeys(lines.READING) | {"at": 1.0}
    none = {"replays": None, "corrected": None, "uncorrected": None, "events": {"4": None}}
    seen = readings.summed(
        lines.measured("hbm.read", 1.0, 1.0, readings=[blind], before=none, after=none, clocks=[]), {}, ("1 x",)
    )
    assert seen.unavailable
    assert (seen.clocks.held, seen.power.watts, seen.processes) == (None, None, ("1 x",))


NONSENSE: dict[str, tuple[Any, ...]] = {
    "seconds": ([], [0.0], None),
    "amount": ("much",),
    "readings": ([3],),
    "before": ({},),
    "wall": (None,),
}


@pytest.mark.parametrize("bent", [{name: value} for name, values in NONSENSE.items() for value in values])
def test_what_is_malformed_is_a_failed_benchmark(bent: dict[str, Any]) -> None:
    seen = judged("hbm.read", 1e9, **bent)
    assert seen.verdict is Mark.FAILED
    assert seen.why[0].startswith("the child's answer is malformed")
    assert seen.value is None


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(sorted(lines.measured("x", 1, 1))), JSON))
def test_no_line_raises_whatever_is_in_it(bent: dict[str, Any]) -> None:
    seen = judged("gemm.tf32", 1e12, **bent)
    assert isinstance(seen.verdict, Mark)


@given(JSON | st.dictionaries(st.sampled_from(sorted(lines.OPENED)), JSON).map(lambda bent: {**lines.OPENED, **bent}))
def test_an_opened_gpu_is_one_or_one_of_the_errors_that_are_told(bent: Any) -> None:  # noqa: ANN401 - any JSON
    try:
        results.opened(bent, 0)
    except MALFORMED:
        return


def test_what_was_opened_is_told_of_every_gpu_and_more_of_ours() -> None:
    two = {**lines.OPENED, "devices": [lines.DEVICE, {**lines.DEVICE, "index": 1}], "others": ["7 python"]}
    seen = results.opened(two, 1)
    assert [device.driver for device in seen.devices] == [None, "580.159.04"]
    assert (seen.device.index, seen.others, seen.payload) == (1, ("7 python",), 256)
