"""The stack as a drawing: the layers of a report with their contracts, and the map of all components in boxes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from rich.text import Text

from gpustack.model.facts import Component, Layer, Status
from gpustack.model.report import Contract, Kept, Report, Severity
from gpustack.report.lines import Line, renderer, rows, say, write
from gpustack.report.parts import where
from gpustack.report.summary import entries

if TYPE_CHECKING:
    from gpustack.model.matrix_answer import StackMap
    from gpustack.report.page import Page

State: TypeAlias = "tuple[str, str, str]"
BESIDE = (Layer.ENVIRONMENT, Layer.CONTAINER)
DOWNWARD = tuple(layer for layer in reversed(Layer) if layer not in BESIDE) + BESIDE
FOLDED = (Status.ABSENT, Status.NOT_APPLICABLE)
STATUS = {
    Status.PRESENT: ("ok", "present", "good"),
    Status.FAILED: ("bad", "failed", "error"),
    Status.UNKNOWN: ("ask", "unknown", "unknown"),
    Status.ABSENT: ("none", "absent", "dim"),
    Status.NOT_APPLICABLE: ("none", "n/a", "dim"),
}
KEPT = {
    Kept.OK: ("ok", "ok", "good"),
    Kept.LIMITED: ("warn", "limited", "warning"),
    Kept.BROKEN: ("bad", "broken", "error"),
    Kept.UNKNOWN: ("ask", "unknown", "unknown"),
}
TECHNIQUE = "technique"  # what a server can do here: long, and not a fault
LAYER_COLUMNS, STATUS_COLUMNS = 15, 11
VENDORS = {"any": "", "nvidia": "NVIDIA", "amd": "AMD", "intel": "Intel"}
VENDOR_COLUMNS = 8
BOX = {"top": "┌┐", "between": "├┤", "bottom": "└┘", "line": "─", "side": "│"}
ASCII_BOX = {"top": "++", "between": "++", "bottom": "++", "line": "-", "side": "|"}
MAP_FOLDED = (Status.UNKNOWN, Status.ABSENT, Status.NOT_APPLICABLE)
WORDS = {Status.UNKNOWN: "unknown", Status.ABSENT: "absent", Status.NOT_APPLICABLE: "no use here"}
LEAST_BOX = 44


def stack(report: Report, page: Page) -> Iterator[Line]:
    """Yield the layers: a line each with its problems, with ``-vv`` every component and requirement."""
    faults, chosen = _faults(report), report.environments[0].python if report.environments else None
    everything = page.verbose > 1
    edges = [one for one in report.contracts if everything or (one.status is not Kept.OK and one.kind != TECHNIQUE)]
    reaching = _placed(edges, {seen.id: seen.layer for seen in report.components})
    for layer in (*DOWNWARD, None):
        here = [seen for seen in report.components if seen.layer is layer]
        shown = _components(here, faults, page) if everything else _layer(here, faults, page)
        inside = [*shown, *_edges(reaching.get(layer, ()), chosen, page)]
        name = layer.value if layer else "other"
        if page.narrow and inside:
            yield say(page, (name, "head"))
            yield from inside
        for line in () if page.narrow else inside[:1]:
            lead = write(page, (f"{name:<{LAYER_COLUMNS}}", "head"))
            yield replace(line, lead=lead.append(line.lead[LAYER_COLUMNS:]))
        yield from () if page.narrow else inside[1:]


def _layer(here: Sequence[Component], faults: Mapping[str, State], page: Page) -> Iterator[Line]:
    """Yield what is present in one layer on one line, faults marked, and how much is absent."""
    named: list[Text] = []
    for one in here:
        if one.status not in FOLDED or one.id in faults:
            mark, word, style = _state(one.status, faults.get(one.id))
            plain = one.status is Status.PRESENT and one.id not in faults
            heads = (entry.head if plain else f"{page.mark(mark)} {entry.head} ({word})" for entry in entries(one))
            named += (write(page, (head, "plain" if plain else style)) for head in heads)
    absent = sum(one.status in FOLDED and one.id not in faults for one in here)
    if absent:
        named.append(write(page, (f"{absent} absent", "dim")))
    if named:
        margin = "" if page.narrow else " " * LAYER_COLUMNS
        yield Line(lead=Text(margin or "  "), body=Text(", ").join(named))


def _faults(report: Report) -> dict[str, State]:
    """Return the components in findings: which one is at fault, and which are only affected."""
    roots, faults = set(report.verdict.root_keys), dict[str, State]()
    for severity in (Severity.ERROR, Severity.WARNING):
        for one in report.findings:
            if one.severity is severity:
                word = "at fault" if one.key in roots else "affected" if one.caused_by else severity.value
                mark = "bad" if severity is Severity.ERROR and not one.caused_by else "warn"
                held = faults.get(one.component)
                if held is None or (held[1] == "affected" and word != "affected"):
                    faults[one.component] = (mark, word, "error" if mark == "bad" else "warning")
    return faults


def _placed(contracts: Sequence[Contract], layers: Mapping[str, Layer]) -> dict[Layer | None, list[Contract]]:
    """Assign each contract to the upper of its two layers; one between unknown ends belongs to none."""
    placed: dict[Layer | None, list[Contract]] = {}
    for edge in contracts:
        ends = [layers[end] for end in (edge.from_, edge.to) if end in layers]
        placed.setdefault(min(ends, key=DOWNWARD.index, default=None), []).append(edge)
    return placed


def _components(here: Sequence[Component], faults: Mapping[str, State], page: Page) -> Iterator[Line]:
    """Yield a row for each component, where each copy is, and how it was probed."""
    for component in here:
        for entry in entries(component):
            notes = ", ".join(entry.notes)
            text = write(page, (entry.head, "head"), f"  {notes}" if notes else "")
            yield _row(_state(entry.status, faults.get(component.id)), text, "", page)
        yield from _sources(component, page)


def _state(status: Status, fault: State | None) -> State:
    """Return mark and word: from the finding for something present, from the status for anything else."""
    mark, word, style = STATUS[status]
    if fault is None:
        return mark, word, style
    return fault if status is Status.PRESENT else (fault[0], word, fault[2])


def _edges(contracts: Iterable[Contract], chosen: str | None, page: Page) -> Iterator[Line]:
    """Yield a row for each contract, merging those of similar GPUs or copies."""
    for (status, said), times in Counter(_sentence(one, chosen) for one in contracts).items():
        often = f" ({times} times)" if times > 1 else ""
        style = "dim" if status is Kept.OK else "plain"
        yield _row(KEPT[status], write(page, (said + often, style)), page.mark("bar"), page)


def _sentence(edge: Contract, chosen: str | None) -> tuple[Kept, str]:
    """Return a contract as a sentence, with its Python if that is not the chosen one."""
    where = f" (in {edge.environment})" if edge.environment not in {None, chosen} else ""
    return edge.status, f"{edge.from_} → {edge.to}: needs {edge.needs}; found {edge.found}{where}"


def _row(state: State, body: Text, bar: str, page: Page) -> Line:
    """Return one row: the bar of a contract, mark and word of the state, and the text."""
    mark, word, style = state
    if page.narrow:
        said = write(page, (f"{page.mark(mark)} {word} ", style)).append(body)
        return Line(lead=write(page, (f"{bar:<2}", "dim")), body=said, hang=Text("    "))
    before = f"{bar:>4}".ljust(LAYER_COLUMNS)
    lead = write(page, (before, "dim"), (f"{page.mark(mark)} {word}".ljust(STATUS_COLUMNS), style))
    return Line(lead=lead, body=body, hang=write(page, (before, "dim"), " " * STATUS_COLUMNS))


def _sources(component: Component, page: Page) -> Iterator[Line]:
    """Yield the path of each copy, the calls made, and how long each took."""
    told = [f"probed in {component.seconds * 1000:.1f} ms" + (f": {component.source}" if component.source else "")]
    told += [f"copy: {' '.join(filter(None, (copy.version, copy.path)))}" for copy in component.instances if copy.path]
    told += [f"call: {call.name}, {call.seconds * 1000:.2f} ms, {call.outcome}" for call in component.calls]
    margin = 4 if page.narrow else LAYER_COLUMNS + STATUS_COLUMNS + 2
    for said in told:
        yield say(page, (said, "dim"), lead=" " * margin, hang=" " * (margin + 2))


def lines(chart: StackMap, page: Page) -> Iterator[Line]:
    """Yield the lines of the map: the machine, the boxes, and the number of systems present."""
    yield from _head(chart, page)
    reaching = _placed(chart.contracts, {one.id: one.layer for one in chart.components})
    boxes = [(layer.value, list(_inside(layer, chart, reaching, page))) for layer in DOWNWARD]
    yield from _boxes([(name, inside) for name, inside in boxes if inside], page)
    made = f"gpustack {chart.tool.version}, matrix of {chart.tool.matrix_date}; looked for {chart.seconds:.2f} s."
    more = "gpustack explain NAME says what each is for" + ("." if page.verbose else "; -v shows where each one is.")
    yield from (say(page, (f"{made} {more}", "dim")),)


def _head(chart: StackMap, page: Page) -> Iterator[Line]:
    here = sum(one.status is Status.PRESENT for one in chart.components[: len(chart.known)])
    yield say(page, (f"{here} of {len(chart.known)} components of the GPU stack are present.", "head"))
    if machine := where(chart.host):
        yield say(page, machine)
    for one in chart.environments:
        yield say(page, f"Python {one.version or ''} at {one.python}".replace("  ", " "))


def _inside(
    layer: Layer, chart: StackMap, reaching: Mapping[Layer | None, Sequence[Contract]], page: Page
) -> Iterator[Line]:
    """Yield the contents of one box: a row for all that is present of each vendor, rows for the rest, and contracts."""
    here = [one for one in chart.components if one.layer is layer]
    for vendor, name in VENDORS.items():
        own = [one for one in here if one.vendor == vendor or (vendor == "any" and one.vendor not in VENDORS)]
        for number, body in enumerate(_of_vendor(own, page)):
            lead = write(page, ((name if not number else "").ljust(VENDOR_COLUMNS), "dim"))
            yield Line(lead=lead, body=body, hang=Text(" " * VENDOR_COLUMNS))
    told = [one for one in reaching.get(layer, ()) if page.verbose or one.kind != TECHNIQUE]
    for (status, said), times in Counter(_sentence(one, one.environment) for one in told).items():
        mark, word, style = KEPT[status]
        often = f" ({times} times)" if times > 1 else ""
        lead = write(page, ("needs".ljust(VENDOR_COLUMNS), "dim"), (f"{page.mark(mark)} {word}: ", style))
        yield say(page, (said + often, "dim" if status is Kept.OK else "plain"), lead=lead, hang=" " * 10)


def _of_vendor(own: Sequence[Component], page: Page) -> Iterator[Text]:
    """Yield what is present one by one, and what is absent in a row per word."""
    for one in own:
        if one.status in {Status.PRESENT, Status.FAILED}:
            mark, word, style = STATUS[one.status]
            for entry in entries(one):
                failed = f" {word}" if one.status is Status.FAILED else ""
                body = write(page, (f"{page.mark(mark)} ", style), (entry.head, "head"), (failed, style))
                notes = ", ".join(entry.notes)
                yield body.append(write(page, (f"  {notes}" if notes else "", "plain")))
                if page.verbose and entry.path:
                    yield write(page, (f"  {entry.path}", "dim"))
    for status in MAP_FOLDED:
        names = [_name(one, page) for one in own if one.status is status]
        if names:
            yield write(
                page, (f"{WORDS[status]}: {', '.join(names)}", "unknown" if status is Status.UNKNOWN else "dim")
            )


def _name(one: Component, page: Page) -> str:
    """Return the name of something absent, with the reason if known."""
    return (
        f"{one.id} ({one.reason})" if one.reason and (page.verbose or one.status is Status.NOT_APPLICABLE) else one.id
    )


def _boxes(boxes: Sequence[tuple[str, list[Line]]], page: Page) -> Iterator[Line]:
    """Draw each layer as a box on top of the next; on a narrow page as a heading and its lines."""
    if page.width < LEAST_BOX:
        for name, inside in boxes:
            yield from (Line(), say(page, (name.upper(), "head")), *inside)
        return
    box = ASCII_BOX if page.ascii_only else BOX
    for number, (name, inside) in enumerate(boxes):
        yield _border(box["between" if number else "top"], name, box["line"], page)
        yield from (_framed(row, box["side"], page) for line in inside for row in rows(line, page.width - 4))
    yield _border(box["bottom"], "", box["line"], page)


def _border(corners: str, name: str, line: str, page: Page) -> Line:
    title = f" {name} " if name else ""
    rest = line * (page.width - 3 - len(title))
    body = Text(corners[0] + line, "dim").append(write(page, (title, "head"))).append(Text(rest + corners[1], "dim"))
    return Line(body=body, whole=True)


def _framed(row: Text, side: str, page: Page) -> Line:
    """Return a row between the sides of its box; a word longer than the box sticks out."""
    room = page.width - 4 - row.cell_len
    end = Text(" " * room + f" {side}", "dim") if room >= 0 else Text()
    return Line(body=Text(f"{side} ", "dim").append(row).append(end), whole=True)


render_map = renderer(lines)
