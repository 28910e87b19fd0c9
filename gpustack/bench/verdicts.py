"""What to think of a figure: good, low, or not to be trusted, and why; the reasons stand in ``reasons``."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gpustack.bench.case import CLEARLY, Case, Reason, Weight
from gpustack.bench.reasons import HELD, RULES
from gpustack.bench.spread import DRIFT
from gpustack.model.bench import Mark

if TYPE_CHECKING:
    from gpustack.model.bench import Advice, Telemetry

__all__ = ["Case", "Reason", "Verdict", "Weight", "explain", "judge"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The mark of a figure, why, and what to do about it."""

    mark: Mark
    why: tuple[str, ...]
    advice: tuple[Advice, ...] = ()


def judge(case: Case) -> Verdict:
    """Give the verdict on one figure."""
    reasons = [reason for rule in RULES if (reason := rule(case))]
    weights = {reason.weight for reason in reasons}
    why = tuple(reason.text for reason in reasons)
    advice = tuple(dict.fromkeys(reason.advice for reason in reasons if reason.advice))
    if not case.figures.steady:
        return Verdict(mark=Mark.UNSTEADY, why=(_wavering(case), *why), advice=advice)
    reached = case.ratio if Weight.FAULT in weights else case.ratio_held
    low = reached is not None and reached < CLEARLY * case.usual and Weight.DOUBT not in weights
    if low and (Weight.FAULT in weights or Weight.EXPLAINS not in weights):
        first = f"{reached:.0%} of the limit, {case.usual:.0%} is usual at least"
        return Verdict(mark=Mark.LOW, why=(first, *why), advice=advice)
    return Verdict(mark=Mark.OK, why=why, advice=advice)


def explain(case: Case, telemetry: Telemetry) -> tuple[str, ...]:
    """Give the reasons that another window of the same work has, such as that without rest."""
    other = replace(case, telemetry=telemetry)
    return tuple(reason.text for rule in HELD if (reason := rule(other)))


def _wavering(case: Case) -> str:
    figures = case.figures
    if not figures.enough:
        return "not steady: too few samples in the time that there was"
    if abs(figures.drift) > DRIFT:
        return f"not steady: drifting, by {figures.drift:+.1%} from the first third of the samples to the last"
    low, high = figures.interval
    half = (high - low) / 2 / figures.median if figures.median else 0.0
    return f"not steady: the median is known to {half:.1%} with 95 % confidence"
