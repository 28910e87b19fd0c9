"""Explanations in words: what it is, its layer, what it stands on, how to see it, what goes wrong and what to do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from rich.text import Text

from gpustack.model.explanation import Kind
from gpustack.report.lines import Line, draw, indent, write
from gpustack.report.page import DEFAULT_WIDTH, Page

if TYPE_CHECKING:
    from gpustack.model.explanation import Explanation, Lead, Meaning

KINDS = {
    Kind.FINDING: "a finding of gpustack",
    Kind.CODE: "a number",
    Kind.MESSAGE: "a message",
    Kind.SYSTEM: "a system of the stack",
    Kind.TERM: "a term",
    Kind.LAYER: "a layer of the stack",
    Kind.ARCHITECTURE: "a GPU architecture",
}
FULL = frozenset({Kind.CODE, Kind.MESSAGE})
LABEL = 12
MANY = 14
COMMANDS_OF = "To see it here:"


def render(
    explanation: Explanation,
    *,
    width: int = DEFAULT_WIDTH,
    colour: bool = False,
    ascii: bool = False,  # noqa: A002 - the same word in every renderer
    verbose: bool = False,
) -> str:
    """Give the explanation as text for a page of this width."""
    page = Page.of(width, colour=colour, ascii_only=ascii, verbose=verbose)
    return draw(_text(explanation, page), page)


def _text(explanation: Explanation, page: Page) -> Iterator[Line]:
    told: set[str] = {one.id for one in explanation.meanings if one.kind is Kind.FINDING}
    for number, meaning in enumerate(explanation.meanings):
        if number:
            yield Line()
        yield from _meaning(meaning, told, page)
    if not explanation.known:
        yield from _nothing(explanation, page)
    elif explanation.missing:
        yield Line()
        yield Line(body=write(page, (f"Not known here: {', '.join(explanation.missing)}.", "dim")))


def _nothing(explanation: Explanation, page: Page) -> Iterator[Line]:
    what = ", ".join(explanation.missing) or explanation.words or "nothing"
    yield Line(body=write(page, (f"Nothing is known of: {what}", "head")))
    if explanation.near:
        yield Line(body=write(page, f"Did you mean: {', '.join(explanation.near)}?"))
    yield Line(
        body=write(page, ("A finding, a number, an error line, a system, a layer or a term of the stack is.", "dim"))
    )


def _meaning(meaning: Meaning, told: set[str], page: Page) -> Iterator[Line]:
    """Give one meaning: its name and kind, then what it is, then its neighbours, commands and findings."""
    layer = f", {meaning.layer.value} layer" if meaning.layer and meaning.kind is not Kind.LAYER else ""
    yield Line(body=write(page, (meaning.id, "head"), (f": {KINDS[meaning.kind]}{layer}", "dim")), hang=Text("  "))
    yield from indent(2, _body(meaning, told, page))


def _body(meaning: Meaning, told: set[str], page: Page) -> Iterator[Line]:
    yield Line(body=write(page, meaning.title))
    for paragraph in meaning.says:
        yield from (Line(), Line(body=write(page, paragraph)))
    rows = [*_rows(meaning, page)]
    if rows:
        yield from (Line(), *rows)
    yield from _commands("To mend it:", meaning.commands, page)
    yield from _findings(meaning, told, page)
    yield from _commands(COMMANDS_OF, meaning.see, page)
    if meaning.row:
        row = meaning.row
        yield from (Line(), Line(body=write(page, (f"Source: {row.source} (checked {row.checked})", "dim"))))


def _commands(head: str, commands: Iterable[str], page: Page) -> Iterator[Line]:
    if held := tuple(commands):
        yield from (Line(), Line(body=write(page, (head, "head"))))
        yield from (Line(lead=Text("  "), body=write(page, (one, "command")), whole=True) for one in held)


def _rows(meaning: Meaning, page: Page) -> Iterator[Line]:
    yield from _row("Behind it", meaning.cause, page)
    yield from _row("What to do", meaning.fix, page)
    yield from _row("Is about" if meaning.kind is Kind.FINDING else "Stands on", _names(meaning.stands_on, page), page)
    yield from _row("Carries", _names(meaning.carries, page), page)
    yield from _row("In it", _names(meaning.holds, page), page)


def _row(label: str, text: str | None, page: Page) -> Iterator[Line]:
    """Give a label and what stands beside it, or after it where the page is narrow."""
    if text and page.narrow:
        yield Line(body=write(page, (f"{label}: ", "head"), text), hang=Text("  "))
    elif text:
        yield Line(lead=write(page, (f"{label:<{LABEL}}", "head")), body=write(page, text), hang=Text(" " * LABEL))


def _names(names: Iterable[str], page: Page) -> str:
    """Give names in a row; many are cut short unless all are asked for."""
    held = tuple(names)
    most = len(held) if page.verbose or len(held) <= MANY + 1 else MANY
    more = f", and {len(held) - most} more" if len(held) > most else ""
    return ", ".join(held[:most]) + more


def _findings(meaning: Meaning, told: set[str], page: Page) -> Iterator[Line]:
    """Give what it leads to: in full under a number or a message, each once; else by title."""
    if not meaning.findings:
        return
    full = meaning.kind in FULL
    yield from (
        Line(),
        Line(body=write(page, ("It mostly comes from:" if full else "What goes wrong with it:", "head"))),
    )
    for lead in meaning.findings:
        yield from _lead(lead, page, full=full and lead.id not in told)
        told.add(lead.id)


def _lead(lead: Lead, page: Page, *, full: bool) -> Iterator[Line]:
    yield Line(lead=Text("- "), body=write(page, (lead.id, "command"), f": {lead.title}"), hang=Text("  "))
    if full:
        yield from (Line(lead=Text("  "), body=write(page, paragraph)) for paragraph in lead.says)
