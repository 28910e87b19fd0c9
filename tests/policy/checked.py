"""Machines compared with policies, in a few words each: the input of the health check's tests."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from gpustack.model.facts import Facts, Layer
from gpustack.model.policy import CheckReport, HealthClass, Held
from gpustack.model.report import Finding, Report, Severity
from gpustack.policy import read
from gpustack.policy.checking import Unmeasured, check, failed
from gpustack.snapshots import read as read_facts
from tests.build import gpu, healthy, report, seen, torch
from tests.recorded import judged
from tools import cases

if TYPE_CHECKING:
    from gpustack.model.bench import BenchReport

TESTS = Path(__file__).resolve().parents[1]
BENCH = TESTS.parent / "docs/evidence/2026-11-21-h200/bench.json"
TODAY = date(2026, 11, 21)
OK, DEGRADED, HOST, OURS, UNKNOWN = (
    HealthClass.OK,
    HealthClass.DEGRADED,
    HealthClass.BAD_HOST,
    HealthClass.BAD_ENVIRONMENT,
    HealthClass.UNKNOWN,
)
RECORDED = Unmeasured(why="the machine is recorded")


def machine(name: str) -> Report:
    """Return a machine of tests/hosts or a case of tests/cases, judged."""
    if name.startswith("cases/"):
        return judged(cases.named(name.removeprefix("cases/")))
    return report(read_facts(json.dumps(json.loads((TESTS / name).read_text("utf-8"))["facts"])))


def checked(
    facts: Facts | Report,
    policy: str = "",
    bench: BenchReport | None = None,
    *,
    today: date = TODAY,
    gpus: int | None = None,
) -> CheckReport:
    """Return the check of a machine against a policy that requires this many GPUs."""
    made = report(facts) if isinstance(facts, Facts) else facts
    return check(made, bench, read(policy), today=today, unmeasured=None if bench else RECORDED, gpus=gpus)


def row(made: CheckReport, rule: str) -> Held:
    """Return the row of a rule."""
    (found,) = [one for one in made.policy if one.rule == rule]
    return found


def code(made: CheckReport, *counted: str) -> bool:
    return failed(made, counted or ("error",))


GOOD = healthy(torch(), seen("gpu", gpu(memory={"total_mib": 143771})), seen("gpu-processes"))
IGNORE = '[[ignore]]\nfinding = "{finding}"\nreason = "ticket 12"\nuntil = 2026-11-21\n'
LOW = Finding(
    id="bench-low",
    instance="hbm.read on GPU 0",
    severity=Severity.WARNING,
    layer=Layer.HARDWARE,
    component="gpu",
    title="hbm.read is low on GPU 0",
)
