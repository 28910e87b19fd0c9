"""Several runs of the suite, and several GPUs of one model: how their measurements are combined."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpustack.bench.case import merged
from gpustack.bench.siblings import compared
from gpustack.model.bench import Clocks, Link, Mark, Power, Result, Telemetry, Temperature
from tests.bench.cases import at
from tests.bench.test_ceilings import H200


def run(value: float | None, verdict: Mark = Mark.OK, **more: object) -> Result:
    known = Result(
        id="hbm.read",
        device=0,
        unit="GB/s",
        verdict=verdict,
        value=value,
        samples=(value * 0.999, value, value * 1.001) * 4 if value else (),
        steady=True,
        ceiling=5000.0,
        ratio=value / 5000 if value else None,
        seconds=1.0,
    )
    return replace(known, **more)  # type: ignore[arg-type]  # each test names real fields


def test_the_median_of_the_runs_stands_for_all_and_every_sample_is_kept() -> None:
    (seen,) = merged([run(4600.0), run(4620.0), run(4610.0)])
    assert (seen.value, seen.median, seen.runs) == (4610.0, 4610.0, (4600.0, 4620.0, 4610.0))
    assert len(seen.samples) == 36
    assert seen.samples[0] == pytest.approx(4595.4)
    assert seen.interval
    assert seen.interval[0] < 4610.0 < seen.interval[1]
    assert seen.ratio == pytest.approx(0.922)
    assert (seen.verdict, seen.steady, seen.seconds) == (Mark.OK, True, 3.0)


def test_the_run_in_the_middle_stands_for_how_it_was_measured() -> None:
    ways = {4600.0: "low", 4620.0: "high", 4610.0: "middle"}
    (seen,) = merged([run(value, method={"way": way}) for value, way in ways.items()])
    assert seen.method == {"way": "middle"}


def test_a_run_that_was_not_steady_leaves_the_figure_not_steady_however_well_they_agree() -> None:
    (seen,) = merged([run(4600.0), run(4601.0, Mark.UNSTEADY, steady=False, why=("not steady: drifting",))])
    assert (seen.verdict, seen.steady, seen.why) == (Mark.UNSTEADY, False, ("not steady: drifting",))


def test_runs_that_differ_are_not_steady_however_steady_each_was() -> None:
    (seen,) = merged([run(4600.0), run(4300.0), run(4600.0)])
    assert (seen.verdict, seen.steady) == (Mark.UNSTEADY, False)
    assert seen.why[0] == "not steady: 3 runs differ by 6.5%"


def test_one_low_run_makes_the_figure_low_with_its_reason_and_one_failed_run_fails_it() -> None:
    low = run(4600.0, Mark.LOW, why=("also computing on this GPU: 7 python",))
    (seen,) = merged([run(4601.0), low])
    assert (seen.verdict, seen.why) == (Mark.LOW, ("also computing on this GPU: 7 python",))
    (failed,) = merged([run(4600.0), run(None, Mark.FAILED, why=("wrong",))])
    assert (failed.verdict, failed.why) == (Mark.FAILED, ("wrong",))


def test_one_run_and_skipped_benchmarks_are_left_as_they_are() -> None:
    alone, skipped = run(4600.0), run(None, Mark.SKIPPED, id="gemm.fp4")
    assert merged([alone, skipped, skipped]) == (alone, skipped)
    assert alone.runs == ()


def test_the_parts_of_the_limit_of_a_time_fall_as_it_grows() -> None:
    times = [run(value, unit="µs", ratio=2.0 / value) for value in (4.0, 4.02)]
    (seen,) = merged(times)
    assert seen.value == pytest.approx(4.01)
    assert seen.ratio == pytest.approx(2.0 / 4.01)


def gpus(*values: float, unit: str = "GB/s") -> tuple[Result, ...]:
    return tuple(run(value, device=place, unit=unit) for place, value in enumerate(values))


DEVICES = tuple(replace(H200, index=place) for place in range(4))


def test_a_gpu_far_below_its_siblings_is_low_and_told_in_what_it_differs() -> None:
    whole = Telemetry(
        clocks=Clocks(held=1980.0), temperature=Temperature(gpu=at(55.0)), power=Power(limit=700.0), link=Link(width=16)
    )
    hot = Telemetry(
        clocks=Clocks(held=1410.0),
        temperature=Temperature(gpu=at(86.0)),
        power=Power(limit=500.0),
        link=Link(width=8),
        processes=("7 python",),
    )
    results = [replace(one, telemetry=whole) for one in gpus(800.0, 805.0, 810.0, 600.0)]
    results[3] = replace(results[3], telemetry=hot)
    seen = compared(results, DEVICES)
    assert [one.verdict for one in seen] == [Mark.OK, Mark.OK, Mark.OK, Mark.LOW]
    (why,) = seen[3].why
    assert why == (
        "75% of what its siblings reach (802.5 GB/s; GPU 0, 1, 2): its clock held 1410 MHz, theirs 1980; "
        "it was at 86 °C, they at 55; its power limit is 500 W, theirs 700; its link has 8 lanes, theirs 16; "
        "others are on it: 7 python"
    )
    assert seen[3].advice


def test_the_ordinary_differences_of_siblings_say_nothing() -> None:
    results = gpus(800.0, 805.0, 760.0, 790.0)
    assert compared(results, DEVICES) == results


def test_of_two_the_worse_is_the_outlier_and_of_times_the_longer() -> None:
    assert [one.verdict for one in compared(gpus(800.0, 600.0), DEVICES)] == [Mark.OK, Mark.LOW]
    times = gpus(2.0, 2.1, 3.0, unit="µs")
    assert [one.verdict for one in compared(times, DEVICES)] == [Mark.OK, Mark.OK, Mark.LOW]


def test_gpus_of_other_kinds_and_single_ones_have_no_siblings() -> None:
    mixed = (DEVICES[0], replace(DEVICES[1], name="NVIDIA L4"))
    results = gpus(4600.0, 280.0)
    assert compared(results, mixed) == results
    assert compared(results[:1], DEVICES) == results[:1]
    failed = run(None, Mark.FAILED, device=1)
    assert compared((results[0], failed), DEVICES) == (results[0], failed)


@pytest.mark.parametrize("name", ["pcie.h2d.pageable", "pcie.latency", "launch.kernel", "alloc.async"])
def test_what_the_host_decides_makes_no_gpu_an_outlier(name: str) -> None:
    results = tuple(replace(one, id=name, ceiling=None) for one in gpus(10.0, 4.0))
    assert compared(results, DEVICES) == results


def test_a_figure_that_is_not_steady_fails_nobody_and_is_no_measure_of_its_siblings() -> None:
    results = list(gpus(800.0, 600.0, 805.0))
    results[1] = replace(results[1], verdict=Mark.UNSTEADY, steady=False)
    assert [one.verdict for one in compared(results, DEVICES)] == [Mark.OK, Mark.UNSTEADY, Mark.OK]
    above = (results[0], replace(results[1], value=1200.0))
    assert compared(above, DEVICES) == above
