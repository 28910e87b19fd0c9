"""A trace for people: the seven steps with bars, the layers, the kernels, and what was compared."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.text import Text

from gpustack.model.trace import State
from gpustack.report.finding_text import block
from gpustack.report.lines import Line, draw, indent, write
from gpustack.report.page import DEFAULT_WIDTH, Page
from gpustack.report.trace_tables import batches, kernels, layers
from gpustack.report.trace_words import (
    GROUNDS,
    STATES,
    TERMS,
    amount,
    duration,
    figure,
    ground,
    headline,
    limit,
    link,
    model,
    percent,
    share,
    state,
    three,
    whole,
)

if TYPE_CHECKING:
    from gpustack.model.trace import Figure, Step, Stop, Trace

NAME_COLUMNS, TIME_COLUMNS, BAR_COLUMNS = 37, 10, 16
WORDS = {State.DONE: "DONE", State.FAILED: "FAILED", State.SKIPPED: "TRACE", State.NEEDS_GPU: "TRACE"}


def render(
    trace: Trace,
    *,
    width: int = DEFAULT_WIDTH,
    colour: bool = False,
    ascii: bool = False,  # noqa: A002 - what the output can take; nobody needs the built-in here
    verbose: bool = False,
) -> str:
    """Give the text of a trace."""
    page = Page.of(width, colour=colour, ascii_only=ascii, verbose=verbose)
    return draw(lines(trace, page), page)


def lines(trace: Trace, page: Page) -> Iterator[Line]:
    """Give the lines of the whole trace, section by section."""
    yield from _head(trace, page)
    yield from _section("THE SEVEN STEPS", _steps(trace, page), page)
    if trace.stop:
        yield from _section("WHY THERE", _stop(trace.stop, page), page)
    yield from _section("FOUND", _findings(trace, page), page)
    yield from _section("LAYERS, IN THE ORDER IN WHICH THEY RUN", layers(trace, page), page)
    yield from _section("KERNELS", kernels(trace, page), page)
    yield from _section("COMPARED", _compared(trace, page), page)
    yield from _section("CPU OR GPU", _crossover(trace, page), page)
    yield from _section("FROM THE SCRIPT DOWN TO THE KERNEL", _chain(trace, page), page)
    yield from _foot(trace, page)


def _section(heading: str, inside: Iterator[Line], page: Page) -> Iterator[Line]:
    """Give a heading and what stands under it, or nothing where nothing does."""
    held = list(inside)
    if held:
        yield from (Line(), Line(body=write(page, (heading, "head"))), *held)


def _head(trace: Trace, page: Page) -> Iterator[Line]:
    came = state(trace)
    mark, _, style = STATES[came]
    said = headline(trace)
    yield Line(body=write(page, (f"{page.mark(mark)} {WORDS[came]}: ", style), (f"{said}.", "head")), hang=Text("  "))
    early = f"stopped early: {trace.interrupted}" if trace.interrupted else ""
    for told in filter(None, (model(trace), ground(trace), early)):
        yield from indent(2, (Line(body=write(page, told)),))


def _steps(trace: Trace, page: Page) -> Iterator[Line]:
    every = whole(trace)
    for step in trace.steps:
        yield _step(step, every, page)
        yield from indent(4, (Line(lead=Text("- "), body=write(page, said)) for said in _said(step, page)))
    if every is not None:
        yield Line(body=write(page, f"the seven steps together: {duration(every)}"))


def _step(step: Step, every: float | None, page: Page) -> Line:
    """Give one step: its mark, number and name, its time, and its part of the whole as a bar."""
    mark, word, style = STATES[step.status]
    lead = write(page, (f"{page.mark(mark)} ", style), (f"{step.number} ", "head"))
    part = share(step.seconds, every)
    told = duration(step.seconds) if step.seconds is not None else word if _tells(step) else "; ".join(step.why)
    if page.narrow or step.seconds is None:
        return Line(lead=lead, body=write(page, (step.name, "head"), f": {told}"))
    full = round(min(max(part or 0.0, 0.0), 1.0) * BAR_COLUMNS)
    bar = (page.mark("full") * full, style), (page.mark("rest") * (BAR_COLUMNS - full), "dim")
    name = (f"{step.name:<{NAME_COLUMNS}}", "head")
    return Line(lead=lead, body=write(page, name, f"{told:>{TIME_COLUMNS}} ", *bar, f" {percent(part):>5}"))


def _tells(step: Step) -> bool:
    """Tell whether what is said of a step stands below it: of one that was left out, it stands beside its name."""
    return step.status in {State.DONE, State.FAILED} or not step.why or step.seconds is not None


def _said(step: Step, page: Page) -> Iterator[str]:
    """Give the figures of a step, with -v how each was measured, what there is to say of it, and its libraries."""
    for held in step.figures:
        yield f"{figure(held)} ({held.note})" if page.verbose and held.note else figure(held)
    yield from step.why if _tells(step) else ()
    for one in step.libraries:
        yield link(one)


def _stop(stop: Stop, page: Page) -> Iterator[Line]:
    yield Line(body=write(page, f"{stop.why[:1].upper()}{stop.why[1:]}."))
    yield Line(body=write(page, "What it means: ", (stop.explain, "command")), whole=True)


def _findings(trace: Trace, page: Page) -> Iterator[Line]:
    for number, one in enumerate(trace.findings):
        if number:
            yield Line()
        yield from block(one, (), (), page)


def _compared(trace: Trace, page: Page) -> Iterator[Line]:
    """Give eager beside graph, serial beside overlapped, and how right the answer is."""
    told = list[str]()
    if (one := trace.launching) is not None:
        told.append(
            f"{one.kernels} kernels started one by one (eager): {duration(one.eager_seconds)}; as one CUDA graph: "
            f"{duration(one.graph_seconds)}, {one.gain:.2f} times as fast"
        )
    if (both := trace.overlap) is not None:
        told.append(
            f"copies and kernels one after the other: {duration(both.serial_seconds)}; at once, in {both.chunks} "
            f"chunks over {both.streams} streams: {duration(both.overlapped_seconds)}, {both.gain:.2f} times as fast"
        )
        told += [both.note] if both.note else []
    for check in trace.checks:
        rows = f"{check.compared} of {check.rows}" if check.compared < check.rows else f"all {check.rows}"
        right = "within" if check.passed else "not within"
        error = f"{max(check.error, check.largest):.2g}"
        told.append(f"{check.what} against {check.against}: error {error}, {right} {check.bound:g}, over {rows} rows")
    yield from (Line(lead=Text("- "), body=write(page, one)) for one in told)


def _crossover(trace: Trace, page: Page) -> Iterator[Line]:
    if not (found := trace.crossover):
        return
    yield Line(body=write(page, (f"{found.says[:1].upper()}{found.says[1:]}.", "head")))
    yield from (Line(lead=Text("- "), body=write(page, why)) for why in found.why)
    yield from batches(found.points, page)


def _chain(trace: Trace, page: Page) -> Iterator[Line]:
    for one in trace.chain:
        lead = write(page, (f"{one.layer.value:<14}", "dim"))
        style = "error" if one.missing else "plain"
        yield Line(lead=lead, body=write(page, (link(one), style)), hang=Text("  ") if page.narrow else None)


def _from(one: Figure) -> str:
    """Say where a ceiling is from, and what was measured beside it."""
    if one.ceiling is None:
        return one.note or "measured"
    return f"{one.ceiling_from or 'computed'}; measured {three(one.value)}"


def _foot(trace: Trace, page: Page) -> Iterator[Line]:
    ceilings = [one for one in (trace.link_ceiling, trace.memory_ceiling, trace.compute_ceiling) if one]
    told = [f"{one.name} {amount(limit(one) or 0.0, one.unit)} ({_from(one)})" for one in ceilings]
    yield Line()
    if told:
        yield Line(body=write(page, (f"Limits: {'; '.join(told)}.", "dim")))
    took = f"gpustack {trace.tool.version}, {GROUNDS.get(trace.ground, trace.ground.value)}, {trace.seconds:.1f} s."
    words = f"A word is told by gpustack explain WORD: {', '.join(TERMS)}."
    yield Line(body=write(page, (f"{took} {words}", "dim")))
