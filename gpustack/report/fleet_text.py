"""A fleet as text, as a list of nodes, as metrics and as JUnit XML."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar
from xml.etree import ElementTree as ET

from gpustack.model.fleet import Low, fold
from gpustack.model.report import Health, Severity
from gpustack.report.lines import Line, renderer, say
from gpustack.report.page import Page, clean

if TYPE_CHECKING:
    from gpustack.model.fleet import (
        Decoded,
        Drift,
        Figures,
        FleetDifference,
        FleetReport,
        History,
        Matchings,
        NodeClass,
    )

Shown = TypeVar("Shown")
MARKS = {
    Health.BROKEN: ("bad", "error"),
    Health.DEGRADED: ("warn", "warning"),
    Health.UNKNOWN: ("ask", "unknown"),
    Health.HEALTHY: ("ok", "good"),
    Health.NO_GPU: ("none", "dim"),
}
SHOWN = 6  # drifts, figures and missing nodes in the short form
MOST_VALUE = 40
MOST_CHANGES = 20
TITLES = 3  # findings of a class that are named


def lines(report: FleetReport, page: Page) -> Iterator[Line]:
    """Yield the lines of a fleet's report."""
    counted = ", ".join(f"{count} {status}" for status, count in report.status.items())
    yield say(
        page, (f"{report.nodes} {'node' if report.nodes == 1 else 'nodes'}: {counted or 'nothing is known'}", "head")
    )
    for one in report.classes:
        yield from _class(one, page)
    low = [one for one in report.figures if one.outliers]
    if low:
        yield from (Line(), say(page, ("LOW FIGURES", "head")))
        for figure in low:
            yield from _figure(figure, page)
        suspects = {one.node for figure in low for one in figure.outliers if one.verdict is Low.SUSPECT}
        if suspects:
            again = f"gpustack fleet collect DIR --engine ENGINE --bench --again --nodes '{fold(suspects)}'"
            yield say(page, "Measure again the nodes that were measured once, then judge again:", lead="  ")
            yield say(page, (again, "command"), lead="  $ ", whole=True)
    if report.drift:
        yield from (Line(), say(page, ("DRIFT", "head"), " (unlike most nodes of the same kind)"))
        yield from _some(report.drift, page, _drift, "facts")
    if report.missing:
        yield from (Line(), say(page, ("MISSING", "head")))
        yield from _some(_reasons(report), page, _missing, "reasons")
    for unread in report.unread[: None if page.verbose else SHOWN]:
        yield say(page, f"{unread.node}: a bench could not be read: {unread.why}", lead="  ")


def _some(
    held: Sequence[Shown], page: Page, shown: Callable[[Shown, Page], Iterator[Line]], what: str
) -> Iterator[Line]:
    most = len(held) if page.verbose else SHOWN
    for one in held[:most]:
        yield from shown(one, page)
    if len(held) > most:
        yield say(page, (f"and {len(held) - most} more {what} (-v)", "dim"), lead="  ")


def _class(one: NodeClass, page: Page) -> Iterator[Line]:
    mark, style = MARKS[one.status]
    roots = ", ".join(one.root_causes)
    said = f"{one.count} {one.status.value}{f': {roots}' if roots else ''}"
    yield say(page, (said, style), (f"  {one.kind}", "dim"), lead=(f"{page.mark(mark)} ", style))
    if one.status is Health.HEALTHY and not page.verbose:
        return
    yield say(page, fold(one.nodes), lead="    ")
    roots_first = [told for told in one.findings if told.caused_by is None and told.severity is not Severity.UNKNOWN]
    for told in roots_first if page.verbose else roots_first[:TITLES]:
        yield say(page, told.title, lead="    ")
        if told.fix:
            yield say(page, told.fix, lead=("    Fix: ", "head"), hang="         ")
        for command in told.commands:
            yield say(page, (command, "command"), lead="      $ ", whole=True)


def _figure(one: Figures, page: Page) -> Iterator[Line]:
    said = f"{one.id}: median {one.median:.4g} {one.unit} of {one.gpus} GPUs, {one.kind}, driver {one.branch}"
    yield say(page, said, lead="  ")
    for verdict, style in ((Low.LOW, "error"), (Low.SUSPECT, "warning")):
        found = [low for low in one.outliers if low.verdict is verdict]
        for low in found if page.verbose else found[:SHOWN]:
            gpus = " and ".join(map(str, low.gpus))
            where = f"{low.node} GPU {gpus}" if gpus else low.node
            times = f"measured {low.measured} times" if low.measured > 1 else "measured once: measure it again"
            text = f"{where}: {low.value:.4g} {one.unit}, {low.ratio:.1%} of the {low.of} ({times})"
            yield say(page, (text, style), lead="    ")
        if len(found) > SHOWN and not page.verbose:
            yield say(page, (f"and {len(found) - SHOWN} more (-v)", "dim"), lead="    ")


def _drift(one: Drift, page: Page) -> Iterator[Line]:
    copies = f" {', '.join(one.instances)}" if one.instances else ""
    for odd in one.odd:
        text = f"{one.component}{copies} {one.fact}: {_value(odd.value)} instead of {_value(one.usual)}"
        yield say(page, text, (f" on {fold(odd.nodes)}", "dim"), lead="  ", hang="    ")


def _value(value: str | None) -> str:
    if value is None:
        return "none"
    return value if len(value) <= MOST_VALUE else f"{value[: MOST_VALUE - 1]}…"


def _reasons(report: FleetReport) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return why nodes are missing, with the nodes for each reason."""
    held: dict[str, list[str]] = {}
    for one in report.missing:
        held.setdefault(one.why, []).append(one.node)
    return tuple((why, tuple(names)) for why, names in sorted(held.items(), key=lambda one: -len(one[1])))


def _missing(one: tuple[str, tuple[str, ...]], page: Page) -> Iterator[Line]:
    why, names = one
    yield say(page, f"{fold(names)}: {why}", lead="  ")


render = renderer(lines)


def nodelist(report: FleetReport) -> str:
    """Return the nodes that must take no work, as Slurm writes a list: broken, missing, or measured low twice."""
    broken = [name for one in report.classes if one.status is Health.BROKEN for name in one.nodes]
    low = [low.node for one in report.figures for low in one.outliers if low.verdict is Low.LOW]
    return fold([*broken, *low, *(one.node for one in report.missing)]) + "\n"


def prometheus(report: FleetReport) -> str:
    """Return metrics of a fleet: nodes by verdict and by cause, drifts, and GPUs with a low figure."""
    causes = Counter({id_: one.count for one in report.classes for id_ in one.root_causes})
    low = {(one.id, verdict.value): 0 for one in report.figures for verdict in Low}
    for one in report.figures:
        for found in one.outliers:
            low[one.id, found.verdict.value] += 1
    families = (
        ("nodes", "How many nodes have each verdict.", [(f'status="{name}"', n) for name, n in report.status.items()]),
        ("cause_nodes", "How many nodes have each root cause.", [(f'id="{id_}"', n) for id_, n in causes.items()]),
        ("drift_facts", "How many facts differ from most nodes of the same kind.", [("", len(report.drift))]),
        (
            "low_figures",
            "How many GPUs are below their kind, once (suspect) or twice (low).",
            [(f'id="{id_}",verdict="{verdict}"', count) for (id_, verdict), count in low.items()],
        ),
    )
    made = []
    for name, about, samples in families:
        made += [f"# HELP gpustack_fleet_{name} {about}", f"# TYPE gpustack_fleet_{name} gauge"]
        made += [f"gpustack_fleet_{name}{f'{{{labels}}}' if labels else ''} {value}" for labels, value in samples]
    return "\n".join(made) + "\n"


def junit(report: FleetReport) -> str:
    """Return a test case for each node, failed where it is broken, and skipped where it is missing."""
    root = ET.Element("testsuites", {"name": "gpustack fleet"})
    suite = ET.SubElement(root, "testsuite", {"name": "nodes", "tests": str(report.nodes)})
    failed = 0
    for one in report.classes:
        for name in one.nodes:
            case = ET.SubElement(suite, "testcase", {"classname": clean(one.kind), "name": name})
            if one.status in {Health.BROKEN, Health.DEGRADED}:
                failed += one.status is Health.BROKEN
                kind = "failure" if one.status is Health.BROKEN else "system-out"
                said = "; ".join(told.title for told in one.findings if told.caused_by is None)
                part = ET.SubElement(case, kind, {"message": ", ".join(one.root_causes)} if kind == "failure" else {})
                part.text = clean(said)
    for missing in report.missing:
        case = ET.SubElement(suite, "testcase", {"classname": "missing", "name": missing.node})
        ET.SubElement(case, "skipped", {"message": clean(missing.why)})
    counts = {
        "failures": str(failed),
        "skipped": str(len(report.missing)),
        "errors": "0",
        "time": f"{report.seconds:.3f}",
    }
    suite.attrib |= counts
    root.attrib |= {"tests": str(report.nodes), **counts}
    ET.indent(root, " ")
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _plan(made: Matchings, page: Page) -> Iterator[Line]:
    for number, pairs in enumerate(made.rounds, 1):
        yield from (say(page, f"{number} {one} {other}", whole=True) for one, other in pairs)


def _decoded(found: Decoded, page: Page) -> Iterator[Line]:
    if not found.suspects:
        yield say(page, (f"No node and no uplink is slow in {found.pairs} pairs.", "good"))
    for one in found.suspects:
        how = "hangs or fails" if one.median_ratio == 0 else f"{one.median_ratio:.1%} of the median"
        sure = "confirmed" if found.confirmed else f"weight {one.weight:g}"
        yield say(
            page,
            (f"{one.what} {one.name}", "error"),
            f": {how} in {one.pairs} pairs ({sure})",
            lead=(f"{page.mark('bad')} ", "error"),
        )
    if found.confirm:
        yield from (Line(), say(page, ("Measure these pairs as round confirm, then decode all:", "head")))
        yield from (say(page, f"confirm {one} {other}", whole=True) for one, other in found.confirm)


def _diff(found: FleetDifference, page: Page) -> Iterator[Line]:
    yield say(page, (f"{found.same} nodes are unchanged", "head"))
    for one in found.turned:
        text = f"{one.before or 'not collected'} -> {one.after or 'not collected'}"
        causes = [*(f"new {id_}" for id_ in one.new), *(f"gone {id_}" for id_ in one.gone)]
        yield say(page, (f"{len(one.nodes)} nodes: {text}", "head"), f" {', '.join(causes)}")
        yield say(page, fold(one.nodes), lead="    ")
    for changed in found.changed if page.verbose else found.changed[:MOST_CHANGES]:
        text = f"{changed.component} {changed.fact}: {_value(changed.before)} -> {_value(changed.after)}"
        yield say(page, text, (f" on {fold(changed.nodes)}", "dim"), lead="  ", hang="    ")
    if len(found.changed) > MOST_CHANGES and not page.verbose:
        more = f"and {len(found.changed) - MOST_CHANGES} more facts (-v)"
        yield say(page, (more, "dim"), lead="  ")


def _since(history: History, page: Page) -> Iterator[Line]:
    if not history.nodes:
        yield say(page, f"No node has had {history.finding}.")
    for one in history.nodes:
        now = "has it now" if one.now else "does not have it now"
        said = f"{one.node}: {one.runs} of {one.of} runs, {one.boots} boots, {one.first} to {one.last}, {now}"
        yield say(page, said, (f"  (lemon score {one.score:g})", "dim"))


render_diff = renderer(_diff)


render_plan = renderer(_plan)


render_pairs = renderer(_decoded)


render_since = renderer(_since)
