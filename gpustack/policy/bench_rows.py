"""A quick bench held against a policy: what its figures must reach of their limits and of a baseline."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from math import isfinite
from typing import TYPE_CHECKING

from gpustack.model.check import HealthClass, Held
from gpustack.model.report import Severity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpustack.model.bench import BenchReport
    from gpustack.model.policy import Policy
    from gpustack.policy import Written

HOST, NOBODY = HealthClass.BAD_HOST, HealthClass.OK
AT_FAULT = frozenset({Severity.ERROR, Severity.WARNING})
LOW = "bench-low"
MOST_NAMED = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Unmeasured:
    """Why there is no bench. ``blind``: there is a GPU to measure, and nobody chose to leave it out."""

    why: str
    blind: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """What one figure reached: its part of the limit or of the baseline; None where it has none."""

    id: str
    where: str
    share: float | None


def rows(bench: BenchReport | None, unmeasured: Unmeasured | None, written: Written) -> Iterator[Held]:
    """Give a row for each least part that the policy wants, and one for all figures that it says nothing of."""
    figures = written.policy.bench
    for key, wanted, reached in (
        ("least", figures.least, _of_limits(bench)),
        ("least-of-baseline", figures.least_of_baseline, _of_baseline(bench)),
    ):
        for pattern, least in wanted.items():
            mine = [one for one in reached if pattern_of(one.id, wanted) == pattern]
            found, ok = _held(mine, least) if bench else (f"not measured: {unmeasured.why}" if unmeasured else "", None)
            yield Held(
                rule=f"bench.{key}.{pattern}",
                wanted=f"{least:.0%} of the {'limit' if key == 'least' else 'baseline'} or more",
                found=found,
                ok=ok,
                whose=HOST if bench or (unmeasured and unmeasured.blind) else NOBODY,
                place=written.place("bench", key, pattern),
            )
    yield _all(bench, unmeasured)


def pattern_of(name: str, wanted: Mapping[str, float]) -> str | None:
    """Give the key that speaks of a benchmark: its id, else the first pattern that fits."""
    return name if name in wanted else next((one for one in wanted if fnmatchcase(name, one)), None)


def eased(bench: BenchReport, policy: Policy) -> BenchReport:
    """Give the report with "low" as a note where the policy itself says what a figure must reach."""
    told = {one.id for one in bench.results if pattern_of(one.id, policy.bench.least)}
    told |= {one.id for one in bench.results if pattern_of(one.id, policy.bench.least_of_baseline)}
    findings = tuple(
        replace(one, severity=Severity.INFO)
        if one.id == LOW and (one.instance or "").partition(" ")[0] in told and one.severity in AT_FAULT
        else one
        for one in bench.findings
    )
    return replace(bench, findings=findings)


def _of_limits(bench: BenchReport | None) -> list[Reached]:
    results = bench.results if bench else ()
    return [Reached(id=one.id, where=one.place(), share=one.ratio) for one in results if one.value is not None]


def _of_baseline(bench: BenchReport | None) -> list[Reached]:
    changes = bench.comparison.changes if bench and bench.comparison else ()
    return [
        Reached(
            id=one.id.partition(" ")[0],
            where="" if one.device is None else f" on GPU {one.device}",
            share=None if one.change is None else 1 + one.change,
        )
        for one in changes
        if one.after is not None
    ]


def _held(mine: Sequence[Reached], least: float) -> tuple[str, bool | None]:
    """Give what the figures of one row reached, the least first, and whether all of them reached enough."""
    known = sorted((one.share, one.id + one.where) for one in mine if one.share is not None and isfinite(one.share))
    if not known:
        return ("what was measured has no such part" if mine else "none of these was measured"), None
    short = [(share, name) for share, name in known if share < least]
    told = [f"{share:.1%} {name}" for share, name in (short or known[:1])]
    rest = f" and {len(told) - MOST_NAMED} more" if len(told) > MOST_NAMED else ""
    said = ", ".join(told[:MOST_NAMED]) + rest
    return said if short or len(known) == 1 else f"{said}, the least of {len(known)}", not short


def _all(bench: BenchReport | None, unmeasured: Unmeasured | None) -> Held:
    """Give the row that holds without any policy: no figure failed, or is low without a reason."""
    row = Held(rule="bench", wanted="no figure failed or low", found="", ok=None, whose=NOBODY)
    if bench is None:
        return replace(row, found=f"not measured: {unmeasured.why}" if unmeasured else "not measured")
    wrong = [one.title for one in bench.findings if one.severity in AT_FAULT]
    measured = sum(one.value is not None for one in bench.results)
    if not wrong and not measured:
        return replace(row, found="nothing was measured")
    rest = f" and {len(wrong) - MOST_NAMED} more" if len(wrong) > MOST_NAMED else ""
    said = ", ".join(wrong[:MOST_NAMED]) + rest or f"{measured} figure{'s' * (measured != 1)}, all well"
    return replace(row, found=said, ok=not wrong, whose=HOST)
