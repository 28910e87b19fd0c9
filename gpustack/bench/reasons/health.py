"""What the card's memory tells of itself: errors that came meanwhile, and repairs that wait for a reset."""

from __future__ import annotations

from gpustack.bench.case import Case, Reason, Weight
from gpustack.model.bench import Advice
from gpustack.model.command import sh

CHECK = Advice(
    "Note it, and load the whole memory; a card that goes on making errors is to be replaced.",
    (sh("nvidia-smi -q -d ECC,ROW_REMAPPER"), sh("gpustack stress --seconds 600")),
)
RESET = Advice(
    "Reset the GPU when nobody works on it, or start the machine anew; then the row is replaced.",
    (sh("nvidia-smi -q -d ROW_REMAPPER"), sh("sudo nvidia-smi --gpu-reset")),
)


def errors(case: Case) -> Reason | None:
    """The memory made errors during the measurement."""
    seen = case.telemetry.ecc
    if seen.uncorrected:
        return Reason(f"{seen.uncorrected} uncorrected memory errors during the measurement", Weight.FAULT, CHECK)
    if seen.corrected:
        return Reason(f"{seen.corrected} corrected memory errors meanwhile", Weight.NOTE, CHECK)
    return None


def remapped(case: Case) -> Reason | None:
    """A row of the memory is to be replaced at the next reset."""
    if case.kind != "hbm" or not case.telemetry.remap_pending:
        return None
    return Reason("a faulty row of the memory waits for a reset to be replaced", Weight.NOTE, RESET)
