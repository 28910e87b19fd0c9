"""A report as text for people: the verdict, what to do about each root cause, the stack, and what was not checked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from gpustack.model.report import Confidence, EnvironmentVerdict, Finding, Fix, Health, Report, Severity
from gpustack.report.lines import Line, indent, renderer, write
from gpustack.report.parts import likely, likely_heading, verdict_in_words, where
from gpustack.report.stack_text import stack
from gpustack.report.summary import MOST_ITEMS, alike, families, few, heading, listed, one_line, paragraphs, reasons

if TYPE_CHECKING:
    from gpustack.model.facts import Unseen
    from gpustack.report.page import Page
    from gpustack.report.summary import Family

MARK = {Severity.ERROR: "bad", Severity.WARNING: "warn", Severity.UNKNOWN: "ask", Severity.INFO: "none"}
WORD = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.UNKNOWN: "not known", Severity.INFO: "note"}
FEW = 3
COMMAND_INDENT = 4
VERDICT = {
    Health.HEALTHY: ("ok", "HEALTHY", "good"),
    Health.DEGRADED: ("warn", "DEGRADED", "warning"),
    Health.BROKEN: ("bad", "BROKEN", "error"),
    Health.NO_GPU: ("none", "NO GPU", "head"),
    Health.UNKNOWN: ("ask", "UNKNOWN", "unknown"),
}
SECTIONS = {
    Severity.ERROR: "ERRORS",
    Severity.WARNING: "WARNINGS",
    Severity.UNKNOWN: "NOT KNOWN",
    Severity.INFO: "NOTES",
}
WORKS = {
    False: ("cannot use the GPU", "cannot use the GPU"),
    True: ("works", "work"),
    None: ("may or may not work", "may or may not work"),
}
COUNTED = {
    Severity.ERROR: ("error", "errors"),
    Severity.WARNING: ("warning", "warnings"),
    Severity.UNKNOWN: ("question left open", "questions left open"),
    Severity.INFO: ("note", "notes"),
}
UNSEEN = ("thing that could not be seen", "things that could not be seen")
ASK = "Give what the commands print to gpustack doctor --from as well, or run gpustack doctor on the machine."
MOST_ENVIRONMENTS, MOST_UNSEEN = 12, 4


def block(finding: Finding, others: Sequence[Finding], follow: Sequence[Finding], page: Page) -> Iterator[Line]:
    """Yield a finding in full: its title, what is known, the fix, its like on other instances, what follows."""
    yield title(finding, page)
    yield from indent(2, _body(finding, others, follow, page))


def title(finding: Finding, page: Page) -> Line:
    """Return the line that says what is wrong, with mark and word."""
    sure = "" if finding.confidence is Confidence.CERTAIN else f" ({finding.confidence.value})"
    said = f"{page.mark(MARK[finding.severity])} {WORD[finding.severity]}{sure}: "
    return Line(body=write(page, (said, finding.severity.value), (finding.title, "head")), hang=Text("  "))


def _body(finding: Finding, others: Sequence[Finding], follow: Sequence[Finding], page: Page) -> Iterator[Line]:
    place = f"{finding.key}, in the {finding.layer.value} layer ({finding.component})"
    yield Line(body=write(page, (place, "dim")))
    for paragraph in paragraphs(finding):
        yield Line(body=write(page, paragraph))
    if others:
        yield from _list("The same holds for:", _others(others, page), page)
    if finding.because or finding.row:
        yield from _list("How we know:", reasons(finding, strengths=page.verbose), page)
    if finding.fix:
        yield from fix(finding.fix, page)
    if follow:
        yield from _list("What follows from it:", _titles(follow, page), page)


def fix(wanted: Fix, page: Page) -> Iterator[Line]:
    """Yield what to do: a sentence, the commands each on a line of its own, and the command that shows the result."""
    yield Line()
    yield Line(body=write(page, (heading(wanted), "head"), f" {wanted.text}"))
    yield from _commands(wanted.commands, page)
    if wanted.verify:
        yield Line(body=write(page, ("Then check with:", "head")))
        yield from _commands((wanted.verify,), page)


def _commands(commands: Iterable[str], page: Page) -> Iterator[Line]:
    for command in commands:
        yield Line(lead=Text(" " * COMMAND_INDENT), body=write(page, (one_line(command), "command")), whole=True)


def _list(heading: str, items: Iterable[str], page: Page) -> Iterator[Line]:
    yield Line()
    yield Line(body=write(page, (heading, "head")))
    for item in items:
        yield Line(lead=Text("- "), body=write(page, item))


def _others(findings: Sequence[Finding], page: Page) -> list[str]:
    """Return a few by what they say, many by whom they speak of."""
    if len(findings) <= FEW:
        return [one.title for one in findings]
    return [few((one.instance or one.title for one in findings), len(findings) if page.verbose else MOST_ITEMS)]


def _titles(findings: Sequence[Finding], page: Page) -> list[str]:
    """Return consequences by their titles, those of one id once."""
    said = []
    for first, more in alike(findings):
        often = f" (and {len(more)} more like it)" if more else ""
        said.append(f"{first.title}{often}" + (f" [{first.key}]" if page.verbose else ""))
    return said


def lines(report: Report, page: Page, *, example: str | None = None) -> Iterator[Line]:
    """Yield the lines of the whole report, section by section."""
    roots, rest = families(report.findings, report.verdict.root_keys)
    yield from _verdict(report, page)
    if report.verdict.status is Health.NO_GPU and example:
        yield Line(body=write(page, "To see what a diagnosis looks like, read a recorded broken machine:"))
        yield Line(lead=Text("    "), body=write(page, (f"gpustack doctor --from {example}", "command")), whole=True)
    heading = "ROOT CAUSE" if len(roots) == 1 else "ROOT CAUSES, MOST LIKELY FIRST"
    yield from _section(heading, _blocks(roots, page), page)
    yield from _section(likely_heading(report).upper(), _candidates(report, page), page)
    yield from _of(Severity.ERROR, rest, page)
    yield from _section("THE STACK, TOP FIRST", stack(report, page), page)
    for severity in (Severity.WARNING, Severity.UNKNOWN, Severity.INFO):
        yield from _of(severity, rest, page)
    if len(report.environments) > 1:
        yield from _section("PYTHONS", _environments(report.environments, page), page)
    yield from _section("NOT CHECKED", _unseen(report.not_seen, page), page)
    yield from _foot(report, page)


def _candidates(report: Report, page: Page) -> Iterator[Line]:
    """Yield the likely causes, the first with what decides; the others too with -v."""
    told = likely(report)
    for number, (what, place, speaking, decide) in enumerate(told, 1):
        yield Line(lead=Text(f"{number}. "), body=write(page, (what, "head"), (f" ({place})", "dim")), hang=Text("   "))
        if number == 1 or page.verbose:
            yield from indent(3, (Line(body=write(page, one)) for one in (*speaking, f"To decide: {decide.text}")))
            yield from _commands(decide.commands, page)
    if told:
        yield Line(body=write(page, ASK))


def _section(heading: str, inside: Iterator[Line], page: Page) -> Iterator[Line]:
    """Yield a heading and what stands under it, or nothing where nothing does."""
    held = list(inside)
    if held:
        yield from (Line(), Line(body=write(page, (heading, "head"))), *held)


def _verdict(report: Report, page: Page) -> Iterator[Line]:
    """Say the verdict and what works, then of which machine, and how much was found."""
    mark, word, style = VERDICT[report.verdict.status]
    good_first = report.verdict.status is Health.HEALTHY
    works = _works(report.verdict.works, (True, None, False) if good_first else (False, True, None))
    works = works or verdict_in_words(report)
    yield Line(body=write(page, (f"{page.mark(mark)} {word}: ", style), (f"{works}.", "head")), hang=Text("  "))
    told = filter(None, (where(report), *map(_python, report.environments[:1])))
    yield from indent(2, (Line(body=write(page, said)) for said in (", ".join(told), _counts(report)) if said))


def _works(works: Mapping[str, bool | None], order: Sequence[bool | None] = (False, True, None)) -> str:
    """Say what works, what does not, and what nobody knows, in this order, in one sentence without its end."""
    said = []
    for answer in order:
        one, several = WORKS[answer]
        names = [name for name, works_here in works.items() if works_here is answer]
        if names:
            said.append(f"{listed(names)} {one if len(names) == 1 else several}")
    return "; ".join(said)


def _python(one: EnvironmentVerdict) -> str:
    return f"Python {one.version} at {one.python}" if one.version else f"Python at {one.python}"


def _counts(report: Report) -> str:
    """Say how much was found, and how much could not be seen: never "all is well" of what nobody saw."""
    number = Counter(one.severity for one in report.findings)
    counts = [(number[severity], words) for severity, words in COUNTED.items()] + [(len(report.not_seen), UNSEEN)]
    said = [f"{count} {one if count == 1 else several}" for count, (one, several) in counts if count]
    all_seen = "" if report.verdict.status is Health.UNKNOWN else "; everything that was looked for could be seen"
    return (", ".join(said) or f"No findings{all_seen}") + "."


def _blocks(families: Sequence[Family], page: Page) -> Iterator[Line]:
    """Yield findings in full, with a blank line between two; those alike on other instances are told once."""
    by_head = {head.key: follow for head, follow in families}
    for number, (first, others) in enumerate(alike(head for head, _ in families)):
        if number:
            yield Line()
        follow = [one for head in (first, *others) for one in by_head[head.key]]
        yield from block(first, others, follow, page)


def _of(severity: Severity, families: Sequence[Family], page: Page) -> Iterator[Line]:
    wanted = [(head, follow) for head, follow in families if head.severity is severity]
    yield from _section(SECTIONS[severity], _blocks(wanted, page), page)


def _environments(environments: Sequence[EnvironmentVerdict], page: Page) -> Iterator[Line]:
    """Yield what works in each Python, those first in which something does; those without a framework are counted."""
    ordered = sorted(environments, key=_rank)
    told = [one for one in ordered if one.works or one is environments[0] or page.verbose]
    most = len(told) if page.verbose else MOST_ENVIRONMENTS
    for one in told[:most]:
        works = _works(one.works, (True, None, False)) or "nothing that uses a GPU"
        chosen = ", the chosen one" if one is environments[0] else ""
        yield Line(lead=Text("- "), body=write(page, f"{_python(one)} ({one.kind}{chosen}). {works}."))
    if told[most:]:
        yield Line(lead=Text("- "), body=write(page, f"and {len(told) - most} more: -v names them."))
    if len(told) < len(ordered):
        left = f"{len(ordered) - len(told)} more with nothing that uses a GPU: -v names them."
        yield Line(lead=Text("- "), body=write(page, left))


def _rank(one: EnvironmentVerdict) -> tuple[bool, bool, bool]:
    able = one.works.values()
    return True not in able, None not in able, not able


def _unseen(not_seen: Sequence[Unseen], page: Page) -> Iterator[Line]:
    """Yield what could not be seen, by why not and what would help."""
    reasons: dict[tuple[str, str | None], list[str]] = {}
    for one in not_seen:
        reasons.setdefault((one.why, one.enable_by), []).append(one.what)
    for (why, enable_by), what in reasons.items():
        named = few(what, len(what) if page.verbose else MOST_UNSEEN)
        help_ = f". To see it: {enable_by}" if enable_by else ""
        yield Line(lead=Text("- "), body=write(page, f"{named}: {why}{help_}."))


def _foot(report: Report, page: Page) -> Iterator[Line]:
    made = f"gpustack {report.tool.version}, matrix of {report.tool.matrix_date}"
    took = f"{len(report.components)} components in {report.seconds:.2f} s"
    more = "" if page.verbose else " -v tells sources and times."
    yield from (Line(), Line(body=write(page, (f"{made}; {took}.{more}", "dim"))))


render = renderer(lines)
