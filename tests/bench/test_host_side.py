"""The host side on a stand-in driver: both directions at once, unpinned memory, launches, allocations."""

from __future__ import annotations

import os
import platform
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from gpustack import bench
from gpustack.bench.calls import Calls, RefusedError, Slope
from gpustack.bench.timing import Train
from gpustack.model.bench import BenchReport, Mark, Result

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpustack.bench.timing import Timer

MEASURED = {Mark.OK, Mark.UNSTEADY}  # on a busy machine there may not be enough samples in the time
pytestmark = pytest.mark.skipif(
    find_spec("cuda") is None or platform.machine() != "x86_64", reason="needs the bench extra, on x86-64"
)


def measured(driver: Path, *names: str, **fakes: str) -> dict[str, Result]:
    environ = {**os.environ, "LD_LIBRARY_PATH": str(driver), **fakes}
    report: BenchReport = bench.measure(names, quick=True, environ=environ, timeout=60)
    return {result.id: result for result in report.results}


def test_the_pieces_of_both_directions_add_up(driver: Path) -> None:
    result = measured(driver, "pcie.bidir.pinned")["pcie.bidir.pinned"]
    assert result.verdict in MEASURED, result
    assert result.value == pytest.approx(55.5, rel=1e-3)  # both directions share one copy engine here
    assert result.method["h2d_gb_s"] == result.method["d2h_gb_s"] == pytest.approx(27.75, rel=0.01)


def test_memory_that_is_not_pinned_has_no_gate_and_no_limit_but_a_processor(driver: Path) -> None:
    for result in measured(driver, "pcie.*.pageable").values():
        assert result.verdict in MEASURED, result
        assert result.value == pytest.approx(55.5, rel=1e-3)
        assert (result.ceiling, result.ratio, result.method["gated"]) == (None, None, False)
        assert result.method["processor"]
        assert "NUMA" in str(result.method["numa"])


def test_times_are_reported_in_their_units_and_judged_against_nothing(driver: Path) -> None:
    seen = measured(driver, "pcie.latency", "launch.*", "alloc.*")
    assert {result.verdict for result in seen.values()} <= MEASURED, seen
    assert seen["pcie.latency"].value == pytest.approx(1128, rel=1e-3)
    assert seen["pcie.latency"].unit == "ns"
    assert seen["launch.kernel"].value == pytest.approx(2.4, rel=1e-3)
    assert seen["launch.graph"].value == pytest.approx(1.0, rel=0.05)
    assert all(result.ceiling is None and result.lower_is_better for result in seen.values())


def test_what_python_and_the_gpu_take_is_reported_beside_a_launch(driver: Path) -> None:
    method = measured(driver, "launch.kernel")["launch.kernel"].method
    assert method["gpu_us"] == pytest.approx(2.4, rel=1e-3)
    assert isinstance(method["python_us"], float)
    assert 0 < method["python_us"] < 50


class Counted(Calls):
    """Calls that are only counted, and that each take Python a fifth of a microsecond."""

    made = 0

    def __call__(self, count: int) -> None:
        type(self).made = count

    def idle(self, count: int) -> float:
        return count * 0.2e-6


class Clock:
    """A timer on which a burst takes five microseconds, plus one for each call; its gate holds."""

    gated = True

    def first(self, run: Callable[[], None]) -> None:
        run()

    def open(self) -> Clock:
        return self

    def train(self, run: Callable[[], None], _: int) -> Train:
        run()
        return Train(5e-6 + Counted.made * 1e-6, 1980.0)


@pytest.mark.parametrize(("queued", "seconds"), [(0, 0.8e-6), (64, 1e-6)])
def test_of_what_a_call_costs_the_part_of_python_is_taken_off(queued: int, seconds: float) -> None:
    slope = Slope(Counted(steps=[("none", ())]), count=100, queued=queued)
    assert slope.take(cast("Timer", Clock())).seconds == pytest.approx(seconds)
    assert slope.told()["python_us"] == pytest.approx(0.2)


@pytest.mark.parametrize("version", ["12000", "12040"])
def test_older_drivers_have_all_that_is_needed(driver: Path, version: str) -> None:
    names = ("pcie.bidir.pinned", "pcie.h2d.pageable", "pcie.latency", "launch.*", "alloc.*")
    seen = measured(driver, *names, FAKE_CUDA=version)
    assert {result.verdict for result in seen.values()} <= MEASURED, seen


@pytest.mark.parametrize(
    ("name", "wrong", "says"),
    [
        ("pcie.bidir.pinned", "h2d", "did not get what the"),
        ("pcie.bidir.pinned", "d2h", "did not get what the"),
        ("pcie.h2d.pageable", "h2d", "what came back is not what was sent"),
        ("pcie.d2h.pageable", "d2h", "what came back is not what was sent"),
        ("pcie.latency", "chase", "the chain of reads led to place"),
        ("launch.kernel", "launch", "0 of 1024 launches were run"),
        ("launch.graph", "launch", "0 of 1024 launches were run"),
        ("alloc.async", "copy", "does not keep what is written"),
    ],
)
def test_a_wrong_result_is_a_failure_and_no_figure(driver: Path, name: str, wrong: str, says: str) -> None:
    result = measured(driver, name, FAKE_WRONG=wrong)[name]
    assert result.verdict is Mark.FAILED
    assert says in result.why[0]
    assert result.value is None


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("launch.kernel", "cuLaunchKernel@900=719"),
        ("launch.graph", "cuGraphInstantiateWithFlags=801"),
        ("alloc.async", "cuMemAllocAsync@20=801"),
    ],
)
def test_a_refused_call_is_reported_by_name(driver: Path, name: str, fault: str) -> None:
    result = measured(driver, name, FAKE_FAULT=fault)[name]
    assert result.verdict is Mark.FAILED
    assert fault.partition("@")[0].partition("=")[0] in result.why[0]


def test_a_loop_of_calls_stops_at_the_first_that_is_refused() -> None:
    made: list[int] = []

    def third(argument: int) -> int:
        made.append(argument)
        return 700 if len(made) == 3 else 0

    calls = Calls(steps=[("third", (7,))])
    calls.__dict__["_functions"] = [third]
    with pytest.raises(RefusedError, match="third answered 700"):
        calls(10)
    assert made == [7, 7, 7]
