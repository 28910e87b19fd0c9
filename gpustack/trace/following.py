"""The model on the CPU: steps 1, 5 and 6 run with numpy, timed layer by layer, and checked in float64."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from statistics import median
from typing import TYPE_CHECKING

from gpustack.bench import numa
from gpustack.errors import NothingSeenError
from gpustack.matrix import Matrix
from gpustack.model import record
from gpustack.model.difference import BatchTime, Check
from gpustack.model.facts import Layer
from gpustack.model.trace import Figure, Ground, Loaded, Moment, Processor, State, Step, TensorLayer, Trace
from gpustack.trace import NAMES, WITHOUT, Asked, Progress, failing, left_out, needing, reference
from gpustack.trace.counting import Roof, layer, place, raised, subject, total
from gpustack.trace.failing import wrong
from gpustack.trace.models import Model, build
from gpustack.trace.ops import made, outs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from gpustack.trace.reference import Array

USUAL = "fp32"
WARM = 1.0  # seconds: a shorter run is repeated, since the first one starts threads
RUNS = 3
SHARE = 0.25  # of the remaining time, for one batch


@record
class Pass:
    """One run of the model: its output, its layers with their times, and the moments on the timeline."""

    output: Array
    layers: tuple[TensorLayer, ...]
    timeline: tuple[Moment, ...]
    seconds: float


@dataclass(slots=True, kw_only=True)
class Journey:
    """The steps that a CPU can do, their moments, and the ``seconds`` of all."""

    model: Model
    roof: Roof
    clock: Callable[[], float]
    steps: dict[int, Step] = field(default_factory=dict)
    timeline: list[Moment] = field(default_factory=list)
    layers: tuple[TensorLayer, ...] = ()
    check: Check | None = None
    seconds: float = 0.0
    interrupted: str | None = None

    def go(self, progress: Progress) -> None:
        """Run the steps that a CPU can do; Ctrl-C ends it with what was reached."""
        model, clock = self.model, self.clock
        try:
            progress.step(1, NAMES[1])
            begun = clock()
            values = reference.load(model)
            self._keep(_first(model, clock() - begun))
            progress.step(5, NAMES[5])
            ran = run(model, values, self.roof, clock)
            if ran.seconds < WARM:
                ran = run(model, values, self.roof, clock)
            self.roof = raised(self.roof, ran.layers)
            self.layers = tuple(place(one, self.roof) for one in ran.layers)
            self._keep(_fifth(ran), ran.timeline)
            progress.step(6, NAMES[6])
            begun = clock()
            answer = reference.numpy().ascontiguousarray(ran.output)
            taken = clock() - begun
            self.check = checked(model, values, answer)
            self._keep(_sixth(answer, taken, self.check))
        except KeyboardInterrupt:
            self.interrupted = "Ctrl-C"
        finally:
            progress.close()

    def _keep(self, step: Step, moments: Sequence[Moment] = ()) -> None:
        """Store a step that ran after the others, as one moment unless it has several."""
        seconds = step.seconds or 0.0
        whole = Moment(track="CPU", name=step.name, begin=0.0, seconds=seconds, step=step.number)
        self.timeline += [replace(one, begin=one.begin + self.seconds) for one in moments or (whole,)]
        self.steps[step.number] = step
        self.seconds += seconds

    def whole(self, number: int) -> Step:
        """Return one of the seven steps, as far as it ran."""
        if number in WITHOUT:
            return needing(number)
        return self.steps.get(number) or left_out(number, f"stopped by {self.interrupted}")


def follow(asked: Asked, progress: Progress, clock: Callable[[], float] = time.perf_counter) -> Trace:
    """Return the trace of a model on this machine's CPU.

    Raises NothingSeenError if numpy is missing or the model would take longer than the available time.
    """
    started = clock()
    model = build(asked.model, asked.size, asked.precision or USUAL)
    roof = reference.measured_roof(clock)
    if roof.tflops and (needed := total(model) / 1e12 / roof.tflops) > asked.timeout:
        raise NothingSeenError(
            f"this CPU would need about {needed:.0f} s for {asked.model}, {asked.size}, and has {asked.timeout:.0f}; "
            "to fix it: --timeout SECONDS, or a smaller --size"
        )
    gone = Journey(model=model, roof=roof, clock=clock)
    gone.go(progress)
    check = gone.check
    return Trace(
        tool=Matrix().tool,
        ground=Ground.CPU,
        subject=subject(model),
        processor=processor(),
        steps=tuple(map(gone.whole, NAMES)),
        layers=gone.layers,
        checks=(check,) if check else (),
        findings=(wrong(check, component="python", layer=Layer.LIBRARY),) if check and not check.passed else (),
        timeline=tuple(gone.timeline),
        memory_ceiling=_ceiling("memory of the host", gone.roof.gigabytes_a_second, "GB/s", "a copy of 64 MiB"),
        compute_ceiling=_ceiling(
            "processor", gone.roof.tflops, "TFLOP/s", f"a product of {reference.SIDE} x {reference.SIDE} in fp32"
        ),
        cache_ceiling=_ceiling("cache of the CPU", gone.roof.cache_gigabytes_a_second, "GB/s", "a copy of 1 MiB"),
        wall_seconds=gone.seconds,
        taken=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        seconds=clock() - started,
        interrupted=gone.interrupted,
    )


def run(model: Model, values: Mapping[str, Array], roof: Roof, clock: Callable[[], float] = time.perf_counter) -> Pass:
    """Run the model once in float32 and return the result."""
    layers, timeline = list[TensorLayer](), list[Moment]()
    output: Array = reference.numpy().zeros(0)
    begun = clock()
    for op, result, seconds in reference.forward(model, values, "float32", clock):
        timed = replace(layer(op, model, reference.SINGLE), seconds=seconds)
        layers.append(place(timed, roof))
        at = clock() - begun - seconds
        timeline.append(Moment(track="CPU", name=op.name, begin=max(0.0, at), seconds=seconds, step=5))
        output = result[outs(op)[-1]]
    spent = clock() - begun
    return Pass(output=output, layers=tuple(layers), timeline=tuple(timeline), seconds=spent)


def checked(model: Model, values: Mapping[str, Array], answer: Array) -> Check:
    """Return how far a result is from the float64 reference, over all inputs of the batch or some of them."""
    items = reference.sample(model)
    wanted = reference.truth(model, values, items)
    got = reference.part(answer, model, items)
    return failing.compare(got, wanted, model.precision, what="output", rows=len(answer))


def batches(
    asked: Asked, sizes: Sequence[int], clock: Callable[[], float] = time.perf_counter
) -> tuple[BatchTime, ...]:
    """Return how long the CPU takes for each of these batches, without those that would take too long."""
    told = list[BatchTime]()
    with suppress(KeyboardInterrupt):
        until, speed = clock() + asked.timeout, 0.0
        values: Mapping[str, Array] = {}
        for batch in sorted(sizes):
            model = build(asked.model, asked.size, asked.precision or USUAL, batch)
            if speed and total(model) / speed > SHARE * (until - clock()):
                break
            fresh = {model.input.name: made(model, model.input)}
            values = {**values, **fresh} if values else reference.load(model)
            times = [_pass(model, values, clock)]
            while times[0] < WARM and len(times) <= RUNS:
                times.append(_pass(model, values, clock))
            seconds = median(times[1:] or times)
            speed = total(model) / seconds if seconds else 0.0
            told.append(BatchTime(batch=batch, cpu_seconds=seconds))
    return tuple(told)


def processor() -> Processor:
    """Return the name of this CPU and how many of its threads we may use."""
    np = reference.numpy()
    blas = np.show_config(mode="dicts").get("Build Dependencies", {}).get("blas", {})
    return Processor(
        name=numa.processor(),
        threads=len(os.sched_getaffinity(0)),
        library=" ".join(filter(None, (blas.get("name"), blas.get("version")))) or None,
        numpy=np.__version__,
    )


def _pass(model: Model, values: Mapping[str, Array], clock: Callable[[], float]) -> float:
    return sum(seconds for _, _, seconds in reference.forward(model, values, "float32", clock))


def _first(model: Model, seconds: float) -> Step:
    count = model.parameters + model.input.count
    figures = (
        Figure(name="numbers in the weights", value=model.parameters / 1e6, unit="million"),
        Figure(name="weights and input", value=count * model.width / 1e6, unit="MB"),
    )
    why = (f"made from seed {model.seed}, the same on every machine",)
    return Step(number=1, name=NAMES[1], status=State.DONE, seconds=seconds, figures=figures, why=why)


def _fifth(ran: Pass) -> Step:
    flops = sum(one.flops for one in ran.layers)
    moved = sum(one.bytes_read + one.bytes_written for one in ran.layers)
    figures = (
        Figure(name="operations", value=flops / 1e9, unit="GFLOP"),
        Figure(name="read and written", value=moved / 1e6, unit="MB"),
        Figure(name="reached", value=flops / ran.seconds / 1e9, unit="GFLOP/s", note="all layers together"),
    )
    why = ("numpy computes in float32, whatever the precision of the numbers",)
    np = reference.numpy()
    return Step(
        number=5,
        name=NAMES[5],
        status=State.DONE,
        seconds=ran.seconds,
        figures=figures,
        why=why,
        libraries=(Loaded(layer=Layer.LIBRARY, name="numpy", version=np.__version__, file=np.__file__),),
    )


def _sixth(answer: Array, seconds: float, check: Check) -> Step:
    figures = (Figure(name="output", value=answer.nbytes / 1e6, unit="MB"),)
    status = State.DONE if check.passed else State.FAILED
    return Step(number=6, name=NAMES[6], status=status, seconds=seconds, figures=figures, why=(failing.said(check),))


def _ceiling(name: str, value: float | None, unit: str, how: str) -> Figure | None:
    """Return a limit measured with numpy, raised if a layer was faster."""
    return Figure(name=name, value=value, unit=unit, note=f"the most measured: {how}, or a layer") if value else None
