"""Check reports made by hand: one that passes, one whose host is at fault, and one whose every text is malicious."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import TYPE_CHECKING

from gpustack.model.bench import Mark
from gpustack.model.command import sh
from gpustack.model.policy import CheckReport, HealthClass, Held
from tests.report import measurements, reports

if TYPE_CHECKING:
    from gpustack.model.bench import BenchReport
    from gpustack.model.report import Report

EVIL = "::error::x|%0A\x1b[2J<script>alert(1)</script> \u202e ]]> \ud800 \uffff & `x` [a](b) 'q'=1 \"\\\r\n| # y"


def check(
    report: Report, class_: HealthClass, why: str, policy: tuple[Held, ...] = (), bench: BenchReport | None = None
) -> CheckReport:
    """Return a report compared with a policy."""
    held = {one.name: getattr(report, one.name) for one in fields(report)}
    return CheckReport(**held, class_=class_, why=why, policy=policy, bench=bench)


GPUS = Held(rule="gpus.count", wanted="1 or more", found="1", ok=True, place="gpustack.toml:3")
TORCH = Held(
    rule="frameworks.pytorch",
    wanted="works",
    found="cannot use the GPU",
    ok=False,
    whose=HealthClass.BAD_HOST,
    place="ci/gpustack.toml:12",
)
LEAK = Held(rule="memory_in_use", wanted="at most 1 GiB", found="not seen", ok=None, place="gpustack.toml:20")


def passes() -> CheckReport:
    """Return the machine on which everything meets the policy."""
    return check(
        reports.healthy(), HealthClass.OK, "Nothing is wrong, and the policy is kept.", (GPUS,), measurements.good()
    )


def bad_host() -> CheckReport:
    """Return a machine whose driver is too old for the policy."""
    why = "the driver 550.54.15 is too old for PyTorch 2.11.0+cu130"
    return check(reports.driver_too_old(), HealthClass.BAD_HOST, why, (GPUS, TORCH, LEAK), measurements.low())


def hostile() -> CheckReport:
    """Return a check whose policy and measurements try to end a line, a tag, a cell or a string."""
    evil = Held(rule=EVIL, wanted=EVIL, found=EVIL, ok=False, place=f"{EVIL}:3")
    (first, *rest) = measurements.good().results
    odd = replace(first, id=EVIL, unit=EVIL, why=(EVIL,), remedy=sh(EVIL), verdict=Mark.LOW)
    skipped = replace(odd, verdict=Mark.SKIPPED, value=None)
    bench = replace(measurements.good(), results=(odd, skipped, *rest), data=EVIL)
    return check(reports.hostile(), HealthClass.BAD_ENVIRONMENT, EVIL, (evil, evil, LEAK), bench)


ALL: dict[str, Callable[[], CheckReport]] = {
    "check-passes": passes,
    "check-bad-host": bad_host,
    "check-hostile": hostile,
}
