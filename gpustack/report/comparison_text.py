"""A report beside an older one, for people: what is not the same about them, and each figure then and now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.text import Text

from gpustack.model.comparison import Outcome
from gpustack.report.lines import Line, write
from gpustack.report.summary import listed

if TYPE_CHECKING:
    from gpustack.model.comparison import Change, Comparison
    from gpustack.report.page import Page

STYLES = {
    Outcome.BETTER: ("ok", "good"),
    Outcome.SAME: ("ok", "plain"),
    Outcome.WORSE: ("bad", "error"),
    Outcome.GONE: ("none", "dim"),
    Outcome.NEW: ("none", "dim"),
}
ID_COLUMNS = 18


def compared(comparison: Comparison, page: Page) -> Iterator[Line]:
    """Give the lines of a comparison."""
    yield Line()
    taken = f" of {comparison.taken}" if comparison.taken else ""
    head = f"Beside {comparison.path}{taken}: {_counted(comparison)} (tolerance {comparison.tolerance:.2%})"
    yield Line(body=write(page, (head, "head")), hang=Text("  "))
    for difference in comparison.differences:
        yield Line(lead=write(page, ("! ", "warning")), body=write(page, f"not the same: {difference}"))
    for change in comparison.changes:
        yield _row(change, page)


def _counted(comparison: Comparison) -> str:
    counts = Counter(change.outcome for change in comparison.changes)
    return listed([f"{counts[outcome]} {outcome.value}" for outcome in STYLES if counts[outcome]]) or "no figures"


def _row(change: Change, page: Page) -> Line:
    mark, style = STYLES[change.outcome]
    where = f" on GPU {change.device}" if change.device else ""
    grown = "" if change.change is None else f" {change.change:+.1%}"
    note = f"; {change.note}" if change.note else ""
    then, now = _figure(change.before, change.before_interval), _figure(change.after, change.after_interval)
    name, state = f"{change.id + where:<{ID_COLUMNS}} ", f"{page.mark(mark)} {change.outcome.value}{grown}: "
    said = f"{then} → {now} {change.unit}{note}"
    return Line(body=write(page, (name, "head"), (state, style), said), hang=Text("  "))


def _figure(value: float | None, interval: tuple[float, float] | None) -> str:
    """Give a median with its interval, both with the digits that a measurement bears."""
    if value is None:
        return "none"
    span = f" [{interval[0]:.4g}, {interval[1]:.4g}]" if interval else ""
    return f"{value:.4g}{span}"
