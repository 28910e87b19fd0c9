"""A report as Markdown, for the summary of a CI job or an issue: the verdict, what to type, then everything else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from gpustack.model.bench import Mark
from gpustack.model.check import CheckReport
from gpustack.model.report import Confidence, Severity
from gpustack.report.findings import alike, heading, one_line, paragraphs, reasons
from gpustack.report.markdown import block, code, line, safe, table
from gpustack.report.parts import (
    NOTHING,
    WORKS,
    Told,
    diagnosis,
    headline,
    measured,
    ordered,
    policy,
    remarks,
    standing,
    where,
)

if TYPE_CHECKING:
    from gpustack.model.bench import BenchReport, Device, Result
    from gpustack.model.check import Held
    from gpustack.model.comparison import Change, Comparison
    from gpustack.model.facts import Unseen
    from gpustack.model.report import Finding, Report
    from gpustack.report.parts import Reported

SIGN = {"OK": "✅", "WARNING": "⚠️", "CRITICAL": "❌", "UNKNOWN": "❔"}
LEVEL = {
    Severity.ERROR: "❌ error",
    Severity.WARNING: "⚠️ warning",
    Severity.UNKNOWN: "❔ not known",
    Severity.INFO: "note",
}
RESULT = {True: "✅ ok", False: "❌ not kept", None: "does not apply"}
UNSEEN = "❔ could not be seen"
FIGURE = {Mark.OK: "✅", Mark.LOW: "⚠️", Mark.UNSTEADY: "❔", Mark.FAILED: "❌", Mark.SKIPPED: ""}
BLOCKS = 20


def render(reported: Reported, told: Told = NOTHING) -> str:  # noqa: ARG001 - all forms are called alike
    """Give the Markdown."""
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
    yield from _findings(reported)
    if bench:
        yield from _bench(bench)
    if report and report.not_seen:
        yield from ("### Could not be seen", "\n".join(map(_unseen, report.not_seen)))
    tool = reported.tool
    taken = f", taken {safe(reported.taken)}" if reported.taken else ""
    yield f"<sub>gpustack {safe(tool.version)}, matrix of {safe(tool.matrix_date)}{taken}</sub>"


def _machine(report: Report) -> Iterator[str]:
    if isinstance(report, CheckReport):
        yield f"Verdict of the doctor: {safe(report.verdict.status.value)}."
    yield line(where(report))
    if works := report.verdict.works:
        yield table(["framework", ""], [[code(name), WORKS[answer]] for name, answer in works.items()])


def _kept(row: Held) -> str:
    return UNSEEN if row.unseen else RESULT[row.ok]


def _findings(reported: Reported) -> Iterator[str]:
    """Give each finding under a heading of its own, those alike on other instances once."""
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
    """Give each figure then and now, and what else is not the same about the two reports."""
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
    """Give the cells of a figure: value, limit, the part of it as a bar and as a number."""
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
