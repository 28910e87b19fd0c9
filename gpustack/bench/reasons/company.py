"""Who else is on the card: other processes, and the other slices of a card that is divided."""

from __future__ import annotations

from gpustack.bench.case import Case, Reason, Weight
from gpustack.model.bench import Advice
from gpustack.model.command import sh

AT_WORK = 5.0  # percent of the multiprocessors' time that one other process takes: below that it is idle
BUSY = 10.0  # percent of the time that the GPU was busy before we began
MOST_NAMED = 3

WAIT = Advice(
    "Measure again when they are done; this shows who they are.",
    (sh("nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv"), sh("nvidia-smi pmon -c 1")),
)
ELSEWHERE = Advice(
    "The process is in another container or virtual machine: look on the host.", (sh("nvidia-smi pmon -c 1"),)
)


def shared(case: Case) -> Reason | None:
    """Somebody else works on the card; one that only has a context there is worth a word where the figure is bad."""
    seen = case.telemetry
    used, before = seen.others_percent, seen.busy_percent
    busy = before is not None and before >= BUSY
    if not seen.processes:
        if not busy or (used is not None and used < AT_WORK):
            return None
        return Reason(f"the GPU was {before:.0f} % busy before we began, and nobody is seen", Weight.FAULT, ELSEWHERE)
    rest = len(seen.processes) - MOST_NAMED
    names = ", ".join(seen.processes[:MOST_NAMED]) + (f" and {rest} more" if rest > 0 else "")
    if used is None or used >= AT_WORK or busy:
        took = f"; it was {before:.0f} % busy before we began" if before is not None and busy else ""
        return Reason(f"also at work on this GPU: {names}{took}", Weight.FAULT, WAIT)
    if case.low or not case.figures.steady:
        return Reason(f"also on this GPU, and idle: {names}", Weight.NOTE)
    return None


def sliced(case: Case) -> Reason | None:
    """The GPU is one slice of a divided card: the memory's bandwidth is shared out with the memory."""
    slice_ = case.telemetry.mig_slice
    if not slice_:
        return None
    weight = Weight.EXPLAINS if case.kind in {"hbm", "l2", "pcie"} else Weight.NOTE
    return Reason(f"a MIG slice ({slice_}): limits that are the whole card's are not its own", weight)
