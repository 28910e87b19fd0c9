"""Findings in words: what is wrong, how we know, what to type, and what follows from it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from gpustack.model.report import Because, Confidence, Finding, Fix, Severity
from gpustack.render.lines import Line, indent, write
from gpustack.render.summary import few

if TYPE_CHECKING:
    from gpustack.model.facts import JsonValue
    from gpustack.render.page import Page

MARK = {Severity.ERROR: "bad", Severity.WARNING: "warn", Severity.UNKNOWN: "ask", Severity.INFO: "none"}
WORD = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.UNKNOWN: "not known", Severity.INFO: "note"}
FEW = 3
MOST_ITEMS = 8
COMMAND_INDENT = 4


def consequences(of: str, findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Give all findings that follow from the one of this key, directly or not, each once."""
    found: dict[str, Finding] = {}
    causes = [of]
    while causes:
        cause = causes.pop(0)
        new = [one for one in findings if one.caused_by == cause and one.key not in {*found, of}]
        found.update((one.key, one) for one in new)
        causes += [one.key for one in new]
    return tuple(found.values())


def alike(findings: Iterable[Finding]) -> Iterator[tuple[Finding, tuple[Finding, ...]]]:
    """Give each finding with those that say the same of other instances: same id, same fix."""
    groups: list[list[Finding]] = []
    for finding in findings:
        group = next((held for held in groups if (held[0].id, held[0].fix) == (finding.id, finding.fix)), None)
        if group is None:
            groups.append([finding])
        else:
            group.append(finding)
    yield from ((group[0], tuple(group[1:])) for group in groups)


def block(finding: Finding, others: Sequence[Finding], follow: Sequence[Finding], page: Page) -> Iterator[Line]:
    """Give a finding in full: its title, what is known, the fix, its like on other instances, what follows."""
    yield title(finding, page)
    yield from indent(2, _body(finding, others, follow, page))


def title(finding: Finding, page: Page) -> Line:
    """Give the line that says what is wrong, with mark and word."""
    sure = "" if finding.confidence is Confidence.CERTAIN else f" ({finding.confidence.value})"
    said = f"{page.mark(MARK[finding.severity])} {WORD[finding.severity]}{sure}: "
    return Line(body=write(page, (said, finding.severity.value), (finding.title, "head")), hang=Text("  "))


def _body(finding: Finding, others: Sequence[Finding], follow: Sequence[Finding], page: Page) -> Iterator[Line]:
    place = f"{finding.key}, in the {finding.layer.value} layer ({finding.component})"
    yield Line(body=write(page, (place, "dim")))
    for paragraph in filter(None, map(str.strip, finding.detail.splitlines())):
        yield Line(body=write(page, paragraph))
    if others:
        yield from _list("The same holds for:", _others(others, page), page)
    if finding.because or finding.row:
        yield from _list("How we know:", _reasons(finding), page)
    if finding.fix:
        yield from fix(finding.fix, page)
    if follow:
        yield from _list("What follows from it:", _titles(follow, page), page)


def fix(wanted: Fix, page: Page) -> Iterator[Line]:
    """Give what to do: a sentence, the commands each on a line of its own, and the command that shows the result."""
    needs = " and ".join(["root"] * wanted.needs_root + ["a reboot"] * wanted.needs_reboot)
    heading = ("What to type" if wanted.commands else "What to do") + (f" (needs {needs})" if needs else "") + ":"
    yield Line()
    yield Line(body=write(page, (heading, "head"), f" {wanted.text}"))
    yield from _commands(wanted.commands, page)
    if wanted.verify:
        yield Line(body=write(page, ("Then check with:", "head")))
        yield from _commands((wanted.verify,), page)


def _commands(commands: Iterable[str], page: Page) -> Iterator[Line]:
    """Give each command on one line: a newline that came in with a name must not become a second command."""
    for command in commands:
        shown = "\\n".join(command.splitlines())
        yield Line(lead=Text(" " * COMMAND_INDENT), body=write(page, (shown, "command")), whole=True)


def _list(heading: str, items: Iterable[str], page: Page) -> Iterator[Line]:
    yield Line()
    yield Line(body=write(page, (heading, "head")))
    for item in items:
        yield Line(lead=Text("- "), body=write(page, item))


def _reasons(finding: Finding) -> Iterator[str]:
    yield from map(_because, finding.because)
    if finding.row:
        row = finding.row
        yield f"Rule: {row.text} ({row.source}, checked {row.checked})"


def _because(because: Because) -> str:
    source = f", from {because.source}" if because.source else ""
    return f"{because.component} {because.fact}: {value(because.value)}{source}"


def value(held: JsonValue) -> str:
    """Give a fact's value in words."""
    if held is None or isinstance(held, bool):
        return {None: "not there", True: "yes", False: "no"}[held]
    if isinstance(held, Mapping):
        return few((f"{name} {value(one)}" for name, one in held.items()), MOST_ITEMS) or "empty"
    if isinstance(held, tuple | list):
        return few(map(value, held), MOST_ITEMS) or "empty"
    return f"{held:g}" if isinstance(held, float) else str(held)


def _others(findings: Sequence[Finding], page: Page) -> list[str]:
    """Give a few by what they say, many by whom they speak of."""
    if len(findings) <= FEW:
        return [one.title for one in findings]
    return [few((one.instance or one.title for one in findings), len(findings) if page.verbose else MOST_ITEMS)]


def _titles(findings: Sequence[Finding], page: Page) -> list[str]:
    """Give consequences by their titles, those of one id once."""
    said = []
    for first, more in alike(findings):
        often = f" (and {len(more)} more like it)" if more else ""
        said.append(f"{first.title}{often}" + (f" [{first.key}]" if page.verbose else ""))
    return said
