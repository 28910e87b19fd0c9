"""The health check for people: the class and why, the policy's rules, the figures in short, then the doctor."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.text import Text

from gpustack.model.bench import Mark
from gpustack.model.policy import CheckReport, HealthClass
from gpustack.model.report import Severity
from gpustack.report import text
from gpustack.report.bench_text import ID_COLUMNS, NUMBER_COLUMNS, UNIT_COLUMNS, VERDICT, bar, number
from gpustack.report.lines import Line, renderer, write
from gpustack.report.summary import alike
from gpustack.report.text import block

if TYPE_CHECKING:
    from gpustack.model.bench import BenchReport, Result
    from gpustack.model.policy import Held
    from gpustack.report.page import Page

CLASSES = {
    HealthClass.OK: ("ok", "OK", "good", ""),
    HealthClass.DEGRADED: ("warn", "DEGRADED", "warning", "It works, with limits."),
    HealthClass.BAD_HOST: ("bad", "BAD HOST", "error", "Another host may do: queue the work again elsewhere."),
    HealthClass.BAD_ENVIRONMENT: (
        *("bad", "BAD ENVIRONMENT", "error"),
        "The fault is in what was installed or set for this work; another host will not help.",
    ),
    HealthClass.UNKNOWN: ("ask", "UNKNOWN", "unknown", "Too little could be seen to tell."),
}
ROWS = {True: ("ok", "good"), False: ("bad", "error"), None: ("none", "dim")}
ORDER = (False, None, True)


def lines(report: CheckReport, page: Page, *, example: str | None = None) -> Iterator[Line]:
    """Yield the lines of the whole report."""
    mark, word, style, meaning = CLASSES[report.class_]
    said = f"{report.why.rstrip('.')}."
    yield Line(body=write(page, (f"{page.mark(mark)} {word}: ", style), (said, "head")), hang=Text("  "))
    if meaning:
        yield Line(lead=Text("  "), body=write(page, meaning))
    if report.policy:
        yield from (Line(), Line(body=write(page, ("POLICY", "head"))))
        yield from (_rule(row, page) for row in sorted(report.policy, key=lambda row: ORDER.index(row.ok)))
    if report.bench and report.bench.results:
        yield from (Line(), Line(body=write(page, ("QUICK BENCH" if report.bench.quick else "BENCH", "head"))))
        yield from _bench(report.bench, page)
    yield from (Line(), Line(body=write(page, ("THE DOCTOR", "head"))))
    yield from text.lines(report, page, example=example)


def _rule(row: Held, page: Page) -> Line:
    """Return one rule of the policy: its mark, its name, what was found, what was wanted, and where that stands."""
    mark, style = ("ask", "unknown") if row.unseen else ROWS[row.ok]
    wanted = f" (wanted: {row.wanted})" if row.wanted != row.found or row.ok is not True else ""
    place = f" [{row.place}]" if row.place and (row.ok is not True or page.verbose) else ""
    head = (f"{page.mark(mark)} ", style), (row.rule, "head")
    return Line(body=write(page, *head, f": {row.found}{wanted}", (place, "dim")), hang=Text("  "))


def _bench(bench: BenchReport, page: Page) -> Iterator[Line]:
    """Yield a row for each figure, those that were skipped on one, and what is wrong with any."""
    if bench.interrupted:
        yield Line(body=write(page, ("! stopped early: ", "warning"), bench.interrupted))
    several = len({one.device for one in bench.results if one.verdict is not Mark.SKIPPED}) > 1
    for one in bench.results:
        if one.verdict is not Mark.SKIPPED:
            yield _figure(one, page, several=several)
    skipped = dict.fromkeys(one.id for one in bench.results if one.verdict is Mark.SKIPPED)
    if skipped:
        said = f"skipped: {', '.join(skipped)}"
        yield Line(lead=write(page, f"{page.mark('none')} "), body=write(page, (said, "dim")))
    grave = [one for one in bench.findings if one.severity in {Severity.ERROR, Severity.WARNING}]
    for first, others in alike(grave):
        yield Line()
        yield from block(first, others, (), page)


def _figure(one: Result, page: Page, *, several: bool) -> Line:
    mark, word, style = VERDICT[one.verdict]
    state = (f"{page.mark(mark)} {word}", style)
    name = one.id + (one.place() if several or one.gpus else "")
    part = "" if one.ratio is None else f"{one.ratio:.0%}"
    if page.narrow or len(name) >= ID_COLUMNS:
        limit = f", {part} of the limit" if part else ""
        return Line(body=write(page, (name, "head"), f": {number(one.value)} {one.unit}{limit}: ", state))
    full, rest = bar(one.ratio, page)
    figure = f"{number(one.value):>{NUMBER_COLUMNS}} {one.unit:<{UNIT_COLUMNS}} "
    return Line(
        lead=write(page, (f"{name:<{ID_COLUMNS}}", "head")),
        body=write(page, figure, (full, style), (rest, "dim"), f" {part:>4}  ", state),
    )


render = renderer(lines)
