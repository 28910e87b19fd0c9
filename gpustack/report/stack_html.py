"""Findings and the map of the stack as HTML."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from gpustack.model.facts import Component, Layer, Status
from gpustack.model.report import Confidence, Contract, Finding, Fix, Kept, Severity
from gpustack.report.page import bullets, document, safe, table, tag
from gpustack.report.parts import of_policy
from gpustack.report.stack_text import DOWNWARD
from gpustack.report.summary import Family, entries, grouped, heading, one_line, paragraphs, worth

if TYPE_CHECKING:
    from gpustack.model.matrix_answer import StackMap
    from gpustack.model.policy import Held

VENDORS = {"any": "", "nvidia": "NVIDIA", "amd": "AMD", "intel": "Intel"}
NONE: Mapping[str, str] = {}
DRAWN = (Status.PRESENT, Status.FAILED)
KEPT = {Kept.OK: "good", Kept.LIMITED: "warn", Kept.BROKEN: "bad", Kept.UNKNOWN: "ask"}
TONE = {Severity.ERROR: "bad", Severity.WARNING: "warn", Severity.UNKNOWN: "ask", Severity.INFO: "none"}
WORD = {Severity.ERROR: "Error", Severity.WARNING: "Warning", Severity.UNKNOWN: "Not known", Severity.INFO: "Note"}
HELD = {
    "ok": ("good", "kept"),
    "error": ("bad", "not kept"),
    "warning": ("warn", "more than wanted"),
    "skipped": ("ask", "not checked"),
    "note": ("none", "does not apply"),
}


def render(chart: StackMap) -> str:
    """Return the page of a map."""
    here = sum(one.status is Status.PRESENT for one in chart.components[: len(chart.known)])
    host = chart.host
    where = ", ".join(filter(None, (host.hostname, host.os, host.kernel and f"Linux {host.kernel}", host.machine)))
    head = tag("h1", f"{here} of {len(chart.known)} components of the GPU stack are present") + tag(
        "p", safe(where), "soft"
    )
    foot = f"gpustack {chart.tool.version}, matrix of {chart.tool.matrix_date}"
    drawn = boxes(chart.components, chart.contracts)
    return document("GPU stack", f"{head}\n{drawn}\n{tag('p', safe(foot), 'soft')}", "map")


def boxes(components: Sequence[Component], contracts: Sequence[Contract], faults: Mapping[str, str] = NONE) -> str:
    """Return the layers as boxes, the top first; ``faults`` are the components to mark, each with a word."""
    layers = {one.id: one.layer for one in components}
    made = []
    for layer in DOWNWARD:
        here = [one for one in components if one.layer is layer]
        made.append(_layer(layer, here, [edge for edge in contracts if _upper(edge, layers) is layer], faults))
    return "\n".join(filter(None, made))


def _layer(layer: Layer, here: Sequence[Component], edges: Sequence[Contract], faults: Mapping[str, str]) -> str:
    """Return the box of a layer, or nothing if it is empty."""
    if not here and not edges:
        return ""
    groups = "".join(
        _vendor(name, [one for one in here if one.vendor == vendor], faults) for vendor, name in VENDORS.items()
    ) + _vendor("", [one for one in here if one.vendor not in VENDORS], faults)
    told = Counter((edge.status, f"{edge.from_} → {edge.to}: needs {edge.needs}; found {edge.found}") for edge in edges)
    items = (
        f"{tag('b', status.value, KEPT[status])} {safe(said)}{f' ({times} times)' if times > 1 else ''}"
        for (status, said), times in told.items()
    )
    inside = tag("h2", safe(layer.value)) + tag("div", groups + bullets(items, "needs"))
    return tag("section", inside, "layer")


def _upper(edge: Contract, layers: dict[str, Layer]) -> Layer | None:
    ends = [layers[end] for end in (edge.from_, edge.to) if end in layers]
    return min(ends, key=DOWNWARD.index, default=None)


def _vendor(name: str, own: Sequence[Component], faults: Mapping[str, str]) -> str:
    if not own:
        return ""
    heading = tag("span", safe(name), "vendor") if name else ""
    drawn = [one for one in own if one.status in DRAWN or one.id in faults]
    absent = [one for one in own if one not in drawn]
    folded = tag("summary", f"{len(absent)} absent or not in use") + "".join(_system(one, None) for one in absent)
    inside = heading + "".join(_system(one, faults.get(one.id)) for one in drawn)
    return tag("div", inside + (tag("details", folded, "folded") if absent else ""), "systems")


def _system(one: Component, fault: str | None) -> str:
    """Return a system: highlighted with its version if present, otherwise its name and why it is absent."""
    mark = f" {fault.replace(' ', '-')}" if fault else ""
    told = tag("em", safe(fault)) if fault else ""
    if one.status not in {Status.PRESENT, Status.FAILED}:
        title = f' title="{safe(one.reason)}"' if one.reason else ""
        word = "" if one.status is Status.ABSENT else f" ({one.status.value})"
        return f'<span class="system {one.status.value}{mark}"{title}>{safe(one.id + word)}{told}</span>'
    said = [
        tag("b", safe(entry.head))
        + safe(", ".join([*(["failed"] if one.status is Status.FAILED else []), *entry.notes]))
        for entry in entries(one)
    ]
    title = f' title="{safe(one.path)}"' if one.path else ""
    return f'<span class="system {one.status.value}{mark}"{title}>{"".join(said)}{told}</span>'


def blocks(families: Sequence[Family], headline: str = "") -> str:
    """Return findings in full, merging those alike on other instances; the page's headline is not repeated."""
    made = []
    for first, others, follow in grouped(families):
        sure = "" if first.confidence is Confidence.CERTAIN else f" ({first.confidence.value})"
        word = tag("span", WORD[first.severity] + sure, "word")
        place = f"{tag('code', safe(first.key))}, {safe(first.layer.value)} layer, {safe(first.component)}"
        inside = [
            tag("h3", safe(first.title)) if first.title.rstrip(".") != headline else "",
            tag("p", f"{word} · {place}", "about"),
            *(tag("p", safe(line)) for line in paragraphs(first)),
            fixed(first.fix) if first.fix else "",
            _known(first),
            _listed("The same holds for", others),
            _listed("What follows from it", follow),
        ]
        made.append(tag("article", "".join(inside), f"card finding tone-{TONE[first.severity]}"))
    return "\n".join(made)


def _known(finding: Finding) -> str:
    """Return the facts of a finding, each with its source, and the rule."""
    rows = [
        tag("dt", safe(f"{one.component} {one.fact}"))
        + tag("dd", safe(worth(one)) + (tag("small", safe(one.source)) if one.source else ""))
        for one in finding.because
    ]
    if row := finding.row:
        rows.append(tag("dt", "rule") + tag("dd", safe(row.text) + tag("small", safe(f"{row.source}, {row.checked}"))))
    return tag("p", "How we know", "label") + tag("dl", "".join(rows), "facts") if rows else ""


def fixed(fix: Fix) -> str:
    """Return what to do, with the commands ready to be typed."""
    commands = "\n".join(safe(one_line(command)) for command in fix.commands)
    told = tag("p", f"{tag('b', safe(heading(fix)))} {safe(fix.text)}")
    typed = tag("pre", commands) if commands else ""
    check = tag("p", "Check:", "about") + tag("pre", safe(one_line(fix.verify))) if fix.verify else ""
    return tag("div", told + typed + check, "fix")


def _listed(above: str, findings: Iterable[Finding]) -> str:
    items = bullets((f"{safe(one.title)} {tag('code', safe(one.key), 'soft')}" for one in findings), "follow")
    return tag("p", above, "label") + items if items else ""


def held(rows: Sequence[Held]) -> str:
    """Return the rules of the policy as a table, violated ones first."""
    ordered = sorted(rows, key=lambda row: (row.ok is not False, row.ok is not None))
    return table(("outcome", "rule", "wanted", "found"), map(_cells, ordered))


def _cells(row: Held) -> Iterator[str]:
    tone, word = HELD[of_policy(row).value]
    yield tag("td", tag("span", word, "word"), f"tone-{tone}")
    place = tag("small", safe(row.place), "soft") if row.place else ""
    yield tag("td", f"{safe(row.rule)} {place}")
    for name, said in (("wanted", row.wanted), ("found", row.found)):
        yield f'<td data-name="{name}">{safe(said)}</td>'
