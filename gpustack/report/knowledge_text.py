"""What is known, in words: what something means, whether a combination works, and the tables of the matrix."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from rich.text import Text

from gpustack.model.matrix_answer import Change, Compatibility, Kind, MatrixAnswer, MatrixTables
from gpustack.report.lines import Line, indent, renderer, write

if TYPE_CHECKING:
    from gpustack.model.matrix_answer import Alternative, Explanation, MatrixPart, MatrixUpdate, Meaning, Reason
    from gpustack.report.page import Page

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
CITED = ("row_source", "row_checked")
COMMANDS_OF = "To see it here:"
MARKS = {
    Compatibility.COMPATIBLE: ("ok", "good"),
    Compatibility.LIMITED: ("warn", "warning"),
    Compatibility.INCOMPATIBLE: ("bad", "error"),
    Compatibility.UNKNOWN: ("ask", "unknown"),
}
SAYS = {
    Compatibility.COMPATIBLE: "works",
    Compatibility.LIMITED: "works within limits",
    Compatibility.INCOMPATIBLE: "does not work",
    Compatibility.UNKNOWN: "cannot be judged",
}
EXPRESSIONS = frozenset({"match", "has", "values"})  # how a message is recognised, which is for machines
GAP = 2
FOLDS = 3  # a column may be wrapped into so many lines


def _text(explanation: Explanation, page: Page) -> Iterator[Line]:
    told: set[str] = {one.id for one in explanation.meanings if one.kind is Kind.FINDING}
    for number, meaning in enumerate(explanation.meanings):
        if number:
            yield Line()
        layer = f", {meaning.layer.value} layer" if meaning.layer and meaning.kind is not Kind.LAYER else ""
        yield Line(body=write(page, (meaning.id, "head"), (f": {KINDS[meaning.kind]}{layer}", "dim")), hang=Text("  "))
        yield from indent(2, _body(meaning, told, page))
    if not explanation.known:
        yield from _nothing(explanation, page)
    elif explanation.missing:
        yield Line()
        yield Line(body=write(page, (f"Not known here: {', '.join(explanation.missing)}.", "dim")))


def _nothing(explanation: Explanation, page: Page) -> Iterator[Line]:
    what = ", ".join(explanation.missing) or explanation.words or "nothing"
    yield Line(body=write(page, (f"Nothing is known about: {what}", "head")))
    if explanation.near:
        yield Line(body=write(page, f"Did you mean: {', '.join(explanation.near)}?"))
    yield Line(
        body=write(
            page, ("Ask about a finding, a number, an error line, a component, a layer or a term of the stack.", "dim")
        )
    )


def _body(meaning: Meaning, told: set[str], page: Page) -> Iterator[Line]:
    yield Line(body=write(page, meaning.title))
    for paragraph in meaning.says:
        yield from (Line(), Line(body=write(page, paragraph)))
    rows = [*_rows(meaning, page)]
    if rows:
        yield from (Line(), *rows)
    yield from _commands("To fix it:", meaning.commands, page)
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
    yield from _row("Is about" if meaning.kind is Kind.FINDING else "Depends on", _names(meaning.stands_on, page), page)
    yield from _row("Used by", _names(meaning.carries, page), page)
    yield from _row("In it", _names(meaning.holds, page), page)


def _row(label: str, text: str | None, page: Page) -> Iterator[Line]:
    """Yield a label and what stands beside it, or after it where the page is narrow."""
    if text and page.narrow:
        yield Line(body=write(page, (f"{label}: ", "head"), text), hang=Text("  "))
    elif text:
        yield Line(lead=write(page, (f"{label:<{LABEL}}", "head")), body=write(page, text), hang=Text(" " * LABEL))


def _names(names: Iterable[str], page: Page) -> str:
    """Return names in a row; many are cut short unless all are asked for."""
    held = tuple(names)
    most = len(held) if page.verbose or len(held) <= MANY + 1 else MANY
    more = f", and {len(held) - most} more" if len(held) > most else ""
    return ", ".join(held[:most]) + more


def _findings(meaning: Meaning, told: set[str], page: Page) -> Iterator[Line]:
    """Yield what it leads to: in full under a number or a message, each once; else by title."""
    if not meaning.findings:
        return
    full = meaning.kind in FULL
    yield from (
        Line(),
        Line(body=write(page, ("It is usually caused by:" if full else "What goes wrong with it:", "head"))),
    )
    for lead in meaning.findings:
        yield Line(lead=Text("- "), body=write(page, (lead.id, "command"), f": {lead.title}"), hang=Text("  "))
        if full and lead.id not in told:
            yield from (Line(lead=Text("  "), body=write(page, paragraph)) for paragraph in lead.says)
        told.add(lead.id)


def render_csv(tables: MatrixTables) -> str:
    """Return tables as CSV: a line for each row, the columns of all parts beside one another, then where it is from."""
    import csv  # noqa: PLC0415 - asked for seldom
    import io  # noqa: PLC0415

    out, columns = io.StringIO(), tuple(dict.fromkeys(column for part in tables.parts for column in part.columns))
    writer = csv.DictWriter(out, ("table", *columns, *CITED), restval="", lineterminator="\n")
    writer.writeheader()
    for part in tables.parts:
        for row, source, checked in zip(part.rows, part.sources, part.checked, strict=True):
            said = dict(zip(part.columns, row, strict=True))
            writer.writerow(
                {"table": f"{part.table}.{part.part}", **said, "row_source": source, "row_checked": checked}
            )
    return out.getvalue().rstrip("\n")


def _matrix(answer: MatrixAnswer | MatrixTables | MatrixUpdate, page: Page) -> Iterator[Line]:
    """Return the lines of an answer, of the tables of a component, or of what the index says otherwise."""
    if isinstance(answer, MatrixAnswer):
        return _answer(answer, page)
    return _tables(answer, page) if isinstance(answer, MatrixTables) else _update(answer, page)


def _answer(answer: MatrixAnswer, page: Page) -> Iterator[Line]:
    mark, style = MARKS[answer.verdict]
    with_ = f" with {', '.join(answer.given)}" if answer.given else ""
    said = write(page, (answer.subject, "head"), " ", (SAYS[answer.verdict], style), with_)
    yield Line(lead=write(page, (page.mark(mark), style), " "), body=said)
    yield Line(lead=Text("  "), body=write(page, (answer.meant, "dim")))
    yield Line()
    told: set[str] = set()
    for reason in answer.reasons:
        yield from _reason(reason, told, page)
    if answer.alternatives:
        instead = answer.alternatives[0].kind is not Change.NONE
        head = "What would work instead, the smallest change first:" if instead else "What to do:"
        yield from (Line(), Line(body=write(page, (head, "head"))))
        places = ["", *(one.not_first or one.keeps for one in answer.alternatives)]
        for number, one in enumerate(answer.alternatives, 1):
            yield from _alternative(number, one, page, places[number] * (places[number] != places[number - 1]))
    elif answer.verdict is Compatibility.INCOMPATIBLE:
        yield from (Line(), Line(body=write(page, ("No change is known that would make it work.", "dim"))))
    yield from (Line(), Line(body=write(page, ("Not taken:", "head")))) if answer.not_taken else ()
    for out in answer.not_taken:
        yield Line(lead=Text("- "), body=write(page, (out.because, "dim")), hang=Text("  "))


def _reason(reason: Reason, told: set[str], page: Page) -> Iterator[Line]:
    """Yield one reason and, once, the row that it rests on."""
    mark, style = MARKS[reason.verdict]
    yield Line(lead=write(page, (page.mark(mark), style), " "), body=write(page, reason.text))
    if (row := reason.row) and row.text not in told:
        told.add(row.text)
        checked = f", checked {row.checked}" if page.verbose else ""
        yield Line(lead=Text("  "), body=write(page, (f"{row.text} ({row.source}{checked})", "dim")))


def _alternative(number: int, one: Alternative, page: Page, place: str) -> Iterator[Line]:
    limits, lead = " (with limits)" * (one.verdict is Compatibility.LIMITED), f"{number:>2}. "
    yield Line(lead=write(page, lead), body=write(page, (one.subject, "head"), f": {one.change}", (limits, "warning")))
    for command in one.commands:
        yield Line(lead=Text(" " * (len(lead) + GAP)), body=write(page, (command, "command")), whole=True)
    needs = f"Needs root{' and a restart' * one.needs_reboot}." * one.needs_root
    if more := " ".join(filter(None, (place, needs, one.steps))):
        yield Line(lead=Text(" " * len(lead)), body=write(page, (more, "dim")))


def _tables(tables: MatrixTables, page: Page) -> Iterator[Line]:
    for number, part in enumerate(tables.parts):
        if number:
            yield Line()
        count = f"{len(part.rows) + part.left} row{'s' * (len(part.rows) + part.left != 1)}"
        count += ", the newest first" * bool(part.left)
        yield Line(body=write(page, (f"{part.table}.{part.part}", "head"), (f"  {count}", "dim")))
        if part.about:
            yield Line(lead=Text("  "), body=write(page, (part.about, "dim")))
        fits = sum(_widths(part)) + GAP * len(part.columns) + GAP <= page.width
        yield from _grid(part, page) if fits else _list(part, page)
        yield from _sources(part, page)
    yield Line()
    end = "-v shows the source of every row; --format json has everything."
    end = "--all shows every row." if any(part.left for part in tables.parts) else end
    end = f"--all shows the rest: {', '.join(tables.left)}." if tables.left else end
    yield Line(body=write(page, (end, "dim")))


def _widths(part: MatrixPart) -> list[int]:
    return [max(map(len, (name, *(row[place] for row in part.rows)))) for place, name in enumerate(part.columns)]


def _grid(part: MatrixPart, page: Page) -> Iterator[Line]:
    """Yield a part as columns."""
    widths = _widths(part)
    yield Line(lead=Text(" " * GAP), body=write(page, (_matrix_row(part.columns, widths), "dim")), whole=True)
    for row in part.rows:
        first, rest = row[0].ljust(widths[0]), _matrix_row(row[1:], widths[1:])
        said = write(page, (first, "head"), f"{' ' * GAP}{rest}".rstrip())
        yield Line(lead=Text(" " * GAP), body=said, whole=True)


def _matrix_row(values: tuple[str, ...], widths: list[int]) -> str:
    return (" " * GAP).join(value.ljust(width) for value, width in zip(values, widths, strict=True)).rstrip()


def _list(part: MatrixPart, page: Page) -> Iterator[Line]:
    """Yield a part as one paragraph a row: what it is of, then each column by its name."""
    indent = min(max((len(row[0]) for row in part.rows), default=0), page.width // FOLDS)
    for row in part.rows:
        lead = write(page, " " * GAP, (row[0].ljust(indent), "head"), " " * GAP)
        pairs = zip(part.columns[1:], row[1:], strict=True)
        told = [(name, value) for name, value in pairs if value and (page.verbose or name not in EXPRESSIONS)]
        parts: list[str | tuple[str, str]] = []
        for name, value in told:
            parts += [*([("  ", "plain")] if parts else []), (f"{name} ", "dim"), value]
        if len(row[0]) > indent:
            yield Line(lead=Text(" " * GAP), body=write(page, (row[0], "head")))
            lead = Text(" " * (2 * GAP))
        yield Line(lead=lead, body=write(page, *parts))


def _sources(part: MatrixPart, page: Page) -> Iterator[Line]:
    """Yield the sources: each with its rows where all is asked for, else how many there are and when they were read."""
    if not page.verbose:
        days = sorted(set(part.checked))
        number = len(set(part.sources))
        said = f"{number} source{'s' * (number != 1)}, checked {days[-1]}"
        yield Line(lead=Text(" " * GAP), body=write(page, (said, "dim")))
        return
    for source in dict.fromkeys(part.sources):
        rows = [row[0] for row, one in zip(part.rows, part.sources, strict=True) if one == source]
        named = ", ".join(rows[:FOLDS]) + (f" and {len(rows) - FOLDS} more" if len(rows) > FOLDS else "")
        yield Line(lead=Text(" " * GAP), body=write(page, (f"{named}: {source}", "dim")), hang=Text(" " * (2 * GAP)))


def _update(update: MatrixUpdate, page: Page) -> Iterator[Line]:
    """Yield what the index tells otherwise, or which data is used now."""
    if update.data:
        yield Line(body=write(page, ("Data used now: ", "head"), f"{update.data}, {update.same} tables of releases."))
        return
    number, asked = len(update.changes), ", ".join(update.asked)
    head = f"{number} row{'s' * (number != 1)} differ" if number else "None of the rows that were read differs"
    yield Line(body=write(page, (head, "head"), f" from the package index ({asked}); {update.same} agree."))
    for one in update.changes:
        yield Line()
        new = (" (new)" * (one.was is None), "warning")
        yield Line(body=write(page, (f"{one.table}.{one.part} {one.key}", "head"), new))
        if one.was is not None:
            yield Line(lead=write(page, ("  - ", "error")), body=write(page, one.was))
        yield Line(lead=write(page, ("  + ", "good")), body=write(page, one.now))
    for name in update.unread:
        yield Line(lead=write(page, (page.mark("ask"), "unknown"), " "), body=write(page, name))


render_explanation = renderer(_text)
render_matrix = renderer(_matrix)
