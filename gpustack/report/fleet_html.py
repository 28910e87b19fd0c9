"""A fleet as one page: causes by count, drift, figures with their outliers, and a map by rack."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from gpustack.model.fleet import Low, fold
from gpustack.model.report import Health, Severity
from gpustack.report.page import document, safe, tag

if TYPE_CHECKING:
    from gpustack.model.fleet import Figures, FleetReport, Outlier

COLOURS = {
    Health.BROKEN: "bad",
    Health.DEGRADED: "warn",
    Health.UNKNOWN: "ask",
    Health.HEALTHY: "ok",
    Health.NO_GPU: "none",
}
WIDTH, HEIGHT, ROOM = 720, 44, 8
RACK = "rack"
MOST_CELLS = 40_000  # nodes of the map


def render(report: FleetReport) -> str:
    """Return the page; it is one file and loads nothing."""
    parts = [
        tag("h1", f"{report.nodes} nodes"),
        tag("p", safe(", ".join(f"{count} {status}" for status, count in report.status.items()))),
        _section("Causes", _table(("Nodes", "Verdict", "Causes", "What", "Kind", "Which"), _causes(report))),
        _section("Figures", "".join(_figure(one) for one in report.figures)),
        _section("Drift", _table(("Component", "Fact", "Usual", "Found", "On"), _drift(report))),
        _section("Missing", _table(("Node", "Why"), ((one.node, one.why) for one in report.missing))),
        _section("Map", _map(report)),
    ]
    return document("gpustack fleet", "\n".join(filter(None, parts)), "report", "fleet")


def _section(title: str, inside: str) -> str:
    return tag("section", tag("h2", title) + inside) if inside else ""


def _table(heads: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    made = "".join(tag("tr", "".join(tag("td", safe(one)) for one in row)) for row in rows)
    if not made:
        return ""
    head = tag("tr", "".join(f'<th scope="col">{safe(one)}</th>' for one in heads))
    return tag("div", tag("table", tag("thead", head) + tag("tbody", made)), "wide")


def _causes(report: FleetReport) -> Iterator[tuple[object, ...]]:
    for one in report.classes:
        titles = [
            told.title for told in one.findings if told.caused_by is None and told.severity is not Severity.UNKNOWN
        ]
        yield one.count, one.status.value, ", ".join(one.root_causes), "; ".join(titles), one.kind, fold(one.nodes)


def _drift(report: FleetReport) -> Iterator[tuple[object, ...]]:
    for one in report.drift:
        for odd in one.odd:
            copies = f" {', '.join(one.instances)}" if one.instances else ""
            yield f"{one.component}{copies}", one.fact, one.usual or "none", odd.value or "none", fold(odd.nodes)


def _figure(one: Figures) -> str:
    """Return a figure as a strip from its least to its greatest value, with the median and who is below."""
    low, high = one.least, max(one.greatest, one.least * 1.0001)

    def at(value: float) -> float:
        return round(ROOM + (WIDTH - 2 * ROOM) * (value - low) / (high - low), 1)

    marks = "".join(
        f'<line class="{"bad" if found.verdict is Low.LOW else "warn"}" x1="{at(found.value)}" x2="{at(found.value)}" '
        f'y1="6" y2="26"><title>{safe(f"{found.node} {found.value:.4g} {one.unit}")}</title></line>'
        for found in one.outliers
        if low <= found.value <= high
    )
    middle = at(one.median)
    drawn = (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{safe(_words(one))}">'
        f'<line class="axis" x1="{ROOM}" x2="{WIDTH - ROOM}" y1="16" y2="16"/>'
        f'<line class="median" x1="{middle}" x2="{middle}" y1="4" y2="28"/>{marks}'
        f'<text x="{ROOM}" y="42">{low:.4g} {safe(one.unit)}</text>'
        f'<text x="{WIDTH - ROOM}" y="42" text-anchor="end">{high:.4g} {safe(one.unit)}</text></svg>'
    )
    found = [_below(one, low) for low in one.outliers]
    named = tag("ul", "".join(tag("li", safe(text)) for text in found)) if found else ""
    return tag("div", tag("h3", safe(_words(one))) + drawn + named, "figure")


def _below(one: Figures, low: Outlier) -> str:
    gpus = f" GPU {' and '.join(map(str, low.gpus))}" if low.gpus else ""
    return f"{low.node}{gpus}: {low.value:.4g} {one.unit}, {low.ratio:.1%} of the {low.of}, {low.verdict.value}"


def _words(one: Figures) -> str:
    return f"{one.id}: median {one.median:.4g} {one.unit}, {one.gpus} GPUs, {one.kind}, driver {one.branch}"


def _map(report: FleetReport) -> str:
    """Return a square for each node, by the rack that its labels name."""
    verdicts = {name: COLOURS[one.status] for one in report.classes for name in one.nodes}
    verdicts |= {one.node: "missing" for one in report.missing}
    if len(verdicts) > MOST_CELLS:
        return ""
    racks: dict[str, list[str]] = {}
    for name in sorted(verdicts):
        racks.setdefault(report.labels.get(name, {}).get(RACK, ""), []).append(name)
    return "".join(
        tag(
            "div",
            (tag("h3", safe(rack)) if rack else "")
            + "".join(
                f'<i class="{verdicts[name]}" title="{safe(f"{name}: {verdicts[name]}")}"></i>' for name in names
            ),
            "rack",
        )
        for rack, names in sorted(racks.items())
    )
