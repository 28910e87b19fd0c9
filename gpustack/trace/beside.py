"""The CPU beside the GPU: the same model on both, what each batch takes, and from where on the GPU wins."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gpustack.errors import NothingSeenError
from gpustack.model.trace import State
from gpustack.model.trace_figures import Crossover
from gpustack.trace import crossing, following
from gpustack.trace.crossing import batches

if TYPE_CHECKING:
    from gpustack.model.trace import Trace
    from gpustack.trace.asked import Asked, Progress

__all__ = ["UNITS", "alone", "batches", "joined"]

UNITS = {"mlp": "rows", "convnet": "images", "transformer": "sequences"}
COPIED = 2  # the step in which the weights go to the device
PINNED = "copied from pinned memory"  # its figure for one copy of all


def alone(trace: Trace, why: str) -> Trace:
    """Give the CPU's trace, with why there is no GPU beside it."""
    steps = (replace(one, why=(*one.why, why)) if one.number == COPIED else one for one in trace.steps)
    return replace(trace, steps=tuple(steps))


def joined(trace: Trace, asked: Asked, progress: Progress) -> Trace:
    """Give the GPU's trace with the layers of the CPU, the times of both for each batch, and the crossover."""
    same = replace(asked, precision=trace.subject.precision)
    try:
        cpu = following.follow(same, progress)
    except NothingSeenError as error:
        return replace(trace, crossover=Crossover(at=None, points=trace.batches, says=str(error)))
    timed = following.batches(same, [one.batch for one in trace.batches])
    points = crossing.joined(timed, trace.batches)
    return replace(
        trace,
        cpu_layers=cpu.layers,
        processor=cpu.processor,
        checks=(*trace.checks, *(replace(one, what="output on the CPU") for one in cpu.checks)),
        findings=(*trace.findings, *cpu.findings),
        crossover=crossing.crossover(points, UNITS.get(asked.model, "inputs"), _copied(trace)),
        seconds=trace.seconds + cpu.seconds,
        interrupted=trace.interrupted or cpu.interrupted,
    )


def _copied(trace: Trace) -> float | None:
    """Give what one copy of the weights takes; the step itself copies twice, to compare, and allocates."""
    done = (step for step in trace.steps if step.number == COPIED and step.status is State.DONE)
    speed = next((one.value for step in done for one in step.figures if one.name == PINNED), None)
    return trace.subject.weight_bytes / speed / 1e9 if speed else None
