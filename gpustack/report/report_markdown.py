"""A report as Markdown: for an issue, a comment or the summary of a CI job.

GitHub makes links of bare addresses, and mentions, references and pictures of @name, #1 and :name:, after Markdown was
read, when no backslash is left. In code it makes none, so a word that could become one is shown as code.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from gpustack.model.bench import Mark
from gpustack.model.policy import CheckReport
from gpustack.model.report import Confidence, Severity
from gpustack.report.page import clean
from gpustack.report.parts import (
    NOTHING,
    WORKS,
    Told,
    diagnosis,
    headline,
    likely,
    likely_heading,
    measured,
    ordered,
    policy,
    remarks,
    standing,
    where,
)
from gpustack.report.summary import alike, heading, one_line, paragraphs, reasons

if TYPE_CHECKING:
    from gpustack.model.bench import BenchReport, Device, Result
    from gpustack.model.difference import Change, Comparison
    from gpustack.model.facts import Unseen
    from gpustack.model.policy import Held
    from gpustack.model.report import Finding, Report
    from gpustack.report.parts import Reported

SIGNS = str.maketrans({sign: f"\\{sign}" for sign in r"\`*_[]<>&|~$#!{}^=@"})
FIRST = re.compile(r"^([-+:]|[0-9]+(?=[.)]))")
TICKS = re.compile("`+")
LIVE = re.compile(r"(?i)://|www\.|mailto:|xmpp:|@[\w-]|#\d|gh-\d|:[+a-z_-][\w+-]*:|:(?:100|1234|8ball):")
ADDRESS = re.compile(r"https://[A-Za-z0-9][\w./#?=%&+~-]*\w")
OPENING, CLOSING = "([{<\"'", ")]}>\"'.,;:!?"
SIGN = {"OK": "✅", "WARNING": "⚠️", "CRITICAL": "❌", "UNKNOWN": "❔"}
LEVEL = {
    Severity.ERROR: "❌ error",
    Severity.WARNING: "⚠️ warning",
    Severity.UNKNOWN: "❔ not known",
    Severity.INFO: "note",
}
RESULT = {True: "✅ ok", False: "❌ not kept", None: "does not apply"}
UNSEEN = "❔ could not be seen"
MORE = "⚠️ more than wanted"
FIGURE = {Mark.OK: "✅", Mark.LOW: "⚠️", Mark.UNSTEADY: "❔", Mark.FAILED: "❌", Mark.SKIPPED: ""}
BLOCKS = 20


def safe(text: object, *, own: str = "") -> str:
    """Return the text as it may stand within a line of Markdown, in a table too: shown as it is, and harmless.

    Web addresses that ``own`` holds, a text of ours such as the source of a row, are links; no other address is.
    """
    links = frozenset(ADDRESS.findall(own))
    return " ".join(_word(word, links) for word in clean(str(text)).split())


def line(text: object, *, own: str = "") -> str:
    """Return the text as it may begin a line: what would make a list of it is escaped too."""
    return FIRST.sub(_held, safe(text, own=own))


def code(text: object) -> str:
    """Return the text as code inside a line; a table takes it too."""
    shown = " ".join(clean(str(text)).split())
    fence = "`" * (max(map(len, TICKS.findall(shown)), default=0) + 1)
    space = " " if shown.startswith("`") or shown.endswith("`") else ""
    return f"{fence}{space}{shown.replace('|', chr(0x2223))}{space}{fence}" if shown else ""


def block(lines: Iterable[str]) -> str:
    """Return commands in a fence, each on a line of its own."""
    shown = [clean(line) for line in lines]
    fence = "`" * max(3, *(len(ticks) + 1 for line in shown for ticks in TICKS.findall(line)), 0)
    return "\n".join([f"{fence}sh", *shown, fence])


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of cells that are Markdown already."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in lines)


def _word(word: str, links: Container[str]) -> str:
    """Return a word, escaped; as code where GitHub would make more of it, as a link where it is one of ours."""
    if not LIVE.search(word):
        return _escaped(word)
    start = len(word) - len(word.lstrip(OPENING))
    end = max(start, len(word.rstrip(CLOSING)))
    core = word[start:end]
    return f"{_escaped(word[:start])}{f'<{core}>' if core in links else code(core)}{_escaped(word[end:])}"


def _escaped(text: str) -> str:
    return text.translate(SIGNS)


def _held(match: re.Match[str]) -> str:
    first = match[0]
    return f"{first}\\" if first.isdecimal() else f"\\{first}"


def render(reported: Reported, told: Told = NOTHING) -> str:  # noqa: ARG001 - all forms are called alike
    """Return the Markdown."""
    return "\n\n".join(filter(None, _parts(reported))) + "\n"


def _parts(reported: Reported) -> Iterator[str]:
    report, bench = diagnosis(reported), measured(reported)
    word, said = headline(reported)
    yield f"## {SIGN[standing(reported).value]} gpustack: {safe(word)}"
    yield f"**{safe(said)}**"
    if report:
        yield from _machine(report)
    if rows := policy(reported):
        cells = [[_kept(row), safe(row.rule), safe(row.wanted), safe(row.found)] for row in rows]
        yield from ("### Policy", table(["", "rule", "wanted", "found"], cells))
    if report:
        yield from _candidates(report)
    yield from _findings(reported)
    if bench:
        yield from _bench(bench)
    if report and report.not_seen:
        yield from ("### Not checked", "\n".join(map(_unseen, report.not_seen)))
    tool = reported.tool
    taken = f", taken {safe(reported.taken)}" if reported.taken else ""
    yield f"<sub>gpustack {safe(tool.version)}, matrix of {safe(tool.matrix_date)}{taken}</sub>"


def _machine(report: Report) -> Iterator[str]:
    if isinstance(report, CheckReport):
        yield f"Verdict of the doctor: {safe(report.verdict.status.value)}."
    yield line(where(report))
    if works := report.verdict.works:
        yield table(["framework", ""], [[code(name), WORKS[answer]] for name, answer in works.items()])


def _candidates(report: Report) -> Iterator[str]:
    """Yield the likely causes, each with what speaks for it and what decides."""
    told = likely(report)
    if told:
        yield f"### {likely_heading(report)}"
    for number, (what, place, speaking, decide) in enumerate(told, 1):
        yield f"{number}. **{safe(what)}** ({safe(place)})"
        yield from map(line, (*speaking, f"To decide: {decide.text}"))
        yield block(map(one_line, decide.commands))


def _kept(row: Held) -> str:
    return UNSEEN if row.unseen else MORE if row.warns else RESULT[row.ok]


def _findings(reported: Reported) -> Iterator[str]:
    """Yield each finding under a heading of its own, those alike on other instances once."""
    families = ordered(reported)
    by_head = {head.key: follow for head, follow in families}
    if families:
        yield "### Findings"
    for first, others in alike(head for head, _ in families):
        yield from _finding(first, others, [one for head in (first, *others) for one in by_head[head.key]])


def _finding(finding: Finding, others: Sequence[Finding], follow: Sequence[Finding]) -> Iterator[str]:
    sure = "" if finding.confidence is Confidence.CERTAIN else f" ({finding.confidence.value})"
    yield f"#### {LEVEL[finding.severity]}{sure}: {safe(finding.title)}"
    yield f"{code(finding.key)}, in the {safe(finding.layer.value)} layer ({safe(finding.component)})"
    yield from map(line, paragraphs(finding))
    if known := list(reasons(finding)):
        own = finding.row.source if finding.row else ""
        yield _list("How we know:", (line(one, own=own) for one in known))
    if fix := finding.fix:
        yield f"**{heading(fix)}** {safe(fix.text)}"
        if fix.commands:
            yield block(map(one_line, fix.commands))
        if fix.verify:
            yield f"Then check with: {code(one_line(fix.verify))}"
    if others:
        yield _list("The same holds for:", map(_titled, others))
    if follow:
        yield _list("What follows from it:", map(_titled, follow))


def _titled(finding: Finding) -> str:
    return f"{line(finding.title)} ({code(finding.key)})"


def _list(above: str, items: Iterator[str]) -> str:
    return "\n".join([above, "", *(f"- {item}" for item in items)])


def _bench(bench: BenchReport) -> Iterator[str]:
    known = {device.index for device in bench.devices}
    yield from map(line, remarks(bench))
    for device in bench.devices:
        yield f"### GPU {device.index}: {safe(_card(device))}"
        yield _table([one for one in bench.results if one.device == device.index])
    other = [one for one in bench.results if one.device not in known]
    if other:
        yield "### All GPUs together" if known else "### No GPU was measured"
        yield _table(other)
    if bench.comparison:
        yield from _compared(bench.comparison)
    yield "Each limit is computed from what the GPU tells of itself; no program reaches all of it."


def _compared(comparison: Comparison) -> Iterator[str]:
    """Yield each figure then and now, and what else is not the same about the two reports."""
    yield f"### Beside {code(comparison.path)} (tolerance {comparison.tolerance:.2%})"
    if comparison.differences:
        yield _list("Not the same:", map(line, comparison.differences))
    yield table(["", "benchmark", "then", "now", "unit", "change"], map(_change, comparison.changes))


def _change(change: Change) -> Sequence[str]:
    device = f" on GPU {change.device}" if change.device is not None else ""
    then, now = ("none" if value is None else f"{value:.4g}" for value in (change.before, change.after))
    grown = "" if change.change is None else f"{change.change:+.1%}"
    said = "; ".join(filter(None, (grown, safe(change.note or ""))))
    return [change.outcome.value, code(f"{change.id}{device}"), then, now, safe(change.unit), said]


def _card(device: Device) -> str:
    driver = f", driver {device.driver}" if device.driver else ""
    return f"{device.name}, sm_{device.compute_capability.replace('.', '')}{driver}"


def _table(results: Sequence[Result]) -> str:
    rows = [[FIGURE[one.verdict], code(one.name()), *_figure(one), safe("; ".join(one.why))] for one in results]
    return table(["", "benchmark", "measured", "limit", "", "part", "why"], rows)


def _figure(result: Result) -> Sequence[str]:
    """Return the cells of a figure: value, limit, the part of it as a bar and as a number."""
    if result.value is None:
        return (result.verdict.value, "", "", "")
    limit = "" if result.ceiling is None else f"{result.ceiling:.4g}"
    ratio = result.ratio if result.ratio is not None and result.ratio - result.ratio == 0 else None
    full = 0 if ratio is None else round(min(max(ratio, 0.0), 1.0) * BLOCKS)
    bar = "" if ratio is None else f"`{'█' * full}{'░' * (BLOCKS - full)}`"
    return (f"{result.value:.4g} {safe(result.unit)}", limit, bar, "" if ratio is None else f"{ratio:.0%}")


def _unseen(one: Unseen) -> str:
    help_ = f". To see it: {safe(one.enable_by)}" if one.enable_by else ""
    return f"- {line(one.what)}: {safe(one.why)}{help_}"
