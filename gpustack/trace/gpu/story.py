"""The seven steps once, from numbers in host memory to a checked answer, each timed by the clock of the program.

The wall time is that of this single pass; repeats for medians come later and belong to no step. Within it are the first
copies, the compilation of the kernels, the loading of cuBLASLt, the trial of its ways to compute each product, and the
float64 reference: whoever runs a model once waits for all of that.
"""

from __future__ import annotations

import ctypes
from dataclasses import asdict
from itertools import pairwise
from typing import TYPE_CHECKING

from gpustack.bench.calls import captured
from gpustack.bench.child import TRIAL, Desk
from gpustack.bench.timing import WAIT, fitting
from gpustack.model.trace import CHECKED, LINK, Moment
from gpustack.trace import Page, Telling, failing, reference
from gpustack.trace.frameworks.chain import mapped
from gpustack.trace.gpu.device import Gate, Products, Run, Runner, Stage, fill, lay, workspace
from gpustack.trace.gpu.launched import launched
from gpustack.trace.gpu.plan import FILE, Launch, Multiply
from gpustack.trace.models import Model, build
from gpustack.trace.ops import decode

if TYPE_CHECKING:
    from contextlib import ExitStack

    from gpustack.bench.card import Memory
    from gpustack.bench.cublaslt import Product
    from gpustack.model.difference import Check

WAYS = 8  # ways of each product are tried


def tell(stage: Stage) -> Check:
    """Run the seven steps once, and report each; return how accurate the result is."""
    telling = stage.telling
    telling.start()
    for number, act in enumerate((_numbers, _copies, _ready, _run, _flow, _output), 1):
        with telling.step(number) as page:
            act(stage, page)
    with telling.step(7) as page:
        return _back(stage, page)


def _numbers(stage: Stage, page: Page) -> None:
    """Step 1: create the numbers in ordinary and in pinned memory."""
    clock, model = stage.telling.clock, stage.model
    begun = clock()
    stage.values = reference.load(model)
    stage.raw = fill(stage.arena, model, stage.values)
    made = clock()
    stage.pinned = stage.stack.enter_context(stage.card.pinned(stage.arena.size))
    pinned = clock()
    ctypes.memmove(stage.pinned.address, stage.raw.ctypes.data, stage.arena.size)
    page.figure("weights and input", stage.arena.size / 1e6, "MB", f"as {model.precision}, in ordinary memory")
    page.figure("numbers made", made - begun, "s", f"seed {model.seed}")
    page.figure("pinned memory allocated", pinned - made, "s")
    page.figure("copied into it", stage.arena.size / max(clock() - pinned, 1e-9) / 1e9, "GB/s", "by the processor")


def _copies(stage: Stage, page: Page) -> None:
    """Step 2: copy everything over the link, from ordinary memory and again from pinned memory."""
    card, size, clock = stage.card, stage.arena.size, stage.telling.clock
    begun = clock()
    stage.weights = card.allocate(size)
    stage.stack.callback(card.release, stage.weights)
    page.figure("device memory allocated", clock() - begun, "s", "in the order of the stream")
    for name, address in (("pageable", stage.raw.ctypes.data), ("pinned", stage.pinned.address)):
        seconds = timed(stage, lambda address=address: card.to_device(stage.weights, address, size))  # type: ignore[misc]
        page.figure(f"copied from {name} memory", size / seconds / 1e9, "GB/s", "this once, by events")
        _over_link(stage, f"copy, {name}", seconds, 2, size)


def _over_link(stage: Stage, name: str, seconds: float, step: int, size: int) -> None:
    """Report a copy that has just ended as a moment of the link."""
    begin = max(0.0, stage.telling.now - seconds)
    detail = f"{size / 1e6:.1f} MB"
    stage.telling.moment(Moment(track=LINK, name=name, begin=begin, seconds=seconds, step=step, detail=detail))


def _ready(stage: Stage, page: Page) -> None:
    """Step 3: compile, allocate, choose how products are computed, and capture everything as a CUDA graph."""
    card, clock = stage.card, stage.telling.clock
    begun = clock()
    card.kernel(FILE, f"residual_{stage.model.precision}")
    page.figure("kernels compiled and loaded", clock() - begun, "s")
    page.why.append(f"gpustack's kernels: {card.how(FILE)}")
    flag = stage.stack.enter_context(card.pinned(64))
    stage.gate = Gate(card, flag)
    begun = clock()
    addresses = {name: stage.weights + place for name, place in stage.arena.places.items()}
    space = stage.stack.enter_context(card.memory(workspace(card)))
    stage.products = Products(lab=stage.desk.lab, precision=stage.model.precision, most=WAYS)
    runner = stage.runner = Runner(
        card=card, model=stage.model, products=stage.products, addresses=addresses, workspace=space
    )
    runner.allocate(stage.stack)
    page.figure("memory for tensors allocated", clock() - begun, "s", f"{runner.allocated / 1e6:.1f} MB")
    begun = clock()
    runner.once()
    runner.prepare(lambda work, ways: chosen(stage, work, ways))
    library = stage.products.library
    how = f"cuBLASLt {library.get('library_version', '?')}, {stage.tries} ways tried"
    page.figure("products prepared", clock() - begun, "s", how)
    begun = clock()
    runner()
    card.settle()
    page.figure("first pass", clock() - begun, "s", "after each launch was prepared and run once")
    _graph(stage, page)
    page.libraries += mapped(versions={"cublasLt": str(library.get("library_version", "")) or None})


def _graph(stage: Stage, page: Page) -> None:
    runner, clock = stage.runner, stage.telling.clock
    times = [clock()]

    def enqueue() -> None:
        runner()
        times.append(clock())

    stage.graph = stage.stack.enter_context(captured(enqueue, stage.card.stream))
    page.figure("CUDA graph captured", times[1] - times[0], "s", f"{len(runner.runs)} launches")
    page.figure("CUDA graph instantiated", clock() - times[1], "s")
    stage.graph(1)
    stage.card.settle()


def chosen(stage: Stage, work: Multiply, ways: list[tuple[Product, Run]]) -> int:
    """Return the rank of the fastest of several ways to compute a product, by a short train of each."""
    if not ways:
        stage.desk.lab.skip(f"cuBLASLt has no way to compute {work.layer} on this GPU")
    times = []
    for _, run in ways:
        stage.desk.timer.first(run)
        each = stage.desk.timer.train(run, 1).seconds
        times.append(stage.desk.timer.train(run, runs).seconds if (runs := fitting(TRIAL, each)) > 1 else each)
    stage.tries += len(ways)
    return times.index(min(times))


def sized(stage: Stage, batch: int, workspace: Memory, stack: ExitStack) -> Runner:
    """Return the model prepared for another batch: it shares only the weights."""
    card, whole, runner = stage.card, stage.model, stage.runner
    model = build(whole.name, whole.size, whole.precision, batch)
    into = card.allocate(model.input.count * model.width)
    stack.callback(card.release, into)
    shared = {name: runner.addresses[name] for name in (*(one.name for one in whole.weights), *runner.plan.kept)}
    addresses = {**shared, model.input.name: into}
    mine = Runner(card=card, model=model, products=runner.products, addresses=addresses, workspace=workspace)
    mine.allocate(stack)
    mine.prepare(lambda work, ways: chosen(stage, work, ways))
    return mine


def _run(stage: Stage, page: Page) -> None:
    """Step 4: launch the kernels one by one, and collect the details of each."""
    card, runner, clock = stage.card, stage.runner, stage.telling.clock
    begun = clock()
    seconds = timed(stage, runner)
    page.figure("one pass, launched one by one", clock() - begun, "s", "by the clock of the host, from Python")
    page.figure("one pass, launched one by one, on the GPU", seconds, "s", "by events")
    rows = launched(card, runner, library_too=False)
    stage.telling.say("kernels", rows=[asdict(row) for row in rows])
    page.figure("launches", len(rows), "")
    blocks = sum(row.blocks or 0 for row in rows)
    threads = sum((row.blocks or 0) * (row.threads or 0) for row in rows)
    page.figure("blocks of gpustack's kernels", blocks, "", f"on {card.multiprocessors} multiprocessors")
    page.figure("threads of gpustack's kernels", threads, "")
    own = sum(isinstance(work, Launch) for work in runner.plan.passes)
    page.why.append(f"{own} kernels of gpustack's, {len(rows) - own} products by cuBLASLt")


def _flow(stage: Stage, page: Page) -> None:
    """Step 5: one pass with an event after every launch."""
    seconds = flow(stage)
    end = stage.telling.now
    at = end - sum(seconds)
    for (work, _), each in zip(stage.runner.runs, seconds, strict=True):
        name = work.kernel if isinstance(work, Launch) else f"product {work.m} x {work.n} x {work.k}"
        stage.telling.moment(Moment(track="stream 1", name=work.layer, begin=at, seconds=each, step=5, detail=name))
        at += each
    page.figure("kernels one after the other", sum(seconds), "s", "by events, launched behind a gate")


def flow(stage: Stage) -> list[float]:
    """Run one pass behind the gate with an event after every launch; return the seconds of each launch."""
    card, runs = stage.card, stage.runner.runs
    events = [card.event() for _ in range(len(runs) + 1)]

    def enqueue() -> None:
        card.record(events[0])
        for (_, run), event in zip(runs[:-1], events[1:-1], strict=True):
            run()
            card.record(event)
        runs[-1][1]()

    stage.gate.through(enqueue, events[-1])
    return [card.seconds(one, after) for one, after in pairwise(events)]


def _output(stage: Stage, page: Page) -> None:
    """Step 6: the graph, launched once, leaves the output in device memory."""
    graph, model = stage.graph, stage.model
    size = model.output.count * model.width
    stage.card.spoil(stage.runner.addresses[model.output.name], size)  # or we might check what an earlier pass left
    begun = stage.telling.clock()
    seconds = timed(stage, lambda: graph(1))
    page.figure("one pass as a graph", stage.telling.clock() - begun, "s", "by the clock of the host")
    page.figure("one pass as a graph, on the GPU", seconds, "s", "by events")
    page.figure("output", size / 1e6, "MB", f"{model.output.shape} in device memory")


def _back(stage: Stage, page: Page) -> Check:
    """Step 7: copy the output back, and compare it with numpy in float64."""
    model, card, clock = stage.model, stage.card, stage.telling.clock
    size = model.output.count * model.width
    stage.answer = held = stage.stack.enter_context(card.pinned(size))
    source = stage.runner.addresses[model.output.name]
    seconds = timed(stage, lambda: card.to_host(held.address, source, size))
    _over_link(stage, "copy back, pinned", seconds, 7, size)
    page.figure("copied to pinned memory", size / seconds / 1e9, "GB/s", "this once, by events")
    begun = clock()
    check = checked(stage, held, "output")
    page.figure(CHECKED, clock() - begun, "s", f"{check.compared} of {check.rows} rows")
    page.why.append(failing.said(check))
    stage.telling.say("check", row=asdict(check))
    return check


def checked(stage: Stage, held: Memory, what: str) -> Check:
    """Return how far an output in pinned memory is from the reference, which is computed once."""
    model = stage.model
    raw = ctypes.string_at(held.address, model.output.count * model.width)
    answer = decode(raw, model.precision, model.output.shape)
    items = reference.sample(model)
    if stage.truth is None:
        stage.truth = reference.truth(model, stage.values, items)
    got = reference.part(answer, model, items)
    return failing.compare(got, stage.truth, model.precision, what=what, rows=len(answer))


def timed(stage: Stage, enqueue: Run) -> float:
    """Enqueue some work between two events, wait for it, and return the seconds between them."""
    card = stage.card
    begin, end = card.event(), card.event()
    card.record(begin)
    enqueue()
    card.record(end)
    card.wait(end, WAIT)
    return card.seconds(begin, end)


def stage_for(desk: Desk, model: Model, stack: ExitStack) -> Stage:
    """Return the initial stage of the steps."""
    return Stage(desk=desk, card=desk.card, model=model, arena=lay(model), telling=Telling(desk.outlet), stack=stack)
