"""A trace through the seven steps as text: each step with what it did, its tables and its figures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from gpustack.model.trace import Figure, State, Step, Stop, Trace
from gpustack.report import trace_words as words
from gpustack.report.lines import Line, block, bullets, indent, renderer, say, section, write

if TYPE_CHECKING:
    from gpustack.model.difference import BatchTime
    from gpustack.report.page import Page

LAYER = ("layer", "time", "FLOP/byte", "reached", "of limit", "bound by")
LAYER_COLUMNS = (-27, 9, 9, 14, 8, -8)
KERNEL = ("kernel", "grid", "block", "regs", "shared", "occ.", "waves", "units")
KERNEL_COLUMNS = (-22, 10, 7, 4, 7, 5, 6, -8)
BATCH = ("batch", "CPU", "GPU", "kernels", "copies", "GPU faster by")
BATCH_COLUMNS = (8, 10, 10, 10, 10, 13)
MOST_KERNELS = 24
NAME_COLUMNS, TIME_COLUMNS, BAR_COLUMNS = 37, 10, 16
WORDS = {State.DONE: "DONE", State.FAILED: "FAILED", State.SKIPPED: "TRACE", State.NEEDS_GPU: "TRACE"}


def layers(trace: Trace, page: Page) -> Iterator[Line]:
    """Yield the layers: time, arithmetic intensity, rate reached and limit."""
    beside = {one.name: one.seconds for one in trace.cpu_layers}
    if trace.layers:
        yield from _table(LAYER, LAYER_COLUMNS, [words.layer(one, trace) for one in trace.layers], page)
    if said := words.bounds(trace):
        yield say(page, said, lead="- ")
    if beside and page.verbose:
        for one in trace.layers:
            if one.seconds and (cpu := beside.get(one.name)):
                said = f"{one.name}: {words.duration(cpu)} on the CPU, {words.three(cpu / one.seconds)} times as long"
                yield say(page, said, lead="- ")


def kernels(trace: Trace, page: Page) -> Iterator[Line]:
    """Yield each kernel launch."""
    if not trace.kernels:
        return
    most = len(trace.kernels) if page.verbose else MOST_KERNELS
    shown = trace.kernels[:most]
    yield from _table(KERNEL, KERNEL_COLUMNS, list(map(words.kernel, shown)), page)
    if len(trace.kernels) > most:
        yield say(page, (f"and {len(trace.kernels) - most} more: -v shows them", "dim"))
    made = dict.fromkeys(one.made_by for one in shown)
    yield say(page, f"made by {', '.join(made)}", lead="- ")
    silent = dict.fromkeys(one.made_by for one in shown if one.grid is None)
    if silent:
        yield say(page, f"?: {', '.join(silent)} does not say", lead="- ")
    notes = dict.fromkeys(f"{one.layer}: {one.note}" for one in shown if one.note) if page.verbose else ()
    yield from bullets(notes, page)
    yield say(page, "regs: registers per thread; shared: bytes a block; occ.: occupancy", lead="- ")


def batches(points: Sequence[BatchTime], page: Page) -> Iterator[Line]:
    """Yield the time of each batch on the CPU and on the GPU."""
    if points:
        yield from _table(BATCH, BATCH_COLUMNS, list(map(words.batch, points)), page)


def _table(names: Sequence[str], columns: Sequence[int], rows: Sequence[tuple[str, ...]], page: Page) -> Iterator[Line]:
    """Yield rows below their column names (negative width: left-aligned); on a narrow page, each row as a list.

    A column without any values is left out.
    """
    known = [at for at in range(len(names)) if any(row[at] for row in rows)]
    names, columns = [names[at] for at in known], [columns[at] for at in known]
    rows = [tuple(row[at] for at in known) for row in rows]
    if page.narrow:
        for row in rows:
            told = (f"{name} {said}" for name, said in zip(names[1:], row[1:], strict=True) if said)
            yield say(page, (row[0], "head"), f": {', '.join(told)}", hang="  ")
        return
    yield say(page, (_row(names, columns), "dim"), whole=True)
    for row in rows:
        yield say(page, _row([page.show(cell) for cell in row], columns), whole=True)


def _row(cells: Sequence[str], columns: Sequence[int]) -> str:
    """Return the cells side by side; one that is too long takes room from the next, or is cut if it is a name."""
    made, owed = list[str](), 0
    for cell, wide in zip(cells, columns, strict=True):
        room = abs(wide) - owed
        fits = cell if wide > 0 or len(cell) <= room else f"{cell[: room - 1]}…"
        made.append(fits.ljust(room) if wide < 0 else fits.rjust(room))
        owed = max(0, len(fits) - room)
    return " ".join(made).rstrip()


def lines(trace: Trace, page: Page) -> Iterator[Line]:
    """Yield the lines of the whole trace, section by section."""
    came = words.state(trace)
    mark, _, style = words.STATES[came]
    said = words.headline(trace)
    yield say(page, (f"{page.mark(mark)} {WORDS[came]}: ", style), (f"{said}.", "head"), hang="  ")
    early = f"stopped early: {trace.interrupted}" if trace.interrupted else ""
    for told in filter(None, (words.model(trace), words.ground(trace), early)):
        yield from indent(2, (say(page, told),))
    yield from section("THE SEVEN STEPS", _steps(trace, page), page)
    if trace.stop:
        yield from section("WHY THERE", _stop(trace.stop, page), page)
    yield from section("FOUND", _findings(trace, page), page)
    yield from section("LAYERS, IN EXECUTION ORDER", layers(trace, page), page)
    yield from section("KERNELS", kernels(trace, page), page)
    yield from section("COMPARED", _compared(trace, page), page)
    yield from section("CPU OR GPU", _crossover(trace, page), page)
    yield from section("FROM THE SCRIPT DOWN TO THE KERNEL", _chain(trace, page), page)
    yield from _foot(trace, page)


def _steps(trace: Trace, page: Page) -> Iterator[Line]:
    every = words.whole(trace)
    for step in trace.steps:
        yield _step(step, every, page)
        yield from indent(4, bullets(_said(step, page), page))
    if every is not None:
        yield say(page, f"all seven steps: {words.duration(every)}")


def _step(step: Step, every: float | None, page: Page) -> Line:
    """Return one step: its mark, number and name, its time, and its share of the total as a bar."""
    mark, word, style = words.STATES[step.status]
    lead = write(page, (f"{page.mark(mark)} ", style), (f"{step.number} ", "head"))
    part = words.share(step.seconds, every)
    told = words.duration(step.seconds) if step.seconds is not None else word if _tells(step) else "; ".join(step.why)
    if page.narrow or step.seconds is None:
        return say(page, (step.name, "head"), f": {told}", lead=lead)
    full = round(min(max(part or 0.0, 0.0), 1.0) * BAR_COLUMNS)
    bar = (page.mark("full") * full, style), (page.mark("rest") * (BAR_COLUMNS - full), "dim")
    name = (f"{step.name:<{NAME_COLUMNS}}", "head")
    return say(page, name, f"{told:>{TIME_COLUMNS}} ", *bar, f" {words.percent(part):>5}", lead=lead)


def _tells(step: Step) -> bool:
    """Return whether a step's text is below it; for a skipped step it is beside the name."""
    return step.status in {State.DONE, State.FAILED} or not step.why or step.seconds is not None


def _said(step: Step, page: Page) -> Iterator[str]:
    """Yield the figures of a step, with -v how each was measured, its remarks, and its libraries."""
    for held in step.figures:
        yield f"{words.figure(held)} ({held.note})" if page.verbose and held.note else words.figure(held)
    yield from step.why if _tells(step) else ()
    for one in step.libraries:
        yield words.link(one)


def _stop(stop: Stop, page: Page) -> Iterator[Line]:
    yield say(page, f"{stop.why[:1].upper()}{stop.why[1:]}.")
    yield say(page, "What it means: ", (stop.explain, "command"), whole=True)


def _findings(trace: Trace, page: Page) -> Iterator[Line]:
    for number, one in enumerate(trace.findings):
        if number:
            yield Line()
        yield from block(one, (), (), page)


def _compared(trace: Trace, page: Page) -> Iterator[Line]:
    """Yield eager beside graph, serial beside overlapped, and how accurate the result is."""
    told = list[str]()
    if (one := trace.launching) is not None:
        eager, graph = map(words.duration, (one.eager_seconds, one.graph_seconds))
        told.append(
            f"{one.kernels} kernels started one by one (eager): {eager}; as one CUDA graph: {graph}, "
            f"{one.gain:.2f} times as fast"
        )
    if (both := trace.overlap) is not None:
        serial, at_once = map(words.duration, (both.serial_seconds, both.overlapped_seconds))
        told.append(
            f"copies and kernels one after the other: {serial}; at once, in {both.chunks} chunks over {both.streams} "
            f"streams: {at_once}, {both.gain:.2f} times as fast"
        )
        told += [both.note] if both.note else []
    told += words.checks(trace)
    yield from bullets(told, page)


def _crossover(trace: Trace, page: Page) -> Iterator[Line]:
    if not (found := trace.crossover):
        return
    yield say(page, (f"{found.says[:1].upper()}{found.says[1:]}.", "head"))
    yield from bullets(found.why, page)
    yield from batches(found.points, page)


def _chain(trace: Trace, page: Page) -> Iterator[Line]:
    for one in trace.chain:
        lead = write(page, (f"{one.layer.value:<14}", "dim"))
        style = "error" if one.missing else "plain"
        yield say(page, (words.link(one), style), lead=lead, hang=Text("  ") if page.narrow else None)


def _from(one: Figure) -> str:
    """Return the source of a ceiling, and what was measured beside it."""
    if one.ceiling is None:
        return one.note or "measured"
    return f"{one.ceiling_from or 'computed'}; measured {words.three(one.value)}"


def _foot(trace: Trace, page: Page) -> Iterator[Line]:
    ceilings = [
        one for one in (trace.link_ceiling, trace.memory_ceiling, trace.cache_ceiling, trace.compute_ceiling) if one
    ]
    told = [f"{one.name} {words.amount(words.limit(one) or 0.0, one.unit)} ({_from(one)})" for one in ceilings]
    yield Line()
    if told:
        yield say(page, (f"Limits: {'; '.join(told)}.", "dim"))
    took = (
        f"gpustack {trace.tool.version}, {words.GROUNDS.get(trace.ground, trace.ground.value)}, {trace.seconds:.1f} s."
    )
    more = f"gpustack explain WORD explains a term: {', '.join(words.TERMS)}."
    yield say(page, (f"{took} {more}", "dim"))


render = renderer(lines)
