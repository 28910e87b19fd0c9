"""A report compared with an older one: what is better, worse or the same, what else differs, which are refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpustack.bench import Older, compare, load, regressed
from gpustack.errors import InputError
from gpustack.model.bench import BenchReport, Mark, Power, Result, Telemetry
from gpustack.model.difference import Comparison, Outcome
from gpustack.model.writing import render
from tests.report import measurements


def figure(
    value: float | None, name: str = "hbm.read", unit: str = "GB/s", spread: float = 0.001, **more: object
) -> Result:
    samples = tuple(value * (1 + spread * (step - 10) / 10) for step in range(21)) if value else ()
    known = Result(id=name, device=0, unit=unit, verdict=Mark.OK, value=value, samples=samples)
    return replace(known, **more)  # type: ignore[arg-type]  # each test names real fields


def report(*results: Result, **more: object) -> BenchReport:
    return replace(measurements.good(), results=results, **more)  # type: ignore[arg-type]  # the same


def older(folder: Path, then: BenchReport) -> Older:
    path = folder / "then.json"
    path.write_text(render(then))
    return load(path)


def outcomes(comparison: Comparison) -> dict[str, Outcome]:
    return {change.id: change.outcome for change in comparison.changes}


@pytest.mark.parametrize(
    ("then", "now", "outcome"),
    [
        (4600.0, 4600.0, Outcome.SAME),
        (4600.0, 4500.0, Outcome.SAME),
        (4600.0, 4300.0, Outcome.WORSE),
        (4600.0, 4900.0, Outcome.BETTER),
    ],
)
def test_a_rate_is_better_where_it_is_greater(tmp_path: Path, then: float, now: float, outcome: Outcome) -> None:
    seen = compare(report(figure(now)), older(tmp_path, report(figure(then))), 0.03)
    (change,) = seen.changes
    assert change.outcome is outcome
    assert change.change == pytest.approx(now / then - 1)
    assert change.before_interval
    assert change.before_interval[0] < then < change.before_interval[1]
    assert regressed(seen) is (outcome is Outcome.WORSE)


@pytest.mark.parametrize(
    ("then", "now", "outcome"), [(2.0, 2.5, Outcome.WORSE), (2.5, 2.0, Outcome.BETTER), (2.0, 2.02, Outcome.SAME)]
)
def test_a_time_is_better_where_it_is_less(tmp_path: Path, then: float, now: float, outcome: Outcome) -> None:
    before = older(tmp_path, report(figure(then, "launch.kernel", "µs")))
    seen = compare(report(figure(now, "launch.kernel", "µs")), before, 0.03)
    assert outcomes(seen) == {"launch.kernel": outcome}
    assert (seen.changes[0].change or 0.0) * (1 if outcome is Outcome.BETTER else -1) >= 0


def test_figures_whose_intervals_overlap_cannot_be_told_apart(tmp_path: Path) -> None:
    before = older(tmp_path, report(figure(4600.0, spread=0.5)))
    seen = compare(report(figure(4300.0, spread=0.5)), before, 0.03)
    assert (seen.changes[0].outcome, seen.changes[0].note) == (Outcome.SAME, "the intervals overlap")


def test_the_tolerance_is_the_users(tmp_path: Path) -> None:
    before = older(tmp_path, report(figure(4600.0)))
    assert regressed(compare(report(figure(4550.0)), before, 0.005))
    assert not regressed(compare(report(figure(4300.0)), before, 0.10))


def test_what_fails_now_is_worse_and_what_is_new_skipped_or_not_measured_is_named(tmp_path: Path) -> None:
    then = [figure(1.0, name) for name in ("hbm.read", "hbm.copy", "gemm.fp8")]
    failed = figure(None, "hbm.read", verdict=Mark.FAILED, why=("the sum is wrong",))
    skipped = figure(None, "gemm.fp8", verdict=Mark.SKIPPED)
    seen = compare(report(failed, skipped, figure(2.0, "l2.read")), older(tmp_path, report(*then)), 0.03)
    assert outcomes(seen) == {
        "hbm.read": Outcome.WORSE,
        "gemm.fp8": Outcome.GONE,
        "l2.read": Outcome.NEW,
        "hbm.copy": Outcome.GONE,
    }
    assert seen.changes[0].note == "failed; the sum is wrong"
    assert regressed(seen)


def test_another_gpu_driver_limit_or_kind_of_run_is_named(tmp_path: Path) -> None:
    then = measurements.H200
    cool = Telemetry(power=Power(limit=700.0))
    before = older(tmp_path, report(figure(1.0, telemetry=cool, method={"library_version": "13.0.2"})))
    other = replace(then, name="NVIDIA H100 80GB HBM3", uuid="GPU-2", driver="570.86.15")
    low = figure(1.0, telemetry=Telemetry(power=Power(limit=500.0)), method={"library_version": "13.1.0"})
    seen = compare(report(low, devices=(other,), data="zeros", quick=True), before, 0.03)
    assert seen.differences == (
        "data zeros now, random then",
        "suite quick now, whole then",
        "GPU 0 is NVIDIA H100 80GB HBM3 now, NVIDIA H200 then",
        "GPU 0 has the UUID GPU-2 now, GPU-1 then",
        "GPU 0 has the driver 570.86.15 now, 580.159.04 then",
        "GPU 0 has the power limit 500.0 now, 700.0 then",
        "cuBLASLt is 13.1.0 now, 13.0.2 then",
    )


def test_the_same_machine_differs_in_nothing_and_a_redacted_uuid_is_not_another(tmp_path: Path) -> None:
    before = older(tmp_path, report(figure(1.0), devices=(replace(measurements.H200, uuid="uuid-1"),)))
    assert compare(report(figure(1.0)), before, 0.03).differences == ()


def test_the_only_gpu_is_checked_against_the_only_one_whatever_their_numbers(tmp_path: Path) -> None:
    before = older(tmp_path, report(figure(4600.0)))
    third = replace(measurements.H200, index=3)
    seen = compare(report(figure(4600.0, device=3), devices=(third,)), before, 0.03)
    assert [(change.device, change.outcome) for change in seen.changes] == [(3, Outcome.SAME)]


def pair(first: int, second: int, value: float | None, verdict: Mark = Mark.OK) -> Result:
    return figure(value, "p2p.bandwidth", device=first, gpus=(first, second), verdict=verdict)


def test_pairs_are_checked_against_the_pairs_of_the_same_rank_whatever_their_numbers(tmp_path: Path) -> None:
    before = older(tmp_path, report(pair(0, 1, 390.0), pair(1, 0, 390.0), pair(1, 2, 390.0)))
    seen = compare(report(pair(2, 3, 390.0), pair(3, 2, 200.0), pair(3, 5, None, Mark.FAILED)), before, 0.03)
    assert outcomes(seen) == {
        "p2p.bandwidth 2>3": Outcome.SAME,
        "p2p.bandwidth 3>2": Outcome.WORSE,
        "p2p.bandwidth 3>5": Outcome.WORSE,
    }


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "it is not JSON"),
        ("{", "it is not JSON"),
        ("[" * 100_000, "it is not JSON"),
        ("[]", "its schema is missing"),
        ('{"schema": "gpustack.report/1"}', "its schema is gpustack.report/1, not gpustack.bench/1"),
        ('{"schema": "gpustack.bench/2"}', "its schema is gpustack.bench/2"),
        ('{"schema": "gpustack.bench/1"}', "is damaged: tool is missing"),
        ('{"schema": "gpustack.bench/1", "results": [3]}', "is damaged"),
    ],
)
def test_a_file_that_is_none_of_ours_is_refused_by_name(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "old.json"
    path.write_text(text)
    with pytest.raises(InputError, match=r"old\.json") as seen:
        load(path)
    assert says in str(seen.value)
    assert "\n" not in str(seen.value)
    with pytest.raises(InputError, match="cannot be read"):
        load(tmp_path / "none.json")


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=5,
)


@given(name=st.sampled_from(["results", "devices", "tool", "data", "quick", "taken"]), bent=JSON)
def test_no_damaged_report_raises_anything_else(
    tmp_path_factory: pytest.TempPathFactory,
    name: str,
    bent: Any,  # noqa: ANN401 - any JSON
) -> None:
    path = tmp_path_factory.getbasetemp() / "bent.json"
    path.write_text(json.dumps({**json.loads(render(measurements.good())), name: bent}))
    try:
        found = load(path)
    except InputError:
        return
    assert compare(measurements.good(), found, 0.03).changes
