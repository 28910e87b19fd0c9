"""A report, or a fleet, as one HTML file that loads nothing.

For a machine: the verdict, the fix, the figures, and the map of the stack. For a fleet: causes by count, drift, figures
with their outliers, and a map by rack.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from gpustack.model.facts import Unseen, product
from gpustack.model.fleet import Figures, FleetReport, Low, Outlier, fold
from gpustack.model.policy import CheckReport
from gpustack.model.report import Decide, EnvironmentVerdict, Health, Report, Severity
from gpustack.report import bench_html, parts, stack_html
from gpustack.report.page import bullets, document, recorded, safe, section, table, tag

if TYPE_CHECKING:
    from gpustack.report.parts import Reported
    from gpustack.report.summary import Family

TONES = {"OK": "good", "WARNING": "warn", "CRITICAL": "bad", "UNKNOWN": "ask"}
ANSWER = {True: "good", False: "bad", None: "ask"}
SECTIONS = {
    Severity.ERROR: "Errors",
    Severity.WARNING: "Warnings",
    Severity.UNKNOWN: "Not known",
    Severity.INFO: "Notes",
}
COUNTED = {
    Severity.ERROR: ("error", "errors"),
    Severity.WARNING: ("warning", "warnings"),
    Severity.UNKNOWN: ("open question", "open questions"),
    Severity.INFO: ("note", "notes"),
}


def render(reported: Reported, told: parts.Told = parts.NOTHING) -> str:  # noqa: ARG001 - all forms are called alike
    """Return the page."""
    word, said = parts.headline(reported)
    return document(
        f"gpustack: {word}: {said}",
        "\n".join(filter(None, _parts(reported))),
        "map",
        "finding",
        "charts",
        "bench",
        "report",
    )


def _parts(reported: Reported) -> Iterator[str]:
    report, bench = parts.diagnosis(reported), parts.measured(reported)
    yield _head(reported)
    if rows := parts.policy(reported):
        yield section("Policy", tag("div", stack_html.held(rows), "card"))
    families = parts.ordered(reported)
    roots = set(report.verdict.root_keys) if report else set()
    first = [family for family in families if family[0].key in roots]
    yield section(
        "Root cause" if len(first) == 1 else "Root causes, most likely first",
        stack_html.blocks(first, parts.headline(reported)[1]),
    )
    if report:
        yield section(parts.likely_heading(report), _list(map(_candidate, parts.likely(report))))
    rest = [family for family in families if family[0].key not in roots]
    yield _of(Severity.ERROR, rest)
    yield _of(Severity.WARNING, rest)
    if bench:
        yield section("Measured", bench_html.figures(bench))
    if report:
        yield section("The stack, top first", _stack(report))
    yield _of(Severity.UNKNOWN, rest)
    yield _of(Severity.INFO, rest)
    if report:
        yield section("Pythons", _list(map(_python, report.environments)) if len(report.environments) > 1 else "")
        yield section("Not checked", _list(map(_unseen, report.not_seen)))
    tool = reported.tool
    yield tag("p", safe(f"gpustack {tool.version}, matrix of {tool.matrix_date}"), "soft about")


def _head(reported: Reported) -> str:
    """Return the verdict, its sentence, which machine it is, and what works."""
    word, said = parts.headline(reported)
    report, number = parts.diagnosis(reported), parts.counted(reported)
    counts = [f"{number[one]} {words[number[one] != 1]}" for one, words in COUNTED.items() if number[one]]
    about = [parts.where(report.host) if report else "", recorded(reported.taken or ""), ", ".join(counts)]
    bench = parts.measured(reported)
    about += parts.remarks(bench) if bench else ()
    if isinstance(reported, CheckReport):
        about.insert(1, f"doctor's verdict: {reported.verdict.status.value}")
    begun = f"{said[:1].upper()}{said[1:]}" if said in parts.SAID.values() else said  # others may begin with a name
    inside = tag("span", safe(word.replace("-", " ")), "badge") + tag("h1", safe(begun))
    inside += "".join(tag("p", safe(line), "soft") for line in about if line)
    if report and report.verdict.works:
        chips = (_chip(name, answer) for name, answer in report.verdict.works.items())
        inside += tag("ul", "".join(chips), "works")
    return tag("header", inside, f"card top tone-{TONES[parts.standing(reported).value]}")


def _chip(name: str, answer: bool | None) -> str:  # noqa: FBT001 - the answer itself
    return tag("li", f"{tag('b', safe(product(name)))} {parts.WORKS[answer]}", f"tone-{ANSWER[answer]}")


def _of(severity: Severity, families: list[Family]) -> str:
    return section(SECTIONS[severity], stack_html.blocks([one for one in families if one[0].severity is severity]))


def _stack(report: Report) -> str:
    """Return the boxes of the layers, with the components of findings marked."""
    roots, faults = set(report.verdict.root_keys), dict[str, str]()
    for one in report.findings:
        if one.severity in {Severity.ERROR, Severity.WARNING}:
            word = "at fault" if one.key in roots else "affected" if one.caused_by else one.severity.value
            if faults.get(one.component, "affected") == "affected":
                faults[one.component] = word
    return stack_html.boxes(report.components, [one for one in report.contracts if one.kind != parts.TECHNIQUE], faults)


def _list(items: Iterator[str]) -> str:
    inside = bullets(items, "plain")
    return tag("div", inside, "card") if inside else ""


def _candidate(one: tuple[str, str, tuple[str, ...], Decide]) -> str:
    what, place, speaking, decide = one
    commands = "".join(tag("pre", safe(command)) for command in decide.commands)
    said = "".join(tag("p", safe(line), "soft") for line in (*speaking, f"To decide: {decide.text}"))
    return f"{tag('b', safe(what))} ({safe(place)}){said}{commands}"


def _python(one: EnvironmentVerdict) -> str:
    works = (
        "; ".join(f"{product(name)} {parts.WORKS[answer]}" for name, answer in one.works.items())
        or "nothing that uses a GPU"
    )
    said = f"({one.kind}, version {one.version or 'unknown'}): {works}"
    return f"{tag('code', safe(one.python))} {safe(said)}"


def _unseen(one: Unseen) -> str:
    help_ = f". To see it: {one.enable_by}" if one.enable_by else ""
    return safe(f"{one.what}: {one.why}{help_}")


COLOURS = {
    Health.BROKEN: "bad",
    Health.DEGRADED: "warn",
    Health.UNKNOWN: "ask",
    Health.HEALTHY: "ok",
    Health.NO_GPU: "none",
}
WIDTH, HEIGHT, ROOM = 720, 84, 8
BASE, TALL = 64, 60  # of the bars of a distribution
RACK = "rack"
WORDS = {
    "bad": "broken",
    "warn": "degraded",
    "ask": "unknown",
    "ok": "healthy",
    "none": "no GPU",
    "missing": "nothing collected",
}
FIGURE_KEY = tag(
    "ul",
    '<li class="median"><i></i>median of all GPUs</li><li class="bad"><i></i>low: measured twice</li>'
    '<li class="warn"><i></i>suspect: measured once</li>',
    "key strips",
)
MOST_CELLS = 40_000  # nodes of the map


def render_fleet(report: FleetReport) -> str:
    """Return the page; it is one file and loads nothing."""
    sections = [
        _fleet_head(report),
        section(
            "Verdicts", _fleet_table(("Nodes", "Verdict", "Cause", "Meaning", "Machine", "Names"), _causes(report))
        ),
        section("Figures", "".join(_strip(one) for one in report.figures) + FIGURE_KEY if report.figures else ""),
        section("Drift", _fleet_table(("Component", "Fact", "Usual", "Found", "Nodes"), _drift(report))),
        section("Missing", _fleet_table(("Node", "Why"), ((one.node, one.why) for one in report.missing))),
        section("Map", _map(report)),
    ]
    return document("gpustack fleet", "\n".join(filter(None, sections)), "finding", "report", "charts", "fleet")


def _fleet_head(report: FleetReport) -> str:
    """Return how many nodes there are, and how many of each verdict."""
    counts = ", ".join(f"{count} {status}" for status, count in report.status.items())
    worst = next((one for one in COLOURS if report.status.get(one.value)), Health.HEALTHY)
    tone = {"ok": "good", "none": "none"}.get(COLOURS[worst], COLOURS[worst])
    inside = tag("span", "fleet", "badge") + tag("h1", f"{report.nodes} nodes") + tag("p", safe(counts), "soft")
    return tag("header", inside, f"card top tone-{tone}")


def _fleet_table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return rows below their column names, which a phone shows beside each cell."""
    made = [
        [f'<td data-name="{name}">{safe(cell)}</td>' for name, cell in zip(heads, row, strict=True)] for row in rows
    ]
    return tag("div", table(heads, made), "card wide") if made else ""


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


def _strip(one: Figures) -> str:
    """Return a figure's distribution, drawn by the square root of the counts so that few are visible, with outliers."""
    low, high = one.least, max(one.greatest, one.least * 1.0001)

    def at(value: float) -> float:
        return round(ROOM + (WIDTH - 2 * ROOM) * (value - low) / (high - low), 1)

    marks = "".join(
        f'<line class="{"bad" if found.verdict is Low.LOW else "warn"}" x1="{at(found.value)}" x2="{at(found.value)}" '
        f'y1="{BASE - TALL}" y2="{BASE + 4}"><title>{safe(f"{found.node} {found.value:.4g} {one.unit}")}</title></line>'
        for found in one.outliers
        if low <= found.value <= high
    )
    middle, wide, most = at(one.median), (WIDTH - 2 * ROOM) / max(1, len(one.bins)), max(one.bins, default=1)
    bars = "".join(
        f'<rect class="bar" x="{ROOM + wide * place:.1f}" width="{wide:.1f}" '
        f'y="{BASE - tall:.1f}" height="{tall:.1f}"/>'
        for place, count in enumerate(one.bins)
        if (tall := TALL * (count / most) ** 0.5)
    )
    drawn = (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{safe(_words(one))}">'
        f'{bars}<line class="axis" x1="{ROOM}" x2="{WIDTH - ROOM}" y1="{BASE}" y2="{BASE}"/>'
        f'<line class="median" x1="{middle}" x2="{middle}" y1="{BASE - TALL}" y2="{BASE + 4}"/>{marks}'
        f'<text x="{ROOM}" y="{HEIGHT - 2}">{low:.4g} {safe(one.unit)}</text>'
        f'<text x="{WIDTH - ROOM}" y="{HEIGHT - 2}" text-anchor="end">{high:.4g} {safe(one.unit)}</text></svg>'
    )
    found = [_below(one, low) for low in one.outliers]
    return tag("div", tag("h3", safe(_words(one))) + drawn + bullets(map(safe, found)), "figure")


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
    seen = [(kind, word) for kind, word in WORDS.items() if kind in verdicts.values()]
    key = tag("ul", "".join(f'<li><i class="{kind}"></i>{word}</li>' for kind, word in seen), "key nodes")
    return key + "".join(_rack(rack, names, verdicts) for rack, names in sorted(racks.items())) if verdicts else ""


def _rack(rack: str, names: Iterable[str], verdicts: Mapping[str, str]) -> str:
    squares = "".join(
        f'<i class="{verdicts[name]}" title="{safe(f"{name}: {WORDS[verdicts[name]]}")}"></i>' for name in names
    )
    return tag("div", (tag("h3", safe(rack)) if rack else "") + squares, "rack")
