"""A finding as text: what is wrong, how we know, the fix with its commands, and what follows from it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from gpustack.model.report import Confidence, Finding, Fix, Severity
from gpustack.report.lines import Line, indent, write
from gpustack.report.summary import alike, few, heading, paragraphs, reasons

if TYPE_CHECKING:
    from gpustack.report.page import Page

FEW = 3
COMMAND_INDENT = 4
MARK = {Severity.ERROR: "bad", Severity.WARNING: "warn", Severity.UNKNOWN: "ask", Severity.INFO: "none"}
WORD = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.UNKNOWN: "not known", Severity.INFO: "note"}


def block(finding: Finding, others: Sequence[Finding], follow: Sequence[Finding], page: Page) -> Iterator[Line]:
    """Yield a finding in full: its title, what is known, the fix, its like on other instances, what follows."""
    yield title(finding, page)
    yield from indent(2, _full(finding, others, follow, page))


def title(finding: Finding, page: Page) -> Line:
    """Return the line that says what is wrong, with mark and word."""
    sure = "" if finding.confidence is Confidence.CERTAIN else f" ({finding.confidence.value})"
    said = f"{page.mark(MARK[finding.severity])} {WORD[finding.severity]}{sure}: "
    return Line(body=write(page, (said, finding.severity.value), (finding.title, "head")), hang=Text("  "))


def _full(finding: Finding, others: Sequence[Finding], follow: Sequence[Finding], page: Page) -> Iterator[Line]:
    place = f"{finding.key}, in the {finding.layer.value} layer ({finding.component})"
    yield Line(body=write(page, (place, "dim")))
    for paragraph in paragraphs(finding):
        yield Line(body=write(page, paragraph))
    if others:
        yield from _list("The same holds for:", _others(others), page)
    if finding.because or finding.row:
        yield from _list("How we know:", reasons(finding, strengths=page.verbose > 1), page)
    if finding.fix:
        yield Line()
        yield from fix(finding.fix, page)
    if follow:
        yield from _list("What follows from it:", _titles(follow, page), page)


def fix(wanted: Fix, page: Page) -> Iterator[Line]:
    """Yield what to do: a sentence, the commands each on a line of its own, and the command that shows the result."""
    yield Line(body=write(page, (heading(wanted), "head"), f" {wanted.text}"))
    yield from commands(wanted.commands, page)
    if wanted.verify:
        yield Line(body=write(page, ("Check:", "head")))
        yield from commands((wanted.verify,), page)


def commands(typed: Iterable[str], page: Page) -> Iterator[Line]:
    """Yield each command, whole, on a line of its own."""
    for command in typed:
        yield Line(lead=Text(" " * COMMAND_INDENT), body=write(page, (page.command(command), "command")), whole=True)


def _list(heading: str, items: Iterable[str], page: Page) -> Iterator[Line]:
    yield Line()
    yield Line(body=write(page, (heading, "head")))
    for item in items:
        yield Line(lead=Text("- "), body=write(page, item))


def _others(findings: Sequence[Finding]) -> list[str]:
    """Return a few by what they say, many by whom they speak of."""
    if len(findings) <= FEW:
        return [one.title for one in findings]
    return [few((one.instance or one.title for one in findings), len(findings))]


def _titles(findings: Sequence[Finding], page: Page) -> list[str]:
    """Return consequences by their titles, those of one id once."""
    said = []
    for first, more in alike(findings):
        often = f" (and {len(more)} more like it)" if more else ""
        said.append(f"{first.title}{often}" + (f" [{first.key}]" if page.verbose else ""))
    return said
