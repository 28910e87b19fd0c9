"""Knowledge as text: what something means, whether a combination works, and the tables of the matrix."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from rich.text import Text

from gpustack.model.matrix_answer import Change, Compatibility, Kind, MatrixAnswer, MatrixTables
from gpustack.report.lines import Line, indent, renderer, say, write

if TYPE_CHECKING:
    from gpustack.model.matrix_answer import Alternative, Explanation, MatrixPart, MatrixUpdate, Meaning, Reason
    from gpustack.report.page import Page

KINDS = {
    Kind.FINDING: "a gpustack finding",
    Kind.CODE: "a number",
    Kind.MESSAGE: "a message",
    Kind.SYSTEM: "a component of the stack",
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
FOLDS = 3  # a column may be wrapped into this many lines


def _text(explanation: Explanation, page: Page) -> Iterator[Line]:
    told: set[str] = {one.id for one in explanation.meanings if one.kind is Kind.FINDING}
    for number, meaning in enumerate(explanation.meanings):
        if number:
            yield Line()
        layer = f", {meaning.layer.value} layer" if meaning.layer and meaning.kind is not Kind.LAYER else ""
        owner, own, _ = meaning.id.partition("/")
        kind = f"a finding of the plugin {owner}" if own and meaning.kind is Kind.FINDING else KINDS[meaning.kind]
        yield say(page, (meaning.id, "head"), (f": {kind}{layer}", "dim"), hang="  ")
        yield from indent(2, _body(meaning, told, page))
    if not explanation.known:
        what = ", ".join(explanation.missing) or explanation.words or "nothing"
        yield say(page, (f"Nothing is known about: {what}", "head"))
        if explanation.near:
            yield say(page, f"Did you mean: {', '.join(explanation.near)}?")
        yield say(
            page, ("Ask about a finding, a number, an error line, a component, a layer or a term of the stack.", "dim")
        )
    elif explanation.missing:
        yield Line()
        yield say(page, (f"Not known here: {', '.join(explanation.missing)}.", "dim"))


def _body(meaning: Meaning, told: set[str], page: Page) -> Iterator[Line]:
    yield say(page, meaning.title)
    for paragraph in meaning.says:
        yield from (Line(), say(page, paragraph))
    rows = [*_rows(meaning, page)]
    if rows:
        yield from (Line(), *rows)
    yield from _commands("To fix it:", meaning.commands, page)
    yield from _findings(meaning, told, page)
    yield from _commands(COMMANDS_OF, meaning.see, page)
    if meaning.row:
        row = meaning.row
        yield from (Line(), say(page, (f"Source: {row.source} (checked {row.checked})", "dim")))


def _commands(head: str, commands: Iterable[str], page: Page) -> Iterator[Line]:
    if held := tuple(commands):
        yield from (Line(), say(page, (head, "head")))
        yield from (say(page, (one, "command"), lead="  ", whole=True) for one in held)


def _rows(meaning: Meaning, page: Page) -> Iterator[Line]:
    yield from _row("Behind it", meaning.cause, page)
    yield from _row("What to do", meaning.fix, page)
    yield from _row("Is about" if meaning.kind is Kind.FINDING else "Depends on", _names(meaning.stands_on, page), page)
    yield from _row("Used by", _names(meaning.carries, page), page)
    yield from _row("In it", _names(meaning.holds, page), page)


def _row(label: str, text: str | None, page: Page) -> Iterator[Line]:
    """Yield a label with its text beside it, or below it on a narrow page."""
    if text and page.narrow:
        yield say(page, (f"{label}: ", "head"), text, hang="  ")
    elif text:
        yield say(page, text, lead=(f"{label:<{LABEL}}", "head"), hang=" " * LABEL)


def _names(names: Iterable[str], page: Page) -> str:
    """Return names in a row; a long list is cut short unless all are requested."""
    held = tuple(names)
    most = len(held) if page.verbose or len(held) <= MANY + 1 else MANY
    more = f", and {len(held) - most} more" if len(held) > most else ""
    return ", ".join(held[:most]) + more


def _findings(meaning: Meaning, told: set[str], page: Page) -> Iterator[Line]:
    """Yield the related findings: once in full below a number or a message, else by title."""
    if not meaning.findings:
        return
    full = meaning.kind in FULL
    yield from (Line(), say(page, ("It is usually caused by:" if full else "What can go wrong with it:", "head")))
    for lead in meaning.findings:
        yield say(page, (lead.id, "command"), f": {lead.title}", lead="- ", hang="  ")
        if full and lead.id not in told:
            yield from (say(page, paragraph, lead="  ") for paragraph in lead.says)
        told.add(lead.id)


def render_csv(tables: MatrixTables) -> str:
    """Return tables as CSV: a line for each row, with the columns of all parts side by side, then the source."""
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
    """Return the lines of an answer, of a component's tables, or of differences from the index."""
    if isinstance(answer, MatrixAnswer):
        return _answer(answer, page)
    return _tables(answer, page) if isinstance(answer, MatrixTables) else _update(answer, page)


def _answer(answer: MatrixAnswer, page: Page) -> Iterator[Line]:
    mark, style = MARKS[answer.verdict]
    with_ = f" with {', '.join(answer.given)}" if answer.given else ""
    said = write(page, (answer.subject, "head"), " ", (SAYS[answer.verdict], style), with_)
    yield Line(lead=write(page, (page.mark(mark), style), " "), body=said)
    yield say(page, (answer.meant, "dim"), lead="  ")
    yield Line()
    told: set[str] = set()
    for reason in answer.reasons:
        yield from _reason(reason, told, page)
    if answer.alternatives:
        instead = answer.alternatives[0].kind is not Change.NONE
        head = "What would work instead, smallest change first:" if instead else "What to do:"
        yield from (Line(), say(page, (head, "head")))
        places = ["", *(one.not_first or one.keeps for one in answer.alternatives)]
        for number, one in enumerate(answer.alternatives, 1):
            yield from _alternative(number, one, page, places[number] * (places[number] != places[number - 1]))
    elif answer.verdict is Compatibility.INCOMPATIBLE:
        yield from (Line(), say(page, ("No change is known that would make it work.", "dim")))
    yield from (Line(), say(page, ("Not taken:", "head"))) if answer.not_taken else ()
    for out in answer.not_taken:
        yield say(page, (out.because, "dim"), lead="- ", hang="  ")


def _reason(reason: Reason, told: set[str], page: Page) -> Iterator[Line]:
    """Yield one reason and, once, its row."""
    mark, style = MARKS[reason.verdict]
    yield say(page, reason.text, lead=write(page, (page.mark(mark), style), " "))
    if (row := reason.row) and row.text not in told:
        told.add(row.text)
        checked = f", checked {row.checked}" if page.verbose else ""
        yield say(page, (f"{row.text} ({row.source}{checked})", "dim"), lead="  ")


def _alternative(number: int, one: Alternative, page: Page, place: str) -> Iterator[Line]:
    limits, lead = " (with limits)" * (one.verdict is Compatibility.LIMITED), f"{number:>2}. "
    yield say(page, (one.subject, "head"), f": {one.change}", (limits, "warning"), lead=lead)
    for command in one.commands:
        yield say(page, (command, "command"), lead=" " * (len(lead) + GAP), whole=True)
    needs = f"Needs root{' and a restart' * one.needs_reboot}." * one.needs_root
    if more := " ".join(filter(None, (place, needs, one.steps))):
        yield say(page, (more, "dim"), lead=" " * len(lead))


def _tables(tables: MatrixTables, page: Page) -> Iterator[Line]:
    for number, part in enumerate(tables.parts):
        if number:
            yield Line()
        count = f"{len(part.rows) + part.left} row{'s' * (len(part.rows) + part.left != 1)}"
        count += ", newest first" * bool(part.left)
        yield say(page, (f"{part.table}.{part.part}", "head"), (f"  {count}", "dim"))
        if part.about:
            yield say(page, (part.about, "dim"), lead="  ")
        fits = sum(_widths(part)) + GAP * len(part.columns) + GAP <= page.width
        yield from _grid(part, page) if fits else _list(part, page)
        yield from _sources(part, page)
    yield Line()
    end = "-v shows the source of every row; --format json has everything."
    end = "--all shows every row." if any(part.left for part in tables.parts) else end
    end = f"--all shows the rest: {', '.join(tables.left)}." if tables.left else end
    yield say(page, (end, "dim"))


def _widths(part: MatrixPart) -> list[int]:
    return [max(map(len, (name, *(row[place] for row in part.rows)))) for place, name in enumerate(part.columns)]


def _grid(part: MatrixPart, page: Page) -> Iterator[Line]:
    """Yield a part as columns."""
    widths = _widths(part)
    yield say(page, (_matrix_row(part.columns, widths), "dim"), lead=" " * GAP, whole=True)
    for row in part.rows:
        first, rest = row[0].ljust(widths[0]), _matrix_row(row[1:], widths[1:])
        said = write(page, (first, "head"), f"{' ' * GAP}{rest}".rstrip())
        yield Line(lead=Text(" " * GAP), body=said, whole=True)


def _matrix_row(values: tuple[str, ...], widths: list[int]) -> str:
    return (" " * GAP).join(value.ljust(width) for value, width in zip(values, widths, strict=True)).rstrip()


def _list(part: MatrixPart, page: Page) -> Iterator[Line]:
    """Yield a part as one paragraph per row: its subject, then each column by name."""
    indent = min(max((len(row[0]) for row in part.rows), default=0), page.width // FOLDS)
    for row in part.rows:
        lead = write(page, " " * GAP, (row[0].ljust(indent), "head"), " " * GAP)
        pairs = zip(part.columns[1:], row[1:], strict=True)
        told = [(name, value) for name, value in pairs if value and (page.verbose or name not in EXPRESSIONS)]
        parts: list[str | tuple[str, str]] = []
        for name, value in told:
            parts += [*([("  ", "plain")] if parts else []), (f"{name} ", "dim"), value]
        if len(row[0]) > indent:
            yield say(page, (row[0], "head"), lead=" " * GAP)
            lead = Text(" " * (2 * GAP))
        yield say(page, *parts, lead=lead)


def _sources(part: MatrixPart, page: Page) -> Iterator[Line]:
    """Yield the sources: each with its rows if all are requested, else their number and when they were read."""
    if not page.verbose:
        days = sorted(set(part.checked))
        number = len(set(part.sources))
        said = f"{number} source{'s' * (number != 1)}, checked {days[-1]}"
        yield say(page, (said, "dim"), lead=" " * GAP)
        return
    for source in dict.fromkeys(part.sources):
        rows = [row[0] for row, one in zip(part.rows, part.sources, strict=True) if one == source]
        named = ", ".join(rows[:FOLDS]) + (f" and {len(rows) - FOLDS} more" if len(rows) > FOLDS else "")
        yield say(page, (f"{named}: {source}", "dim"), lead=" " * GAP, hang=" " * (2 * GAP))


def _update(update: MatrixUpdate, page: Page) -> Iterator[Line]:
    """Yield what differs from the index, or which data is used now."""
    if update.data:
        yield say(page, ("Data used now: ", "head"), f"{update.data}, {update.same} tables of releases.")
        return
    number, asked = len(update.changes), ", ".join(update.asked)
    head = f"{number} row{'s' * (number != 1)} differ" if number else "None of the rows that were compared differs"
    yield say(page, (head, "head"), f" from the package index ({asked}); {update.same} agree.")
    for one in update.changes:
        yield Line()
        new = (" (new)" * (one.was is None), "warning")
        yield say(page, (f"{one.table}.{one.part} {one.key}", "head"), new)
        if one.was is not None:
            yield say(page, one.was, lead=("  - ", "error"))
        yield say(page, one.now, lead=("  + ", "good"))
    for name in update.unread:
        yield say(page, name, lead=write(page, (page.mark("ask"), "unknown"), " "))


render_explanation = renderer(_text)
render_matrix = renderer(_matrix)
