"""Why a figure is low: what the GPU, its clocks, its links and other processes show, and the rating."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from gpustack.bench.case import CLEARLY, DRIFT, Case, Reason, Weight
from gpustack.bench.reasons import links
from gpustack.model import record, replace
from gpustack.model.bench import Advice, Mark, Telemetry
from gpustack.model.command import sh

Rule = Callable[[Case], Reason | None]
AT_WORK = 5.0  # percent of multiprocessor time used by another process; below that it is idle
BUSY = 10.0  # percent of the time that the GPU was busy before the run
MOST_NAMED = 3
WAIT = Advice(
    "Measure again when they are done; this shows which they are.",
    (sh("nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv"), sh("nvidia-smi pmon -c 1")),
)
ELSEWHERE = Advice(
    "The process is in another container or virtual machine: look on the host.", (sh("nvidia-smi pmon -c 1"),)
)
CHECK = Advice(
    "Note it, and test all of the memory; replace a card that keeps having errors.",
    (sh("nvidia-smi -q -d ECC,ROW_REMAPPER"), sh("gpustack stress --seconds 600")),
)
RESET = Advice(
    "Reset the GPU when nobody uses it, or restart the machine, to remap the row.",
    (sh("nvidia-smi -q -d ROW_REMAPPER"), sh("sudo nvidia-smi --gpu-reset")),
)
BEYOND = 1.02  # of the limit: above that, what the card reports about itself is doubtful
LESSER = 0.95  # of the best way: below that, it matters that the library suggests it first
QUIET = Advice("Measure again when the host is less busy.", (sh("uptime"),))
WAY = re.compile(r"(?P<work>.*), heuristic (?P<rank>\d+)")


def shared(case: Case) -> Reason | None:
    """Somebody else works on the card; one that only has a context there is worth a word where the figure is bad."""
    seen = case.telemetry
    used, before = seen.others_percent, seen.busy_percent
    busy = before is not None and before >= BUSY
    if not seen.processes:
        if not busy or (used is not None and used < AT_WORK):
            return None
        return Reason(
            f"the GPU was {before:.0f} % busy before we began, and no process is visible", Weight.FAULT, ELSEWHERE
        )
    rest = len(seen.processes) - MOST_NAMED
    names = ", ".join(seen.processes[:MOST_NAMED]) + (f" and {rest} more" if rest > 0 else "")
    if used is None or used >= AT_WORK or busy:
        took = f"; it was {before:.0f} % busy before we began" if before is not None and busy else ""
        return Reason(f"also computing on this GPU: {names}{took}", Weight.FAULT, WAIT)
    return Reason(f"also on this GPU, and idle: {names}", Weight.NOTE) if case.low or not case.figures.steady else None


def sliced(case: Case) -> Reason | None:
    """The GPU is one slice of a divided card: the memory's bandwidth is shared out with the memory."""
    slice_ = case.telemetry.mig_slice
    if not slice_:
        return None
    weight = Weight.EXPLAINS if case.kind in {"hbm", "l2", "pcie"} else Weight.NOTE
    return Reason(f"a MIG slice ({slice_}): limits that are the whole card's are not its own", weight)


def errors(case: Case) -> Reason | None:
    """The memory made errors during the measurement."""
    seen = case.telemetry.ecc
    if seen.uncorrected:
        return Reason(f"{seen.uncorrected} uncorrected memory errors during the measurement", Weight.FAULT, CHECK)
    if seen.corrected:
        return Reason(f"{seen.corrected} corrected memory errors during the measurement", Weight.NOTE, CHECK)
    return None


# Reasons that also apply to the sustained figure: only the window differs.
HELD: tuple[Rule, ...] = (shared, links.power, links.thermal, links.hardware, links.locked, errors)


def remapped(case: Case) -> Reason | None:
    """A row of the memory is to be replaced at the next reset."""
    if case.kind != "hbm" or not case.telemetry.remap_pending:
        return None
    return Reason("a faulty memory row is waiting for a reset to be remapped", Weight.NOTE, RESET)


def beyond(case: Case) -> Reason | None:
    """More than the limit: then the card's report of its clock, bus or link is wrong, not the physics."""
    if case.ratio is None or case.ratio <= BEYOND:
        return None
    what = {"pcie": "its link (a virtual machine may show another)", "hbm": "its memory clock and bus"}
    what.update(dict.fromkeys(("p2p", "nccl"), "its links to other GPUs"))
    told = what.get(case.kind, "its clock and multiprocessors")
    text = f"{case.ratio:.0%} of the limit: what the card reports about {told} is doubtful, so it is not judged"
    return Reason(text, Weight.DOUBT)


def cut(case: Case) -> Reason | None:
    """The probe of the tensor cores gives another rate than the row of the architecture: then this part has another."""
    return Reason(case.part.doubt, Weight.NOTE) if case.part and case.part.doubt else None


def ungated(case: Case) -> Reason | None:
    """The gate gave up, so that what the host takes to enqueue is in the figure: of note where that is bad."""
    if case.method.get("gate") != "gave up" or not (case.low or not case.figures.steady):
        return None
    text = "measured without the gate, since the host was too slow to enqueue behind it: its share may be in the figure"
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


RULES: tuple[Rule, ...] = (
    beyond,
    cut,
    shared,
    sliced,
    links.power,
    links.thermal,
    links.hardware,
    links.locked,
    links.memory_clock,
    lesser,
    ungated,
    links.link,
    links.slot,
    links.payload,
    links.replays,
    links.numa,
    links.nvlinks,
    links.refused,
    links.nvlink_errors,
    errors,
    remapped,
)


@record
class Verdict:
    """The rating of a figure, the reasons, and the remedy."""

    mark: Mark
    why: tuple[str, ...]
    advice: tuple[Advice, ...] = ()


def judge(case: Case) -> Verdict:
    """Return the rating of one figure."""
    reasons = [reason for rule in RULES if (reason := rule(case))]
    weights = {reason.weight for reason in reasons}
    why = tuple(reason.text for reason in reasons)
    advice = tuple(dict.fromkeys(reason.advice for reason in reasons if reason.advice))
    if not case.figures.steady:
        return Verdict(mark=Mark.UNSTEADY, why=(_wavering(case), *why), advice=advice)
    reached = case.ratio if Weight.FAULT in weights else case.ratio_held
    low = reached is not None and reached < CLEARLY * case.usual and Weight.DOUBT not in weights
    if low and (Weight.FAULT in weights or Weight.EXPLAINS not in weights):
        first = f"{reached:.0%} of the limit, {case.usual:.0%} is the usual minimum"
        return Verdict(mark=Mark.LOW, why=(first, *why), advice=advice)
    return Verdict(mark=Mark.OK, why=why, advice=advice)


def explain(case: Case, telemetry: Telemetry) -> tuple[str, ...]:
    """Return the reasons for another window of the same work, such as the sustained one."""
    other = replace(case, telemetry=telemetry)
    return tuple(reason.text for rule in HELD if (reason := rule(other)))


def _wavering(case: Case) -> str:
    figures = case.figures
    if not figures.enough:
        return "not steady: too few samples in the time available"
    if abs(figures.drift) > DRIFT:
        return f"not steady: drifting, by {figures.drift:+.1%} from the first third of the samples to the last"
    low, high = figures.interval
    half = (high - low) / 2 / figures.median if figures.median else 0.0
    return f"not steady: the median is known to {half:.1%} with 95 % confidence"
