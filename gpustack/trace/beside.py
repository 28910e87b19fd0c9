"""The CPU beside the GPU: the same model on both, the time of each batch, and from which batch the GPU wins."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from gpustack.errors import NothingSeenError
from gpustack.model.difference import BatchTime, Crossover
from gpustack.model.trace import State, Trace
from gpustack.trace import Asked, Progress, following

MOST_BATCHES = 5
STEP = 4  # times more inputs from one batch to the next
MOSTLY = 0.5  # of the GPU's time: the share that makes something its main cost
FREE = 0.5  # kernels whose time grows less than this share of the work had room to spare
UNITS = {"mlp": "rows", "convnet": "images", "transformer": "sequences"}
COPIED = 2  # the step in which the weights go to the device
PINNED = "copied from pinned memory"  # its figure for one copy of all


class _Both(NamedTuple):
    """One batch whose time is known on both."""

    batch: int
    cpu: float
    gpu: float
    times: BatchTime

    @property
    def ratio(self) -> float:
        return self.cpu / self.gpu


def batches(most: int) -> tuple[int, ...]:
    """Return the batches to time, from one input upwards, each four times the previous one."""
    found = [most]
    while found[-1] > 1 and len(found) < MOST_BATCHES - 1:
        found.append(max(1, found[-1] // STEP))
    return tuple(sorted({*found, 1}))


def joined(cpu: Sequence[BatchTime], gpu: Sequence[BatchTime]) -> tuple[BatchTime, ...]:
    """Return the measurements of each batch on both as one row."""
    known = {one.batch: one.cpu_seconds for one in cpu}
    beside = tuple(replace(one, cpu_seconds=known.pop(one.batch, one.cpu_seconds)) for one in gpu)
    alone = (BatchTime(batch=batch, cpu_seconds=seconds) for batch, seconds in known.items())
    return tuple(sorted((*beside, *alone), key=lambda one: one.batch))


def crossover(points: Sequence[BatchTime], unit: str = "inputs", weights_seconds: float | None = None) -> Crossover:
    """Return the batch from which the GPU wins by these measured times, and why.

    It wins from a batch on if it is faster there and at every larger measured batch; between two batches the crossing
    is where the line through the two ratios reaches one, both on logarithmic scales. ``weights_seconds`` is what it
    takes to copy the weights there, once.
    """
    ordered = sorted(points, key=lambda one: one.batch)
    both = [_Both(one.batch, cpu, gpu, one) for one in ordered if (cpu := one.cpu_seconds) and (gpu := one.gpu_seconds)]
    if not both:
        return Crossover(at=None, points=tuple(points), says="no batch was timed on both CPU and GPU")
    at = _crossing(both)
    why = [*_small(both[0]), *_large(both), *_once(both, weights_seconds)]
    return Crossover(at=at, points=tuple(points), says=_says(at, both, unit), why=tuple(why))


def _crossing(both: Sequence[_Both]) -> float | None:
    """Return the batch at which both take the same time, before the GPU stays faster."""
    if both[-1].ratio <= 1:
        return None
    at = float(both[0].batch)
    for before, after in pairwise(both):
        if before.ratio <= 1 < after.ratio:
            part = -math.log(before.ratio) / math.log(after.ratio / before.ratio)
            at = before.batch * (after.batch / before.batch) ** part
    return at


def _says(at: float | None, both: Sequence[_Both], unit: str) -> str:
    first, last = both[0], both[-1]
    if at is None:
        return f"the CPU is faster up to {last.batch} {unit}, the largest that was timed: {_times(1 / last.ratio)}"
    if at == first.batch:
        many = f"{first.batch} {unit}" if first.batch > 1 else f"1 {unit.removesuffix('s')}"
        return f"the GPU is faster from {many} on: {_times(first.ratio)} there, {_times(last.ratio)} at {last.batch}"
    return f"from about {math.ceil(at)} {unit} on the GPU is faster: {_times(last.ratio)} at {last.batch}"


def _small(first: _Both) -> list[str]:
    """Return in words what the GPU's time goes into at the smallest batch."""
    told = first.times
    copies, kernels = told.transfer_seconds, told.kernel_seconds
    if copies is None or kernels is None:
        return []
    rest = max(0.0, first.gpu - copies - kernels)
    parts = {"starting kernels and waiting": rest, "copying": copies, "kernels": kernels}
    most = max(parts, key=lambda name: parts[name])
    shares = ", ".join(f"{name} {_duration(seconds)}" for name, seconds in parts.items())
    count = f", in {told.kernels} launches" if told.kernels else ""
    said = f"at batch {first.batch} the GPU takes {_duration(first.gpu)} ({shares}{count})"
    cost = f": {most} is most of it, shared by more inputs" if parts[most] > MOSTLY * first.gpu else ""
    return [f"{said}, the CPU {_duration(first.cpu)}{cost}"]


def _large(both: Sequence[_Both]) -> list[str]:
    """Return in words what more inputs cost on each: the GPU runs them in parallel while it has room."""
    first, last = both[0], both[-1]
    if first.batch == last.batch:
        return []
    more = last.batch / first.batch
    early, late = first.times.kernel_seconds, last.times.kernel_seconds
    said = []
    if early and late:
        grown = late / early
        room = " since it can work on them in parallel" if grown < FREE * more else ""
        said = [f"for {more:g} times the inputs its kernels take {grown:.3g} times as long{room}"]
    said.append(f"the CPU takes {last.cpu / first.cpu:.3g} times as long for {more:g} times the inputs")
    copies = last.times.transfer_seconds
    if copies and copies > MOSTLY * last.gpu:
        said.append(
            f"at batch {last.batch} the copies are {copies / last.gpu:.0%} of the GPU's time: the link limits it"
        )
    return said


def _once(both: Sequence[_Both], weights_seconds: float | None) -> list[str]:
    """Return after how many batches copying the weights has paid off."""
    last = both[-1]
    gained = last.cpu - last.gpu
    if not weights_seconds or gained <= 0:
        return []
    count = max(1, math.ceil(weights_seconds / gained))
    batches_ = "one batch" if count == 1 else f"{count} batches"
    return [f"copying the weights takes {_duration(weights_seconds)}, once: paid back after {batches_} of {last.batch}"]


def _times(ratio: float) -> str:
    return f"{ratio:.2g} times as fast" if ratio < 99.5 else f"{ratio:.0f} times as fast"  # noqa: PLR2004 - two digits


def _duration(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"


def alone(trace: Trace, why: str) -> Trace:
    """Return the CPU's trace, with the reason why there is no GPU beside it."""
    steps = (replace(one, why=(*one.why, why)) if one.number == COPIED else one for one in trace.steps)
    return replace(trace, steps=tuple(steps))


def beside_joined(trace: Trace, asked: Asked, progress: Progress) -> Trace:
    """Return the GPU's trace with the layers of the CPU, the times of both for each batch, and the crossover."""
    same = replace(asked, precision=trace.subject.precision)
    try:
        cpu = following.follow(same, progress)
    except NothingSeenError as error:
        return replace(trace, crossover=Crossover(at=None, points=trace.batches, says=str(error)))
    timed = following.batches(same, [one.batch for one in trace.batches])
    points = joined(timed, trace.batches)
    return replace(
        trace,
        cpu_layers=cpu.layers,
        processor=cpu.processor,
        checks=(*trace.checks, *(replace(one, what="output on the CPU") for one in cpu.checks)),
        findings=(*trace.findings, *cpu.findings),
        crossover=crossover(points, UNITS.get(asked.model, "inputs"), _copied(trace)),
        seconds=trace.seconds + cpu.seconds,
        interrupted=trace.interrupted or cpu.interrupted,
    )


def _copied(trace: Trace) -> float | None:
    """Return the time of one copy of the weights; the step itself copies twice, to compare, and allocates."""
    done = (step for step in trace.steps if step.number == COPIED and step.status is State.DONE)
    speed = next((one.value for step in done for one in step.figures if one.name == PINNED), None)
    return trace.subject.weight_bytes / speed / 1e9 if speed else None
