"""The map of the stack for people: a box a layer, the top first, what is here by vendor, and the contracts between."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from io import StringIO
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from gpustack.model.facts import Component, Layer, Status
from gpustack.model.report import Contract, Kept
from gpustack.report.lines import Line, draw, rows, write
from gpustack.report.page import DEFAULT_WIDTH, Page
from gpustack.report.stack_text import DOWNWARD, KEPT, STATUS, TECHNIQUE
from gpustack.report.summary import entries

if TYPE_CHECKING:
    from gpustack.model.stack_map import StackMap

VENDORS = {"any": "", "nvidia": "NVIDIA", "amd": "AMD", "intel": "Intel"}
VENDOR_COLUMNS = 8
BOX = {"top": "┌┐", "between": "├┤", "bottom": "└┘", "line": "─", "side": "│"}
ASCII_BOX = {"top": "++", "between": "++", "bottom": "++", "line": "-", "side": "|"}
FOLDED = (Status.UNKNOWN, Status.ABSENT, Status.NOT_APPLICABLE)
WORDS = {Status.UNKNOWN: "unknown", Status.ABSENT: "absent", Status.NOT_APPLICABLE: "no use here"}
LEAST_BOX = 44


def render(
    chart: StackMap,
    *,
    width: int = DEFAULT_WIDTH,
    colour: bool = False,
    ascii: bool = False,  # noqa: A002 - what the output can take; nobody needs the built-in here
    verbose: bool = False,
) -> str:
    """Give the text of a map."""
    page = Page.of(width, colour=colour, ascii_only=ascii, verbose=verbose)
    return draw(lines(chart, page), page)


def lines(chart: StackMap, page: Page) -> Iterator[Line]:
    """Give the lines of the map: what machine, the boxes, and how many systems are here."""
    yield from _head(chart, page)
    layers = {one.id: one.layer for one in chart.components}
    reaching = _placed(chart.contracts, layers)
    boxes = [(layer.value, list(_inside(layer, chart, reaching, page))) for layer in DOWNWARD]
    yield from _boxes([(name, inside) for name, inside in boxes if inside], page)
    yield from _foot(chart, page)


def _head(chart: StackMap, page: Page) -> Iterator[Line]:
    host = chart.host
    kernel = f"Linux {host.kernel}" if host.kernel else None
    told = (host.hostname, host.os, kernel, host.machine, host.virtualisation, host.container, "WSL" * host.wsl)
    where = ", ".join(filter(None, told))
    here = sum(one.status is Status.PRESENT for one in chart.components[: len(chart.known)])
    yield Line(body=write(page, (f"{here} of {len(chart.known)} systems of the GPU stack are here.", "head")))
    if where:
        yield Line(body=write(page, where))
    for one in chart.environments:
        yield Line(body=write(page, f"Python {one.version or ''} at {one.python}".replace("  ", " ")))


def _placed(contracts: Sequence[Contract], layers: dict[str, Layer]) -> dict[Layer, list[Contract]]:
    """Put each contract into the upper of its two layers."""
    placed: dict[Layer, list[Contract]] = {}
    for edge in contracts:
        ends = [layers[end] for end in (edge.from_, edge.to) if end in layers]
        if ends:
            placed.setdefault(min(ends, key=DOWNWARD.index), []).append(edge)
    return placed


def _inside(layer: Layer, chart: StackMap, reaching: dict[Layer, list[Contract]], page: Page) -> Iterator[Line]:
    """Give what stands in one box: a row for all of each vendor that is here, rows for the rest, and contracts."""
    here = [one for one in chart.components if one.layer is layer]
    for vendor, name in VENDORS.items():
        own = [one for one in here if one.vendor == vendor or (vendor == "any" and one.vendor not in VENDORS)]
        for number, body in enumerate(_of_vendor(own, page)):
            lead = write(page, ((name if not number else "").ljust(VENDOR_COLUMNS), "dim"))
            yield Line(lead=lead, body=body, hang=Text(" " * VENDOR_COLUMNS))
    told = [one for one in reaching.get(layer, ()) if page.verbose or one.kind != TECHNIQUE]
    for edge, times in Counter(_sentence(one) for one in told).items():
        status, said = edge
        mark, word, style = KEPT[status]
        often = f" ({times} times)" if times > 1 else ""
        lead = write(page, ("needs".ljust(VENDOR_COLUMNS), "dim"), (f"{page.mark(mark)} {word}: ", style))
        yield Line(
            lead=lead, body=write(page, (said + often, "dim" if status is Kept.OK else "plain")), hang=Text(" " * 10)
        )


def _of_vendor(own: Sequence[Component], page: Page) -> Iterator[Text]:
    """Give what is here one by one, and what is not in a row a word."""
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
    for status in FOLDED:
        names = [_name(one, page) for one in own if one.status is status]
        if names:
            yield write(
                page, (f"{WORDS[status]}: {', '.join(names)}", "unknown" if status is Status.UNKNOWN else "dim")
            )


def _name(one: Component, page: Page) -> str:
    """Give the name of what is not here, with why where that is told."""
    return (
        f"{one.id} ({one.reason})" if one.reason and (page.verbose or one.status is Status.NOT_APPLICABLE) else one.id
    )


def _sentence(edge: Contract) -> tuple[Kept, str]:
    return edge.status, f"{edge.from_} → {edge.to}: needs {edge.needs}; found {edge.found}"


def _boxes(boxes: Sequence[tuple[str, list[Line]]], page: Page) -> Iterator[Line]:
    """Draw each layer as a box that stands on the next; on a narrow page as a heading and its lines."""
    if page.width < LEAST_BOX:
        for name, inside in boxes:
            yield from (Line(), Line(body=write(page, (name.upper(), "head"))), *inside)
        return
    box = ASCII_BOX if page.ascii_only else BOX
    console = Console(file=StringIO(), width=page.width, color_system=None, markup=False, highlight=False)
    for number, (name, inside) in enumerate(boxes):
        yield _border(box["between" if number else "top"], name, box["line"], page)
        yield from (_framed(row, box["side"], page) for line in inside for row in rows(line, page.width - 4, console))
    yield _border(box["bottom"], "", box["line"], page)


def _border(corners: str, name: str, line: str, page: Page) -> Line:
    title = f" {name} " if name else ""
    rest = line * (page.width - 3 - len(title))
    body = Text(corners[0] + line, "dim").append(write(page, (title, "head"))).append(Text(rest + corners[1], "dim"))
    return Line(body=body, whole=True)


def _framed(row: Text, side: str, page: Page) -> Line:
    """Give a row between the sides of its box; a word longer than the box is let out."""
    room = page.width - 4 - row.cell_len
    end = Text(" " * room + f" {side}", "dim") if room >= 0 else Text()
    return Line(body=Text(f"{side} ", "dim").append(row).append(end), whole=True)


def _foot(chart: StackMap, page: Page) -> Iterable[Line]:
    made = f"gpustack {chart.tool.version}, matrix of {chart.tool.matrix_date}; looked for {chart.seconds:.2f} s."
    more = "gpustack explain NAME says what each is for" + ("." if page.verbose else "; -v tells where it lies.")
    return (Line(body=write(page, (f"{made} {more}", "dim"))),)
