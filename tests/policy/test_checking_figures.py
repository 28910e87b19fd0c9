"""The health check: measurements, a golden machine, generated policies, and any report at all."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpustack.bench import read as read_bench
from gpustack.model.bench import Mark
from gpustack.model.report import Health, Report
from gpustack.model.writing import render
from gpustack.policy import Written, read
from gpustack.policy.checking import Unmeasured, asks_of_each_link, check, unmeasurable
from gpustack.policy.generate import draft
from tests.build import gpu, healthy, report, seen, torch
from tests.diagnose.test_any_facts import MACHINES
from tests.policy.checked import (
    BENCH,
    GOOD,
    HOST,
    IGNORE,
    LOW,
    OK,
    OURS,
    RECORDED,
    TESTS,
    TODAY,
    UNKNOWN,
    checked,
    code,
    machine,
    row,
)
from tests.report import measurements

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpustack.model.bench import BenchReport
    from gpustack.model.facts import Facts
    from gpustack.model.policy import CheckReport, HealthClass

# The bench.


def test_without_a_policy_low_and_failed_figures_are_a_fault_of_the_host() -> None:
    base = machine("hosts/recorded-h200.json")
    made = checked(base, bench=measurements.low())
    assert (made.class_, code(made)) == (HOST, True)
    assert row(made, "bench").found == "the PCIe link runs at width 8 of 16 under load"
    assert checked(base, bench=measurements.good()).class_ is OK
    none = checked(base, bench=measurements.nothing())
    assert row(none, "bench").found == "nothing was measured"


def test_a_figure_that_the_policy_names_is_judged_by_that_alone() -> None:
    read_, *others = measurements.FIGURES[2:5]
    bench = replace(
        measurements.good(), results=(replace(read_, verdict=Mark.LOW), *others), findings=(LOW,), comparison=None
    )
    base = machine("hosts/recorded-h200.json")
    assert checked(base, bench=bench).class_ is HOST
    assert checked(base, IGNORE.format(finding="bench-low@hbm.*"), bench).class_ is OK
    made = checked(base, '[bench.least]\n"hbm.read" = 0.5\n"hbm.*" = 2', bench)
    assert row(made, "bench").ok is True
    assert (row(made, "bench.least.hbm.read").ok, row(made, "bench.least.hbm.*").ok) == (True, False)
    assert row(made, "bench.least.hbm.*").found == "88.5% hbm.copy on GPU 0, 96.3% hbm.write on GPU 0"


def test_a_figure_is_checked_against_a_baseline() -> None:
    base, bench = machine("hosts/recorded-h200.json"), measurements.later()
    policy = '[bench]\nbaseline = "then.json"\n[bench.least-of-baseline]\n"gemm.*" = {least}\n"hbm.copy" = 0.9\n'
    made = checked(base, policy.format(least=0.95), bench)
    assert row(made, "bench.least-of-baseline.gemm.*").found == "93.6% gemm.bf16 on GPU 0"
    assert row(made, "bench.least-of-baseline.gemm.*").ok is False
    assert row(made, "bench.least-of-baseline.hbm.copy").ok is None
    assert row(checked(base, policy.format(least=0.9), bench), "bench.least-of-baseline.gemm.*").ok is True


@pytest.mark.parametrize(("share", "ok"), [(0.9, True), (0.8999, False)])
def test_a_figure_that_reaches_just_what_is_required_is_enough(*, share: float, ok: bool) -> None:
    bench = replace(measurements.good(), results=(replace(measurements.FIGURES[0], ratio=share),))
    made = checked(machine("hosts/recorded-h200.json"), '[bench.least]\n"pcie.*" = 0.9', bench)
    assert row(made, "bench.least.pcie.*").ok is ok


@pytest.mark.parametrize("share", [float("nan"), None])
def test_a_figure_without_a_limit_is_not_known_to_reach_it(share: float | None) -> None:
    bench = replace(measurements.good(), results=(replace(measurements.FIGURES[0], ratio=share),))
    made = checked(machine("hosts/recorded-h200.json"), '[bench.least]\n"pcie.*" = 0.1', bench)
    assert row(made, "bench.least.pcie.*").ok is None
    assert made.class_ is UNKNOWN


@pytest.mark.parametrize(("blind", "class_"), [(False, OK), (True, UNKNOWN)])
def test_a_bench_that_was_left_out_counts_only_where_that_was_not_chosen(*, blind: bool, class_: HealthClass) -> None:
    policy = read('[bench.least]\n"hbm.*" = 0.9')
    why = Unmeasured(why="cuda-core is not installed", blind=blind)
    made = check(report(GOOD), None, policy, today=TODAY, unmeasured=why)
    assert (made.class_, row(made, "bench.least.hbm.*").ok) == (class_, None)
    assert row(made, "bench").found == "not measured: cuda-core is not installed"


def test_what_cannot_be_measured_is_known_before_it_is_tried() -> None:
    assert unmeasurable(machine("hosts/recorded-h200.json")) is None
    assert unmeasurable(machine("hosts/no-gpu.json")) == Unmeasured(why="there is no GPU")
    assert unmeasurable(machine("hosts/amd-healthy-mi210.json")) == Unmeasured(why="only NVIDIA GPUs are measured")
    broken = unmeasurable(machine("hosts/module-mismatch-update.json"))
    assert broken == Unmeasured(why="CUDA does not start here", blind=True)


# A golden machine.


def drifted(golden: Report, now: Report, policy: str = "") -> CheckReport:
    return check(now, None, read(policy), golden=golden, origin="golden.json", today=TODAY, unmeasured=RECORDED)


def test_drift_against_a_golden_machine_fails_unless_it_is_allowed() -> None:
    then, now = report(healthy(torch("2.11.0"))), report(healthy(torch("2.10.0")))
    same = drifted(then, then)
    assert (same.class_, row(same, "golden").ok) == (OK, True)
    made = drifted(then, now)
    assert made.class_ is OURS
    held = row(made, "golden.pytorch")
    assert (held.wanted, held.found.split(", ")[0], held.ok) == (
        "2.11.0+cu130",
        "version 2.10.0+cu130",
        False,
    )
    allowed = drifted(then, now, '[golden]\nmay-differ = ["py*"]')
    assert (allowed.class_, row(allowed, "golden.pytorch").ok) == (OK, True)
    other = drifted(then, report(healthy(torch("2.11.0"), seen("gpu", gpu("NVIDIA H100", "9.0")))))
    assert other.class_ is HOST
    assert "NVIDIA H100" in row(other, "golden.gpu").found


def test_the_same_version_in_another_folder_is_not_drift() -> None:
    moved = report(healthy(torch(path="/srv/venv/lib/python3.12/site-packages/torch")))
    made = drifted(report(healthy(torch())), moved)
    assert (made.class_, [one.rule for one in made.policy if one.rule.startswith("golden")]) == (OK, ["golden"])


# Generated policies, and any report at all.


@pytest.mark.parametrize("path", sorted((TESTS / "hosts").glob("*.json")), ids=lambda path: str(path.stem))
def test_a_drafted_policy_is_one_and_its_machine_keeps_it(path: Path) -> None:
    here = machine(f"hosts/{path.name}")
    bench = read_bench(BENCH) if "h200" in path.stem else None
    text = draft(here, bench, "train")
    made = checked(here, text, bench)
    lacking = (
        "gpus.count" if checked(here, "", bench).class_ is not OK else ""
    )  # a faulty machine lacks what it must have
    assert [one.rule for one in made.policy if one.ok is False and one.rule != lacking] == []
    assert made.class_ in {OK, UNKNOWN, checked(here, "", bench).class_}
    whole = "\n".join(line.removeprefix("# ") if "=" in line or "[" in line else line for line in text.splitlines())
    assert read(whole).policy.golden.snapshot == "golden.json"


POLICIES = st.sampled_from(
    [
        "",
        'frameworks = ["pytorch"]\n[gpus]\ncount = 1\nname = "*"\ncompute-capability = ">=8"\nmemory-gib = 1',
        '[components]\npytorch = ">=2"\nlibcuda = "present"\nother = ">=1"\n[in-use]\nmemory-mib = 1\nprocesses = []',
        IGNORE.format(finding="*") + '[[raise]]\nfinding = "cpu-only-build"\nreason = "x"\n[bench.least]\n"*" = 0.5',
    ]
)


@given(MACHINES, MACHINES, POLICIES, st.sampled_from([None, *measurements.ALL.values()]))
def test_any_report_is_classified_and_the_class_goes_with_the_exit_code(
    facts: Facts, golden: Facts, policy: str, bench: Callable[[], BenchReport] | None
) -> None:
    figures = bench() if bench else None
    made = check(
        report(facts), figures, read(policy), golden=report(golden), origin="g", today=TODAY, unmeasured=RECORDED
    )
    assert made.why
    if any(one.ok is False for one in made.policy):
        assert made.class_ in {HOST, OURS}
    assert (made.class_ in {HOST, OURS}) == bool(
        made.verdict.status is Health.BROKEN or any(one.ok is False for one in made.policy)
    )
    assert code(made) >= (made.class_ in {HOST, OURS})
    if made.class_ is OK:
        assert not code(made)
    keys = {one.key for one in made.findings}
    assert set(made.verdict.root_keys) <= keys
    assert json.loads(render(made))["class"] == made.class_.value
    again = draft(made, figures)
    assert read(again).policy.for_ is not None


def test_a_policy_without_a_file_has_no_places() -> None:
    made = check(report(GOOD), None, Written(policy=read("[gpus]\ncount = 1").policy), today=TODAY)
    assert row(made, "gpus.count").place is None


def test_a_pattern_applies_to_each_link_and_not_to_what_all_share() -> None:
    own = measurements.figure("pcie.h2d.pinned", 55.0, 58.45)
    whole = replace(measurements.figure("pcie.h2d.all", 161.5, 233.8), device=None, gpus=(0, 1, 2, 3))
    bench = replace(measurements.good(), results=(own, whole))
    held = {one.rule: one.ok for one in checked(GOOD, '[bench.least]\n"pcie.*" = 0.8', bench).policy}
    assert held["bench.least.pcie.*"] is True
    named = checked(GOOD, '[bench.least]\n"pcie.h2d.all" = 0.8', bench)
    assert row(named, "bench.least.pcie.h2d.all").ok is False
    assert asks_of_each_link(read('[bench.least]\n"pcie.*" = 0.8').policy)
    assert not asks_of_each_link(read('[bench.least]\n"hbm.*" = 0.8').policy)
