"""Lines of a text: each with its prefix, wrapped to the page, and never broken inside a command.

A finding, or several equivalent ones, becomes such lines: the problem, the evidence, and the fix.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from io import StringIO
from typing import TYPE_CHECKING, Any, Concatenate, Protocol, TypeAlias, TypeVar

from rich.text import Text

from gpustack.model import field, record, replace
from gpustack.model.report import Confidence, Finding, Fix, Severity
from gpustack.report.page import DEFAULT_WIDTH, PROGRAM, Page, clean
from gpustack.report.summary import alike, few, heading, paragraphs, reasons

if TYPE_CHECKING:
    from rich.console import Console

Made = TypeVar("Made")
Made_contra = TypeVar("Made_contra", contravariant=True)
Part: TypeAlias = "str | tuple[str, str] | Text"
LEAST_ROOM = 10
NOBODY: Any = None  # wrapping asks the console only for lines that fill a page's width
CUT = "..."  # at the end of a row without room for everything
LOOKS = ("width", "colour", "ascii", "verbose", "quiet", "program")
MOST_LETTERS = 10_000  # of a wrapped line: a longer one is a dump that nobody reads here; JSON has all of it
STYLES = {
    "error": "bold red",
    "warning": "bold yellow",
    "unknown": "bold magenta",
    "info": "bold",
    "good": "green",
    "head": "bold",
    "dim": "dim",
    "command": "bold cyan",
    "plain": "",
}


@record
class Line:
    """One line before wrapping: ``lead`` precedes its first row, ``hang`` the others.

    A ``whole`` line is not wrapped, so that commands can be copied. A ``short`` line takes one row; the rest is
    dropped.
    """

    body: Text = field(default_factory=Text)
    lead: Text = field(default_factory=Text)
    hang: Text | None = None
    whole: bool = False
    short: bool = False


def write(page: Page, *parts: Part) -> Text:
    """Return a text of these parts, each a string or a string with the name of its style; markup is not interpreted."""
    text = Text()
    for part in parts:
        if isinstance(part, Text):
            text.append(part)
            continue
        said, style = (part, "plain") if isinstance(part, str) else part
        text.append(page.show(said), STYLES[style])
    return text


def say(
    page: Page, *parts: Part, lead: Part = "", hang: Part | None = None, whole: bool = False, short: bool = False
) -> Line:
    """Return the line of these parts (see ``write``), with its prefixes."""
    after = None if hang is None else write(page, hang)
    return Line(body=write(page, *parts), lead=write(page, lead), hang=after, whole=whole, short=short)


def bullets(items: Iterable[str], page: Page) -> Iterator[Line]:
    """Yield a list, a line for each item."""
    yield from (say(page, item, lead="- ") for item in items)


def section(heading: str, inside: Iterator[Line], page: Page) -> Iterator[Line]:
    """Yield a heading and the lines below it, or nothing if there are none."""
    held = list(inside)
    if held:
        yield from (Line(), say(page, (heading, "head")), *held)


def indent(columns: int, lines: Iterable[Line]) -> Iterator[Line]:
    """Yield the lines, moved to the right."""
    for line in lines:
        before = " " * columns
        hang = Text(before).append(line.hang) if line.hang else None
        yield replace(line, lead=Text(before).append(line.lead), hang=hang)


def rows(line: Line, width: int) -> Iterator[Text]:
    """Yield the rows of the line on a page of this width, without trailing spaces."""
    lead, hang = line.lead, line.hang or Text(" " * line.lead.cell_len)
    room = max(width - max(hang.cell_len, lead.cell_len), LEAST_ROOM)
    body = line.body if line.whole or len(line.body) <= MOST_LETTERS else line.body[:MOST_LETTERS].append(" ...")
    if line.short and body.cell_len > room:
        body = body.copy()
        body.truncate(max(room - len(CUT), 1))
        body.rstrip()
        body.append(CUT)
    pieces = [body] if line.whole else list(body.wrap(NOBODY, room)) or [Text()]
    for number, piece in enumerate(pieces):
        row = (hang if number else lead).copy().append(piece)
        row.rstrip()
        yield row if row.plain == clean(row.plain) else Text(clean(row.plain))  # that wrapping moved to the start


def paint(lines: Iterable[Line], page: Page, console: Console) -> None:
    """Print the lines on a console of rich."""
    for line in lines:
        for row in rows(line, page.width):
            console.print(row, no_wrap=True, overflow="ignore", crop=False, soft_wrap=True)


def draw(lines: Iterable[Line], page: Page) -> str:
    """Return the text of the lines, which depends only on the page, not on the environment."""
    if not page.colour:
        return "".join(f"{row.plain}\n" for line in lines for row in rows(line, page.width))
    from rich.console import Console  # noqa: PLC0415 - its import takes a tenth of a start

    console = Console(
        file=StringIO(),
        width=page.width,
        force_terminal=True,
        color_system="standard",
        markup=False,
        emoji=False,
        highlight=False,
        legacy_windows=False,
        _environ={},
    )
    with console.capture() as text:
        paint(lines, page, console)
    return text.get()


class Renderer(Protocol[Made_contra]):
    """Renders a result as text for a page's width, character set and colours."""

    def __call__(
        self,
        made: Made_contra,
        /,
        *,
        width: int = DEFAULT_WIDTH,
        colour: bool = False,
        ascii: bool = False,  # noqa: A002 - what the output can take; nobody needs the built-in here
        verbose: int = 0,
        quiet: bool = False,
        program: str = PROGRAM,
        **example: str | None,
    ) -> str:
        """Return the text; ``example`` is a recorded machine that a diagnosis suggests without a GPU."""


def renderer(lines: Callable[Concatenate[Made, Page, ...], Iterator[Line]]) -> Renderer[Made]:
    """Return the text renderer that uses this function for its lines."""

    def render(made: Made, /, **asked: Any) -> str:  # noqa: ANN401 - Renderer has the types
        page = Page.of(**{name: asked.pop(name) for name in LOOKS if name in asked})
        return draw(lines(made, page, **asked), page)

    return render


FEW = 3
COMMAND_INDENT = 4
MARK = {Severity.ERROR: "bad", Severity.WARNING: "warn", Severity.UNKNOWN: "ask", Severity.INFO: "none"}
WORD = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.UNKNOWN: "not known", Severity.INFO: "note"}


def block(finding: Finding, others: Sequence[Finding], follow: Sequence[Finding], page: Page) -> Iterator[Line]:
    """Yield a finding in full: its title, the facts, the fix, other affected instances, and consequences."""
    yield title(finding, page)
    yield from indent(2, _full(finding, others, follow, page))


def title(finding: Finding, page: Page) -> Line:
    """Return the line with the problem, its mark and word."""
    sure = "" if finding.confidence is Confidence.CERTAIN else f" ({finding.confidence.value})"
    said = f"{page.mark(MARK[finding.severity])} {WORD[finding.severity]}{sure}: "
    return say(page, (said, finding.severity.value), (finding.title, "head"), hang="  ")


def _full(finding: Finding, others: Sequence[Finding], follow: Sequence[Finding], page: Page) -> Iterator[Line]:
    place = f"{finding.key}, in the {finding.layer.value} layer ({finding.component})"
    yield say(page, (place, "dim"))
    for paragraph in paragraphs(finding):
        yield say(page, paragraph)
    if others:
        yield from _list("The same holds for:", _others(others), page)
    if finding.because or finding.row:
        yield from _list("How we know:", reasons(finding, strengths=page.verbose > 1), page)
    if finding.fix:
        yield Line()
        yield from fix(finding.fix, page)
    if follow:
        said = []
        for first, more in alike(follow):
            often = f" (and {len(more)} more like it)" if more else ""
            said.append(f"{first.title}{often}" + (f" [{first.key}]" if page.verbose else ""))
        yield from _list("What follows from it:", said, page)


def fix(wanted: Fix, page: Page) -> Iterator[Line]:
    """Yield what to do: a sentence, the commands on separate lines, and the command that checks the result."""
    yield say(page, (heading(wanted), "head"), f" {wanted.text}")
    yield from commands(wanted.commands, page)
    if wanted.verify:
        yield say(page, ("Check:", "head"))
        yield from commands((wanted.verify,), page)


def commands(typed: Iterable[str], page: Page) -> Iterator[Line]:
    """Yield each command, unbroken, on its own line."""
    for command in typed:
        yield say(page, (page.command(command), "command"), lead=" " * COMMAND_INDENT, whole=True)


def _list(heading: str, items: Iterable[str], page: Page) -> Iterator[Line]:
    yield from (Line(), say(page, (heading, "head")), *bullets(items, page))


def _others(findings: Sequence[Finding]) -> list[str]:
    """Return a few findings by title, or many by the affected instances."""
    if len(findings) <= FEW:
        return [one.title for one in findings]
    return [few((one.instance or one.title for one in findings), len(findings))]
