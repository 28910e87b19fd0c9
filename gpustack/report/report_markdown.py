"""A report as Markdown: for an issue, a comment or the summary of a CI job.

GitHub turns bare addresses into links, and @name, #1 and :name: into mentions, references and emoji, after parsing
Markdown, when no backslash is left. It leaves code alone, so a word that could be converted is shown as code.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Container, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from gpustack.model.bench import BenchReport, Device, Mark, Result
from gpustack.model.policy import CheckReport, Held
from gpustack.model.report import Confidence, Finding, Health, Report, Severity
from gpustack.report import parts
from gpustack.report.page import clean, recorded
from gpustack.report.summary import entries, few, grouped, heading, one_line, paragraphs, reasons

if TYPE_CHECKING:
    from gpustack.model.difference import Change
    from gpustack.model.facts import Unseen
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
UNSEEN = "❔ not checked"
MORE = "⚠️ more than wanted"
FIGURE = {Mark.OK: "✅", Mark.LOW: "⚠️", Mark.UNSTEADY: "❔", Mark.FAILED: "❌", Mark.SKIPPED: ""}
BLOCKS = 20
AT_FAULT = (Severity.ERROR, Severity.WARNING)
MOST_LINES, DETAILS_LINES, MOST_CAUSES, MOST_FOLLOWING = 40, 6, 3, 3
NAMED = (
    *("gpu", "amd-gpu", "intel-gpu", "nvidia-driver", "cuda-toolkit", "cudnn", "pytorch", "jax", "tensorflow"),
    "vllm",
)


def safe(text: object, *, own: str = "") -> str:
    """Return the text for use within a line of Markdown or a table cell: shown literally, and harmless.

    Web addresses in ``own``, a text of ours such as the source of a row, become links; no other address does.
    """
    links = frozenset(ADDRESS.findall(own))
    return " ".join(_word(word, links) for word in clean(str(text)).split())


def line(text: object, *, own: str = "") -> str:
    """Return the text for the start of a line: list markers are escaped too."""
    return FIRST.sub(_held, safe(text, own=own))


def code(text: object) -> str:
    """Return the text as inline code, also valid in a table."""
    shown = " ".join(clean(str(text)).split())
    fence = "`" * (max(map(len, TICKS.findall(shown)), default=0) + 1)
    space = " " if shown.startswith("`") or shown.endswith("`") else ""
    return f"{fence}{space}{shown.replace('|', chr(0x2223))}{space}{fence}" if shown else ""


def block(lines: Iterable[str]) -> str:
    """Return commands in a fence, each on its own line."""
    shown = [clean(line) for line in lines]
    fence = "`" * max(3, *(len(ticks) + 1 for line in shown for ticks in TICKS.findall(line)), 0)
    return "\n".join([f"{fence}sh", *shown, fence])


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of Markdown cells."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in lines)


def _word(word: str, links: Container[str]) -> str:
    """Return a word, escaped; as code if GitHub would convert it, as a link if it is one of ours."""
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


def render(reported: Reported, told: parts.Told = parts.NOTHING) -> str:  # noqa: ARG001 - all forms are called alike
    """Return the Markdown."""
    return "\n\n".join(filter(None, _parts(reported))) + "\n"


def _parts(reported: Reported) -> Iterator[str]:
    report, bench = parts.diagnosis(reported), parts.measured(reported)
    word, said = parts.headline(reported)
    shown = [f"## {SIGN[parts.standing(reported).value]} gpustack: {safe(word)}", f"**{safe(said)}**"]
    if report:
        shown += _machine(report)
    if rows := parts.policy(reported):
        cells = [[_kept(row), safe(row.rule), safe(row.wanted), safe(row.found)] for row in rows]
        shown += ["### Policy", table(["", "rule", "wanted", "found"], cells)]
    groups = grouped(parts.ordered(reported))
    full = [one for one in groups if one[0].severity in AT_FAULT][:MOST_CAUSES] or [
        one for one in groups if one[0].severity is Severity.UNKNOWN
    ][:1]
    for number, (first, others, follow) in enumerate(full):
        shown += _finding(first, others, follow, titled=number > 0 or safe(first.title.rstrip(".")) not in shown[1])
    if report:
        shown += _candidates(report)
    if bench:
        shown += _bench(bench)
    tool, taken = reported.tool, safe(f", {recorded(reported.taken)}") if reported.taken else ""
    foot = f"<sub>gpustack {safe(tool.version)}, matrix of {safe(tool.matrix_date)}{taken}</sub>"
    whole = isinstance(reported, CheckReport) or report is None
    room = sys.maxsize if whole else MOST_LINES - "\n\n".join([*shown, foot]).count("\n") - DETAILS_LINES
    details = list(_details(report, full, groups[len(full) :]))
    yield from shown
    if details and room > 0:
        kept = details if len(details) <= room else [*details[: room - 1], "- and more: `gpustack doctor -v` shows all"]
        listing = "\n".join(kept)
        yield f"<details><summary>Evidence, notes and what was not checked</summary>\n\n{listing}\n\n</details>"
    yield foot


def _machine(report: Report) -> Iterator[str]:
    """Yield what works, and the one paragraph that the maintainers of another project need."""
    if isinstance(report, CheckReport):
        yield f"Doctor's verdict: {safe(report.verdict.status.value)}."
    answers = parts.works(parts.chosen(report))
    if answers and answers != parts.headline(report)[1]:
        yield f"{line(answers)}."
    first = next((one for one in report.findings if one.key in report.verdict.root_keys[:1]), None)
    versions = few((entry.head for one in report.components if one.id in NAMED for entry in entries(one)), len(NAMED))
    where_ = f"the {first.layer.value} layer ({first.component})" if first else ""
    fault = f"The fault is in {where_}; the finding is {first.key}, {first.confidence.value}." if first else ""
    paragraph = " ".join(
        filter(None, (fault, f"Versions: {versions}." if versions else "", f"{parts.where(report.host)}."))
    )
    yield f"For maintainers: {safe(paragraph)}"


def _candidates(report: Report) -> Iterator[str]:
    """Yield the likely causes, the first with its supporting facts and the deciding check."""
    told = parts.likely(report)
    if told and report.verdict.status is Health.UNKNOWN:
        what, place, speaking, decide = told[0]
        yield f"### {parts.likely_heading(report)}"
        yield f"1. **{safe(what)}** ({safe(place)})"
        yield from map(line, (*speaking, f"To decide: {decide.text}"))
        yield block(map(one_line, decide.commands))
        told = told[1:]
    if told:
        yield "\n".join(f"- likely: {safe(what)} ({safe(place)})" for what, place, _, _ in told)


def _details(
    report: Report | None,
    full: Iterable[tuple[Finding, Sequence[Finding], Sequence[Finding]]],
    rest: Iterable[tuple[Finding, Sequence[Finding], Sequence[Finding]]],
) -> Iterator[str]:
    """Yield the foldable details, one line each: evidence, the other findings, and what was not checked."""
    for first, others, follow in full:
        own = first.row.source if first.row else ""
        keys = ", ".join(code(one.key) for one in (first, *others, *follow))
        yield f"- {keys}, in the {safe(first.layer.value)} layer ({safe(first.component)})"
        yield from (f"- {line(one, own=own)}" for one in (*paragraphs(first), *reasons(first)))
    for first, others, follow in rest:
        often = "".join(f", {code(one.key)}" for one in (*others, *follow))
        yield f"- {LEVEL[first.severity]}: {safe(first.title)} ({code(first.key)}){often}"
    yield from map(_unseen, report.not_seen if report else ())


def _kept(row: Held) -> str:
    return UNSEEN if row.unseen else MORE if row.warns else RESULT[row.ok]


def _finding(finding: Finding, others: Sequence[Finding], follow: Sequence[Finding], *, titled: bool) -> Iterator[str]:
    """Yield a finding with its fix, and in one line each its other instances and consequences."""
    sure = "" if finding.confidence is Confidence.CERTAIN else f" ({finding.confidence.value})"
    if titled:
        yield f"#### {LEVEL[finding.severity]}{sure}: {safe(finding.title)}"
    if fix := finding.fix:
        yield f"**{heading(fix)}** {safe(fix.text)}"
        if fix.commands:
            yield block(map(one_line, fix.commands))
        if fix.verify:
            yield f"Check: {code(one_line(fix.verify))}"
    for head, found in (("The same holds for", others), ("Leads to", follow)):
        if found:
            yield f"{head}: {few(map(_titled, found), MOST_FOLLOWING)}"


def _titled(finding: Finding) -> str:
    return f"{line(finding.title)} ({code(finding.key)})"


def _bench(bench: BenchReport) -> Iterator[str]:
    known = {device.index for device in bench.devices}
    yield from map(line, parts.remarks(bench))
    for device in bench.devices:
        yield f"### GPU {device.index}: {safe(_card(device))}"
        yield _table([one for one in bench.results if one.device == device.index])
    other = [one for one in bench.results if one.device not in known]
    if other:
        yield "### All GPUs together" if known else "### No GPU was measured"
        yield _table(other)
    if bench.comparison:
        yield f"### Compared with {code(bench.comparison.path)} (tolerance {bench.comparison.tolerance:.2%})"
        if bench.comparison.differences:
            yield "\n".join(["Not the same:", "", *(f"- {item}" for item in map(line, bench.comparison.differences))])
        yield table(["", "benchmark", "then", "now", "unit", "change"], map(_change, bench.comparison.changes))
    yield "Each limit is computed from what the GPU reports about itself; no program reaches all of it."


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
    """Return the cells of a figure: value, limit, and the share reached as a bar and as a number."""
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
