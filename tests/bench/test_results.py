"""The child's lines become results, and any other line becomes a failed one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpustack.bench import readings, results, siblings, suite
from gpustack.bench.results import MALFORMED
from gpustack.matrix import Matrix
from gpustack.model.bench import Ecc, Hop, Link, Mark, NvLink, Result, Span
from gpustack.model.report import Severity
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


@pytest.mark.parametrize(
    ("mark", "severity"),
    [
        (Mark.FAILED, Severity.ERROR),
        (Mark.LOW, Severity.WARNING),
        (Mark.UNSTEADY, Severity.INFO),
        (Mark.SKIPPED, Severity.INFO),
    ],
)
def test_a_figure_that_needs_a_word_becomes_a_finding_of_its_weight(mark: Mark, severity: Severity) -> None:
    (finding,) = siblings.found([replace(judged("hbm.read", 4614e9), verdict=mark)])
    assert (finding.key, finding.severity) == (f"bench-{mark.value}@hbm.read on GPU 0", severity)
    assert siblings.found([judged("hbm.read", 4614e9)]) == ()


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
    assert seen.link == Link(generation=5, width=16, max_generation=5, max_width=16, replays=4, payload=256)
    assert seen.ecc == Ecc(corrected=1, uncorrected=None)
    assert (seen.throttle.mask, seen.throttle.reasons) == (0x4, ("power cap",))
    assert (seen.clocks.held, seen.unavailable) == (1980.0, None)


def test_a_long_product_is_called_power_bound_with_its_clock_and_watts() -> None:
    """As an H200 behaves under a bf16 product without pauses: the burst is over before NVML sees the power."""
    full = {**lines.READING, "sm": 1410, "mask": 0x4, "watts": 699.0}
    held = {
        "asked": 5.0,
        "seconds": [1.4] * 12,
        "clocks": [1410.0] * 12,
        "readings": [full] * 9,
        "before": lines.COUNTERS,
        "after": lines.COUNTERS,
    }
    seen = judged("gemm.bf16", 990e12, sustained=held)
    assert seen.why == ()
    assert seen.sustained
    assert seen.sustained.why == ("power-bound: 1410 of 1980 MHz held, 699 of 700 W",)
    assert seen.verdict is Mark.OK


def test_links_are_reported_at_their_best_and_others_as_they_were_at_either_end() -> None:
    idle, busy = ["0000:06:00.0", 1, 16, 5, 16], ["0000:06:00.0", 5, 16, 5, 16]
    bridge = ["0000:05:00.0", None, None, 5, 16]
    rows = [{**lines.READING, "hops": [idle, bridge]}, {**lines.READING, "hops": None, "state": 0}]
    rows += [{**lines.READING, "hops": [busy, bridge], "state": 2}]
    before = {**lines.COUNTERS, "others": ["7 python, 1.0 GiB"], "used": 0, "nvlink_errors": 4}
    after = {**lines.COUNTERS, "others": ["7 python, 2.0 GiB", "9 ollama"], "used": 63, "nvlink_errors": 6}
    limits = {**lines.OPENED["limits"], "nvlinks": {"total": 18, "active": 17}, "busy": 40, "slice": "9 of 140 GiB"}
    line = lines.measured("pcie.d2h.pinned", 1.0, 1.0, readings=rows, before=before, after=after)
    seen = readings.summed(line, limits, ("1 gone",), 256)
    assert seen.link.hops == (
        Hop(address="0000:06:00.0", generation=5, width=16, max_generation=5, max_width=16),
        Hop(address="0000:05:00.0", max_generation=5, max_width=16),
    )
    assert seen.processes == ("7 python, 2.0 GiB", "9 ollama")
    assert (seen.others_percent, seen.busy_percent, seen.mig_slice) == (63, 40, "9 of 140 GiB")
    assert (seen.nvlink, seen.performance_state) == (NvLink(total=18, active=17, errors=2), 2)


def test_without_nvml_the_figure_remains_and_says_so() -> None:
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


def test_what_was_opened_is_reported_for_every_gpu_and_more_of_ours() -> None:
    two = {**lines.OPENED, "devices": [lines.DEVICE, {**lines.DEVICE, "index": 1}], "others": ["7 python"]}
    seen = results.opened(two, 1)
    assert [device.driver for device in seen.devices] == [None, "580.159.04"]
    assert (seen.device.index, seen.others, seen.payload) == (1, ("7 python",), 256)


def test_both_directions_together_have_the_limits_of_both() -> None:
    seen = judged("pcie.bidir.pinned", 103.1e9)
    assert seen.ceiling == pytest.approx(58.45 + 57.6, abs=0.1)
    assert seen.ratio == pytest.approx(0.888, abs=1e-3)
    assert seen.verdict is Mark.OK
    assert judged("pcie.bidir.pinned", 70e9).verdict is Mark.LOW


@pytest.mark.parametrize(
    ("name", "operations", "seconds", "value", "unit"),
    [
        ("pcie.latency", 2048, 2048 * 1128e-9, 1128, "ns"),
        ("launch.kernel", 1, 2.43e-6, 2.43, "µs"),
        ("launch.graph", 1024, 1024 * 0.99e-6, 0.99, "µs"),
        ("alloc.async", 1, 1.2e-6, 1.2, "µs"),
    ],
)
def test_a_time_is_that_of_one_operation_and_never_low(
    name: str, operations: float, seconds: float, value: float, unit: str
) -> None:
    seen = results.measured(lines.measured(name, operations, seconds), BENCHES[name], SEEN, HOPPER)
    slow = results.measured(lines.measured(name, operations, 100 * seconds), BENCHES[name], SEEN, HOPPER)
    assert seen.value == pytest.approx(value)
    assert seen.unit == unit
    assert (slow.verdict, slow.ceiling, slow.lower_is_better) == (Mark.OK, None, True)
    assert seen.ceiling_from
    assert seen.ceiling_from.startswith("none: ")


def test_memory_that_is_not_pinned_is_judged_against_nothing() -> None:
    seen = judged("pcie.h2d.pageable", 8e9)
    assert seen.value == pytest.approx(8.0)
    assert (seen.ceiling, seen.verdict) == (None, Mark.OK)
