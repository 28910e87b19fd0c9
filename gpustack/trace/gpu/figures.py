"""Repeated measurements after the steps: medians of layers, copies and launches, overlap, and other batches.

For the overlap the batch passes in chunks through two streams alternately: every chunk is copied in, computed and
copied out. On one stream that is sequential; on two, each with its own memory, the link copies the next chunk while the
multiprocessors work on this one. Both are timed by events, behind a gate that hides the host's enqueuing time.
"""

from __future__ import annotations

import ctypes
import time
from contextlib import ExitStack
from dataclasses import asdict, replace
from statistics import median
from typing import TYPE_CHECKING

from gpustack.bench.calls import RefusedError
from gpustack.bench.child import OUT_OF_MEMORY, QUICK
from gpustack.bench.cublaslt import CublasLtError
from gpustack.bench.lab import SkipError
from gpustack.bench.timing import fitting, sample
from gpustack.model.difference import BatchTime, Launching, Overlap
from gpustack.model.trace import Figure
from gpustack.trace.counting import layers
from gpustack.trace.gpu.launched import launched
from gpustack.trace.gpu.story import checked, flow, sized, timed
from gpustack.trace.ops import encode, made

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeAlias

    from cuda.core import Stream  # pyright: ignore[reportAttributeAccessIssue] - as in the bench's card

    from gpustack.bench.card import Memory
    from gpustack.trace.gpu.device import Run, Runner, Stage

    Lane: TypeAlias = tuple[Runner, Stream]

PASSES, REST = 15, 0.03  # with pauses as long as the bench makes between its products, too short for the power limit
LONGEST = 2.0  # seconds for one kind of figure
ROUNDS, ROUND = 7, 0.02
CHUNKS = (8, 4, 2)  # the first that divides the batch
STREAMS, TURNS = 2, 5
HARMLESS = (ArithmeticError, RefusedError, CublasLtError, SkipError)


def everything(stage: Stage, batches: Sequence[int]) -> None:
    """Measure and report everything repeated; a failed measurement costs only itself."""
    works: dict[str, Callable[[], None]] = {
        "layers": lambda: _layers(stage),
        "copies": lambda: _copies(stage),
        "overlap": lambda: _overlap(stage),
        "kernels of cuBLASLt": lambda: _kernels(stage),
        **{f"batch {batch}": lambda batch=batch: _batch(stage, batch) for batch in batches},  # type: ignore[misc]
    }
    for name, work in works.items():
        stage.telling.outlet.say("at", name)
        try:
            work()
        except Exception as error:
            full = any(sign in str(error) for sign in OUT_OF_MEMORY)
            if not full and not isinstance(error, HARMLESS):
                raise  # after an error of CUDA its context is no good any more
            reason = "too little of the GPU's memory is free" if full else f"{type(error).__name__}: {error}"
            stage.telling.say("without", name=name, reason=reason)


def _layers(stage: Stage) -> None:
    """Report the median time of each launch and layer over several passes, and the cost of launching."""
    until, passes = time.monotonic() + LONGEST, list[list[float]]()
    while len(passes) < PASSES and (not passes or time.monotonic() < until):
        passes.append(flow(stage))
        time.sleep(REST)
    each = [median(times) for times in zip(*passes, strict=True)]
    runs = stage.runner.runs
    times: dict[str, float] = {}
    for (work, _), seconds in zip(runs, each, strict=True):
        times[work.layer] = times.get(work.layer, 0.0) + seconds
    rows = [asdict(replace(one, seconds=times.get(one.name))) for one in layers(stage.model)]
    works = [{"layer": work.layer, "seconds": seconds} for (work, _), seconds in zip(runs, each, strict=True)]
    stage.telling.say("layers", rows=rows, works=works, passes=len(passes), gated=stage.gate.held)
    stage.telling.say("launching", **asdict(launching(stage, sum(each))))


def launching(stage: Stage, kernels: float) -> Launching:
    """Return the time of a pass launched one by one and as a graph, averaged over many."""
    runner, graph, card = stage.runner, stage.graph, stage.card
    ways: tuple[Run, Run] = runner, lambda: graph(1)
    whole, host = list[float](), list[float]()
    for way in ways:
        whole.append(_repeated(stage, way))
        took = []
        for _ in range(ROUNDS):
            card.settle()
            begun = time.perf_counter()
            way()
            took.append(time.perf_counter() - begun)
        card.settle()
        host.append(median(took))
    return Launching(
        eager_seconds=whole[0],
        graph_seconds=whole[1],
        kernels=len(runner.runs),
        kernel_seconds=kernels,
        host_eager_seconds=host[0],
        host_graph_seconds=host[1],
    )


def _repeated(stage: Stage, way: Run) -> float:
    """Return the seconds of one of many passes, host and GPU together."""
    times, runs = list[float](), 1
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        for _ in range(runs):
            way()
        stage.card.settle()
        times.append((time.perf_counter() - begun) / runs)
        runs = fitting(ROUND, times[-1])
        time.sleep(REST)
    return median(times[1:])


def _copies(stage: Stage) -> None:
    """Report the bandwidth of the same copies in trains, as the bench measures them."""
    card, size, timer = stage.card, stage.arena.size, stage.desk.timer
    output = stage.model.output.count * stage.model.width
    source, answer = stage.runner.addresses[stage.model.output.name], stage.answer
    ways: dict[str, tuple[int, int, Run]] = {
        "pinned, in trains": (2, size, lambda: card.to_device(stage.weights, stage.pinned.address, size)),
        "pageable, repeated": (2, size, lambda: card.to_device(stage.weights, stage.raw.ctypes.data, size)),
        "pinned back, in trains": (7, output, lambda: card.to_host(answer.address, source, output)),
    }
    for name, (step, amount, run) in ways.items():
        samples = sample(timer.open() if "pageable" in name else timer, run, QUICK, lambda _part: None)
        value = amount / median(samples.seconds) / 1e9
        note = f"median of {len(samples.trains)} trains of {samples.runs} copies"
        stage.telling.say("figure", step=step, row=asdict(Figure(name=name, value=value, unit="GB/s", note=note)))


def _kernels(stage: Stage) -> None:
    """Report the kernels again, with the details of library kernels from a captured graph."""
    rows = launched(stage.card, stage.runner, library_too=True)
    stage.telling.say("kernels", rows=[asdict(row) for row in rows])


def _overlap(stage: Stage) -> None:
    """Report how copies and kernels overlap, and that the result is still correct."""
    if chunks(stage.model.batch) == 1:
        stage.telling.say("without", name="overlap", reason=f"a batch of {stage.model.batch} cannot be split")
        return
    ctypes.memset(stage.answer.address, 0xFF, stage.model.output.count * stage.model.width)
    seen = overlap(stage, stage.answer)
    stage.telling.say("check", row=asdict(checked(stage, stage.answer, "output, overlapped")))
    stage.telling.say("overlap", **asdict(seen))


def chunks(batch: int) -> int:
    """Return into how many chunks a batch is split; one if it cannot be."""
    return next((count for count in CHUNKS if batch % count == 0), 1)


def overlap(stage: Stage, held: Memory) -> Overlap:
    """Return both times; the output of the overlapped run is in ``held`` afterwards."""
    count = chunks(stage.model.batch)
    with ExitStack() as stack:
        lanes = [_lane(stage, stage.model.batch // count, stack) for _ in range(STREAMS)]
        for runner, stream in lanes:
            runner()
            stream.sync()
        serial = median(_turns(stage, lanes[:1], held) for _ in range(TURNS))
        copies = median(_turns(stage, lanes[:1], held, kernels=False) for _ in range(TURNS))
        at_once = median(_turns(stage, lanes, held) for _ in range(TURNS))
    return Overlap(
        serial_seconds=serial,
        overlapped_seconds=at_once,
        chunks=count,
        streams=STREAMS,
        copy_seconds=copies,
        compute_seconds=max(0.0, serial - copies),
        note=f"a chunk has {stage.model.batch // count} of the inputs: copied in, computed, output copied out",
    )


def _turns(stage: Stage, lanes: Sequence[Lane], held: Memory, *, kernels: bool = True) -> float:
    """Return the seconds from the first copy to the last, of all chunks in turn on these streams."""
    card, model = stage.card, lanes[0][0].model
    begin, end, done = card.event(), card.event(), card.event()
    source = stage.pinned.address + stage.arena.places[stage.model.input.name]
    each, back = model.input.count * model.width, model.output.count * model.width

    def enqueue() -> None:
        card.record(begin)
        for _, stream in lanes:
            stream.wait(begin)
        for number in range(stage.model.batch // model.batch):
            runner, stream = lanes[number % len(lanes)]
            card.to_device(runner.addresses[model.input.name], source + number * each, each, stream)
            if kernels:
                runner()
            card.to_host(held.address + number * back, runner.addresses[model.output.name], back, stream)
        for _, stream in lanes:
            over = card.event()
            stream.record(over)
            card.after(over)
        card.record(end)

    stage.gate.through(enqueue, done)
    return card.seconds(begin, end)


def _lane(stage: Stage, batch: int, stack: ExitStack) -> Lane:
    """Return a stream with a model for this many inputs, prepared on the card's own stream, as our timer is there."""
    card = stage.card
    runner = sized(stage, batch, stack.enter_context(card.memory(stage.runner.workspace.size)), stack)
    card.settle()
    runner.stream = stream = card.another()
    runner.prepare(lambda _work, _ways: 0)
    return runner, stream


def _batch(stage: Stage, batch: int) -> None:
    """Report how long another batch takes from input in host memory to output in host memory."""
    with ExitStack() as stack:
        mine = sized(stage, batch, stage.runner.workspace, stack)
        model = mine.model
        held = stack.enter_context(stage.card.pinned(model.input.count * model.width))
        raw = encode(made(model, model.input), model.precision)
        ctypes.memmove(held.address, raw.ctypes.data, held.size)
        back = stack.enter_context(stage.card.pinned(model.output.count * model.width))
        stage.telling.say("batch", **asdict(_timed_batch(stage, mine, (held, back))))


def _timed_batch(stage: Stage, mine: Runner, memory: tuple[Memory, Memory]) -> BatchTime:
    card, model, (held, back) = stage.card, mine.model, memory
    into, out = mine.addresses[model.input.name], mine.addresses[model.output.name]

    def there() -> None:
        card.to_device(into, held.address, held.size)

    def again() -> None:
        card.to_host(back.address, out, back.size)

    def whole() -> None:
        there()
        mine()
        again()

    whole()
    card.settle()
    copies = median(timed(stage, there) + timed(stage, again) for _ in range(ROUNDS))
    return BatchTime(
        batch=model.batch,
        gpu_seconds=_latency(stage, whole),
        transfer_seconds=copies,
        kernel_seconds=median(gated(stage, mine) for _ in range(ROUNDS)),
        kernels=len(mine.runs),
    )


def gated(stage: Stage, run: Run) -> float:
    """Return the seconds of some work behind the gate: only the GPU's part."""
    card = stage.card
    begin, end = card.event(), card.event()

    def enqueue() -> None:
        card.record(begin)
        run()

    stage.gate.through(enqueue, end)
    return card.seconds(begin, end)


def _latency(stage: Stage, run: Run) -> float:
    """Return the seconds from the first call to the last byte, with the GPU idle before; the median of several."""
    times = []
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        run()
        stage.card.settle()
        times.append(time.perf_counter() - begun)
    return median(times)
