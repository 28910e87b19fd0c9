"""A report as text for people: the verdict, and for each root cause the facts, the fix and the check; more with -v."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from gpustack.model.report import Confidence, EnvironmentVerdict, Finding, Health, Report, Severity
from gpustack.report.lines import MARK, WORD, Line, block, commands, fix, indent, renderer, say, section, title
from gpustack.report.parts import by_severity, cause, chosen, likely, likely_heading, where, works
from gpustack.report.stack_text import stack
from gpustack.report.summary import Family, fact, families, few, grouped, strongest

if TYPE_CHECKING:
    from gpustack.model.facts import Unseen
    from gpustack.report.page import Page

SEVERAL = {**WORD, Severity.ERROR: "errors", Severity.WARNING: "warnings", Severity.INFO: "notes"}
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
MOST_CAUSES, MOST_FACTS, MOST_BRIEF, MOST_NOTES = 3, 2, 3, 2
MOST_ENVIRONMENTS, MOST_UNSEEN = 12, 4
MOST_LETTERS = 320  # of the text beside the commands of a fix
SENTENCE = re.compile(r"(?<=[.:])\s+(?=[A-Z])")
UNRECOGNISED = "nothing in it was recognised"
PASTE = (
    "gpustack snapshot -o machine.json",
    "nvidia-smi",
    "python -m torch.utils.collect_env",
    "python -m pip freeze",
    "sudo dmesg | grep -iE 'nvrm|xid|amdgpu'",
)


def lines(report: Report, page: Page, *, example: str | None = None) -> Iterator[Line]:
    """Yield the lines of the report: one screen, with ``-v`` all conclusions, with ``-vv`` everything known."""
    yield from head(report, page)
    if not page.quiet:
        yield from body(report, page, example=example)


def head(report: Report, page: Page) -> Iterator[Line]:
    """Yield the verdict with the first root cause, what works, and which machine it is."""
    said = cause(report)
    mark, word, style = VERDICT[report.verdict.status]
    first = next((one for one in report.findings if one.key in report.verdict.root_keys[:1]), None)
    sure = first is None or first.confidence is Confidence.CERTAIN
    yield verdict(mark, word if sure or not first else f"{word}, {first.confidence.value} cause", style, said, page)
    if not page.quiet:
        yield from indent(2, _about(report, said, page))


def verdict(mark: str, word: str, style: str, said: str, page: Page) -> Line:
    """Return the line with the verdict's word and sentence; on its own it is one line, however long."""
    head = f"{page.mark(mark)} {word}: "
    return say(page, (head, style), (f"{said.rstrip('.')}.", "head"), hang="  ", whole=page.quiet)


def _about(report: Report, said: str, page: Page) -> Iterator[Line]:
    """Yield what works, unless the verdict says so already, and which machine it is."""
    status = report.verdict.status
    answers = works(chosen(report), good_first=status is Health.HEALTHY)
    if answers and answers != said and status is not Health.NO_GPU:
        yield say(page, f"{answers}.", short=not page.verbose)
    machine = ", ".join(filter(None, (*map(_python, report.environments[:1]), where(report.host))))
    if machine:
        yield say(page, (machine, "dim"), short=not page.verbose)


def body(report: Report, page: Page, *, example: str | None = None) -> Iterator[Line]:
    """Yield everything after the verdict."""
    roots, rest = families(report.findings, report.verdict.root_keys)
    yield from (_all if page.verbose else _screen)(report, roots, rest, page)
    if report.verdict.status is Health.NO_GPU and example:
        yield say(page, "To see a diagnosis, read a recorded broken machine:")
        yield from commands((f"gpustack doctor --from {example}",), page)
    named = (*(head.id for head, _ in roots), *(one.id for one in report.candidates), *(head.id for head, _ in rest))
    yield from _foot(report, named, page)


def _screen(report: Report, roots: Sequence[Family], rest: Sequence[Family], page: Page) -> Iterator[Line]:
    """Yield each root cause with its essentials, and everything else in one line each."""
    if not roots and report.verdict.status is Health.UNKNOWN:
        roots, rest = [one for one in rest if _open(one)], [one for one in rest if not _open(one)]
    groups = grouped(roots)
    for number, (first, others, follow) in enumerate(groups[:MOST_CAUSES]):
        yield Line()
        if number:
            yield title(first, page)
        known = {one.fix.text for one, _, _ in groups[:number] if one.fix}
        yield from indent(2, _cause(first, others, follow, page, known))
    if groups and likely(report):
        named = few((one[0] for one in likely(report)), 1)
        yield say(page, (f"{likely_heading(report)}: ", "head"), named, short=True)
    elif not groups:
        yield from section(likely_heading(report), _candidates(report, page), page)
    left = [*groups[MOST_CAUSES:], *grouped(sorted(rest, key=by_severity))]
    if groups:
        yield Line()
    most = MOST_BRIEF if groups else MOST_NOTES
    yield from (_brief(first, others, page) for first, others, _ in left[:most])
    if left[most:]:
        yield _more([first for first, _, _ in left[most:]], page)
    if _nothing_known(report):
        yield from _wanted(report, page)
    elif report.not_seen:
        named = few((f"{one.what} ({one.why})" for one in report.not_seen), 2)
        yield say(page, f"not checked: {named}", lead=f"{page.mark('ask')} ", short=True)


def _candidates(report: Report, page: Page) -> Iterator[Line]:
    """Yield the likely causes, the first with its deciding check; each in full with ``-v``."""
    for number, (what, place, speaking, decide) in enumerate(likely(report), 1):
        short = not page.verbose
        yield say(page, (what, "head"), (f" ({place})", "dim"), lead=f"{number}. ", short=short)
        if number == 1 or page.verbose:
            yield from (say(page, one, lead="   ", short=short) for one in speaking)
            yield say(page, f"To decide: {_begins(decide.text)}", lead="   ")
            yield from indent(2, commands(decide.commands, page))


def _open(family: Family) -> bool:
    return family[0].severity is Severity.UNKNOWN


def _cause(
    finding: Finding, others: Sequence[Finding], follow: Sequence[Finding], page: Page, known: Collection[str]
) -> Iterator[Line]:
    """Yield the strongest facts of a root cause, its fix and check, and in one line its consequences.

    Of a fix whose text stands above (``known``) the commands alone are told.
    """
    for one in strongest(finding, MOST_FACTS):
        yield say(page, fact(one), lead="- ", short=True)
    if finding.fix:
        told = "As above:" if finding.fix.text in known else _begins(finding.fix.text)
        yield from fix(replace(finding.fix, text=told), page)
    for head, found in (("Also", others), ("Leads to", follow)):
        if found:
            named = few((one.title for one in found), 1 if head == "Leads to" else 2)
            yield say(page, (f"{head}: ", "head"), named, short=True)


def _begins(text: str) -> str:
    """Return the first sentences of a text, as many as fit on a screen; at least one."""
    first, *more = SENTENCE.split(text)
    for sentence in more:
        if len(first) + len(sentence) > MOST_LETTERS:
            break
        first = f"{first} {sentence}"
    return first


def _brief(finding: Finding, others: Sequence[Finding], page: Page) -> Line:
    often = f" (and {len(others)} more like it)" if others else ""
    head = (f"{page.mark(MARK[finding.severity])} {WORD[finding.severity]}: ", finding.severity.value)
    return say(page, head, f"{finding.title}{often}", short=True)


def _more(findings: Sequence[Finding], page: Page) -> Line:
    """Return how many more findings there are of each severity."""
    counts = [(severity, sum(one.severity is severity for one in findings)) for severity in Severity]
    said = few(f"{count} more {(SEVERAL if count > 1 else WORD)[severity]}" for severity, count in counts if count)
    return say(page, (f"{page.mark('none')} {said}: -v names them", "dim"), short=True)


def _nothing_known(report: Report) -> bool:
    return report.verdict.status is Health.UNKNOWN and not report.findings and not report.candidates


def _wanted(report: Report, page: Page) -> Iterator[Line]:
    """Yield what to provide if the input led to no conclusion."""
    blank = [one.what for one in report.not_seen if one.why == UNRECOGNISED]
    if blank:
        yield say(page, f"Nothing was recognised in {few(blank, 2)}.", lead="  ")
    said = "Give --from the whole error message, or the output of one or more of these commands:"
    yield from (say(page, said, lead="  "), *commands(PASTE, page))


def _foot(report: Report, ids: Sequence[str], page: Page) -> Iterator[Line]:
    """Yield what other output is available; with ``-v`` what made this report."""
    if page.verbose:
        made = f"gpustack {report.tool.version}, matrix of {report.tool.matrix_date}"
        took = f"{len(report.components)} components in {report.seconds:.2f} s"
        more = "" if page.verbose > 1 else "; -vv adds every component, source and time"
        yield from (Line(), say(page, (f"{made}; {took}{more}.", "dim")))
        return
    explained = f"{page.program} explain {ids[0]} says why." if ids else ""
    more = "-v adds the stack and all evidence; --format html makes a page to share."
    yield say(page, (more, "dim"))
    if explained:
        yield say(page, (explained, "dim"))


def _all(report: Report, roots: Sequence[Family], rest: Sequence[Family], page: Page) -> Iterator[Line]:
    """Yield every finding in full, the stack, and what was not checked."""
    heading = "ROOT CAUSE" if len(roots) == 1 else "ROOT CAUSES, MOST LIKELY FIRST"
    yield from section(heading, _blocks(roots, page), page)
    yield from section(likely_heading(report).upper(), _candidates(report, page), page)
    yield from _of(Severity.ERROR, rest, page)
    yield from section("THE STACK, TOP FIRST", stack(report, page), page)
    for severity in (Severity.WARNING, Severity.UNKNOWN, Severity.INFO):
        yield from _of(severity, rest, page)
    if len(report.environments) > 1:
        yield from section("PYTHONS", _environments(report.environments, page), page)
    yield from section("NOT CHECKED", _unseen(report.not_seen, page), page)
    if _nothing_known(report):
        yield from _wanted(report, page)


def _blocks(families: Sequence[Family], page: Page) -> Iterator[Line]:
    """Yield findings in full, separated by blank lines; those alike on other instances once."""
    for number, (first, others, follow) in enumerate(grouped(families)):
        if number:
            yield Line()
        yield from block(first, others, follow, page)


def _of(severity: Severity, families: Sequence[Family], page: Page) -> Iterator[Line]:
    wanted = [(head, follow) for head, follow in families if head.severity is severity]
    yield from section(SECTIONS[severity], _blocks(wanted, page), page)


def _python(one: EnvironmentVerdict) -> str:
    return f"Python {one.version} ({one.python})" if one.version else f"Python {one.python}"


def _environments(environments: Sequence[EnvironmentVerdict], page: Page) -> Iterator[Line]:
    """Yield what works in each Python, useful ones first; those without a framework are counted."""
    ordered = sorted(environments, key=_rank)
    everything = page.verbose > 1
    named = [one for one in ordered if one.works or one is environments[0] or everything]
    most = len(named) if everything else MOST_ENVIRONMENTS
    for one in named[:most]:
        answers = works(one.works, good_first=True) or "nothing that uses a GPU"
        kind = f"{one.kind}, the chosen one" if one is environments[0] else one.kind
        yield say(page, f"{_python(one)}, {kind}: {answers}.", lead="- ")
    if named[most:]:
        yield say(page, f"and {len(named) - most} more: -vv names them.", lead="- ")
    if len(named) < len(ordered):
        left = f"{len(ordered) - len(named)} more with nothing that uses a GPU: -vv names them."
        yield say(page, left, lead="- ")


def _rank(one: EnvironmentVerdict) -> tuple[bool, bool, bool]:
    able = one.works.values()
    return True not in able, None not in able, not able


def _unseen(not_seen: Sequence[Unseen], page: Page) -> Iterator[Line]:
    """Yield what was not checked, by reason and remedy."""
    reasons: dict[tuple[str, str | None], list[str]] = {}
    for one in not_seen:
        reasons.setdefault((one.why, one.enable_by), []).append(one.what)
    for (why, enable_by), what in reasons.items():
        named = few(what, len(what) if page.verbose > 1 else MOST_UNSEEN)
        help_ = f". To check it: {enable_by}" if enable_by else ""
        yield say(page, f"{named}: {why}{help_}.", lead="- ")


render = renderer(lines)
