"""Why a rate is another than expected: a false report, a part that was cut, an open gate, a library's lesser choice."""

from __future__ import annotations

import re
from collections.abc import Mapping

from gpustack.bench.case import Case, Reason, Weight
from gpustack.model.bench import Advice
from gpustack.model.command import sh

BEYOND = 1.02  # of the limit: above that what the card reports of itself is doubtful
LESSER = 0.95  # of the best way: below that it matters that the library names it first
QUIET = Advice("Measure again when the host's processors have less to do.", (sh("uptime"),))
WAY = re.compile(r"(?P<work>.*), heuristic (?P<rank>\d+)")


def beyond(case: Case) -> Reason | None:
    """More than the limit: then the card's report of its clock, bus or link is wrong, not the physics."""
    if case.ratio is None or case.ratio <= BEYOND:
        return None
    what = {"pcie": "its link (a virtual machine may show another)", "hbm": "its memory clock and bus"}
    what.update(dict.fromkeys(("p2p", "nccl"), "its links to other GPUs"))
    told = what.get(case.kind, "its clock and multiprocessors")
    text = f"{case.ratio:.0%} of the limit: what the card reports of {told} is doubtful, so this judges nothing"
    return Reason(text, Weight.DOUBT)


def cut(case: Case) -> Reason | None:
    """The probe of the tensor cores gives another rate than the row of the architecture: then this part has another."""
    return Reason(case.part.doubt, Weight.NOTE) if case.part and case.part.doubt else None


def ungated(case: Case) -> Reason | None:
    """The gate gave up, so that what the host takes to enqueue is in the figure: of note where that is bad."""
    if case.method.get("gate") != "gave up" or not (case.low or not case.figures.steady):
        return None
    text = "measured without the gate, since the host was too slow to enqueue behind it: its part may be in the figure"
    return Reason(text, Weight.NOTE, QUIET)


def lesser(case: Case) -> Reason | None:
    """The library's first choice is clearly slower than another of its own: who does not try them has the former."""
    tried, way = case.method.get("tried"), case.method.get("way")
    best = WAY.fullmatch(way) if isinstance(way, str) else None
    if not best or best["rank"] == "1" or not isinstance(tried, Mapping):
        return None
    first, reached = tried.get(f"{best['work']}, heuristic 1"), tried.get(best[0])
    if not isinstance(first, float | int) or not isinstance(reached, float | int) or first >= LESSER * reached:
        return None
    text = f"the library's first choice is {1 - first / reached:.0%} slower than its choice {best['rank']}, taken here"
    return Reason(text, Weight.NOTE)
