"""The output page: its width, character set and colours, and what is safe to show on it; also as HTML."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime, timezone
from pathlib import Path

from gpustack.model import record

COMMAND = re.compile(r"^\s*:(?=:)|#(?=#\[)")
# Invisible characters that Python calls printable: the rest of Unicode's Default_Ignorable_Code_Point (fillers,
# joiners, variation selectors; DerivedCoreProperties 17.0), and characters with a blank glyph.
HIDDEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\ufffc"
    "\U00013441\U00013442\U00016fe4\U0001d159\U000e0000-\U000e0fff]"
)
BREAKS = "\x0b\x0c\x1c\x1d\x1e\x1f\x85\u2028\u2029"  # some readers start a new line at them
DEFAULT_WIDTH = 80
LEAST_WIDTH = 20
MOST_WIDTH = 120
PROGRAM = "gpustack"
MARKS: Mapping[str, str] = dict(
    zip(("ok", "bad", "warn", "ask", "none", "bar", "full", "rest"), "✓✗!?·│━─", strict=True)
)
ASCII_MARKS: Mapping[str, str] = dict(zip(MARKS, "+x!?-|#.", strict=True))
TIMES = "\N{MULTIPLICATION SIGN}"
SPELT = str.maketrans(
    {
        **dict(zip("≥≤≠→←↔…±≈", (">=", "<=", "!=", "->", "<-", "<->", "...", "+-", "~"), strict=True)),
        "µ": "u",
        "°": "deg ",
        **dict.fromkeys("·\u2010\u2011\u2012\u2013\u2014\u2212", "-"),  # hyphens, dashes, minus
        **dict.fromkeys("\u2018\u2019\u201a", "'"),
        **dict.fromkeys("\u201c\u201d\u201e", '"'),
        TIMES: "x",
        **{MARKS[name]: ASCII_MARKS[name] for name in MARKS},
    }
)


def clean(text: str) -> str:
    """Return the text on one line, with everything that could control a terminal or reorder its letters escaped.

    Control characters, escapes, bidirectional marks, half surrogates and what Unicode has not assigned are "not
    printable"; ``HIDDEN`` are the invisible letters among the others. The start of a command to GitHub's runner in a
    log ("::error" at the start, "##[error]") is broken up.
    """
    plain = text.isprintable() and not HIDDEN.search(text)
    shown = text if plain else text.translate({ord(one): _harmless(one) for one in set(text)})
    return COMMAND.sub(_spelt, shown) if ":" in shown or "#" in shown else shown


def _spelt(begins: re.Match[str]) -> str:
    return begins[0][:-1] + f"\\x{ord(begins[0][-1]):02x}"


def _harmless(letter: str) -> str:
    if letter.isprintable() and not HIDDEN.match(letter):
        return letter
    return " " if letter.isspace() and letter not in BREAKS else letter.encode("unicode_escape").decode()


@record
class Page:
    """The format of a text. Everything shown passes through ``show``; lines stay within 120 columns."""

    width: int = DEFAULT_WIDTH
    colour: bool = False
    ascii_only: bool = False
    verbose: int = 0
    quiet: bool = False
    program: str = PROGRAM

    @classmethod
    def of(
        cls,
        width: int = DEFAULT_WIDTH,
        *,
        colour: bool = False,
        ascii: bool = False,  # noqa: A002 - as the option is called
        verbose: int = 0,
        quiet: bool = False,
        program: str = PROGRAM,
    ) -> Page:
        """Return the page for an output of this width, kept within readable limits.

        ``verbose`` counts ``-v``, ``quiet`` shows only the verdict, ``program`` is how the user calls gpustack.
        """
        width = min(max(width, LEAST_WIDTH), MOST_WIDTH)
        return cls(
            width=width, colour=colour, ascii_only=ascii, verbose=int(verbose), quiet=quiet, program=program or PROGRAM
        )

    def command(self, text: str) -> str:
        """Return a command on one line, with gpustack called as the user calls it.

        A newline inside a name must not start a second command.
        """
        typed = "\\n".join(text.splitlines())
        return f"{self.program}{typed[len(PROGRAM) :]}" if typed.startswith(f"{PROGRAM} ") else typed

    def show(self, text: str) -> str:
        """Return the text in a printable form: harmless, on one line, in the output's character set."""
        shown = clean(text)
        if not self.ascii_only or shown.isascii():
            return shown
        return shown.translate(SPELT).encode("ascii", "backslashreplace").decode()

    def mark(self, name: str) -> str:
        """Return the mark of this name, such as ``ok``."""
        return (ASCII_MARKS if self.ascii_only else MARKS)[name]

    @property
    def narrow(self) -> bool:
        """Whether the page is too narrow for columns."""
        return self.width < 60  # noqa: PLR2004 - the layer, the status and the shortest useful name need 58


def when(taken: str) -> datetime | None:
    """Return the moment that a report names, in universal time; None if it names none."""
    try:
        moment = datetime.fromisoformat(taken.replace("Z", "+00:00"))
    except ValueError:
        return None
    return moment.astimezone(timezone.utc) if moment.tzinfo else moment.replace(tzinfo=timezone.utc)


def recorded(taken: str) -> str:
    """Return when a report was recorded, as people write it."""
    moment = when(taken)
    return f"recorded {moment:%Y-%m-%d %H:%M} UTC" if moment else f"recorded {taken}" if taken else ""


def safe(text: object) -> str:
    """Return the text for HTML, between tags or in a quoted attribute: escaped and harmless."""
    from html import escape  # noqa: PLC0415 - only a page of HTML needs it

    return escape(clean(str(text)), quote=True)


def tag(name: str, inside: str, class_: str = "") -> str:
    """Return an element around existing HTML."""
    kind = f' class="{class_}"' if class_ else ""
    return f"<{name}{kind}>{inside}</{name}>"


def section(heading: str, inside: str) -> str:
    """Return a section of a page with its heading, or nothing if it is empty."""
    return tag("section", tag("h2", heading) + inside) if inside else ""


def bullets(items: Iterable[str], class_: str = "") -> str:
    """Return a list of HTML items, or nothing if there are none."""
    inside = "".join(tag("li", item) for item in items)
    return tag("ul", inside, class_) if inside else ""


def table(names: Iterable[str], rows: Iterable[Iterable[str]], class_: str = "rows") -> str:
    """Return rows of HTML cells below their column names."""
    head = "".join(tag("th", safe(name)) for name in names)
    made = "".join(tag("tr", "".join(row)) for row in rows)
    return tag("table", tag("thead", tag("tr", head)) + tag("tbody", made), class_)


def document(title: str, inside: str, *styles: str) -> str:
    """Return a complete page around existing HTML, with the named styles from ``styles/``.

    The page loads nothing; its only script, allowed by its hash, adds a copy button to each command.
    """
    from base64 import b64encode  # noqa: PLC0415 - the same
    from hashlib import sha256  # noqa: PLC0415

    folder = Path(__file__).with_name("styles")
    style = "".join(f"\n{folder.joinpath(f'{one}.css').read_text('utf-8')}" for one in ("page", *styles))
    script = folder.joinpath("copy.js").read_text("utf-8")
    known = b64encode(sha256(script.encode()).digest()).decode()
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
        f"img-src data:; script-src 'sha256-{known}'\">"
        f"<title>{safe(title)}</title><style>{style}</style>"
    )
    return (
        f'<!doctype html>\n<html lang="en"><head>{head}</head>\n'
        f"<body><main>\n{inside}\n</main><script>{script}</script></body></html>\n"
    )
