"""The page that is written to: how wide, in which letters and colours, and what is safe to show on it; as HTML too."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from html import escape
from pathlib import Path

COMMAND = re.compile(r"^\s*:(?=:)|#(?=#\[)")
# What shows nothing though Python calls it printable: the rest of Unicode's Default_Ignorable_Code_Point (fillers,
# joiners, variation selectors; DerivedCoreProperties 17.0), and signs whose picture is a blank.
HIDDEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\ufffc"
    "\U00013441\U00013442\U00016fe4\U0001d159\U000e0000-\U000e0fff]"
)
BREAKS = "\x0b\x0c\x1c\x1d\x1e\x1f\x85\u2028\u2029"  # some readers begin a new line at them
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
    """Return the text on one line, with all that could steer a terminal or reorder its letters written as an escape.

    Control characters, escapes, bidirectional marks, half surrogates and what Unicode has not assigned are "not
    printable"; ``HIDDEN`` are the invisible letters among the others. What begins a command to GitHub's runner in a
    log ("::error" at the start, "##[error]") is none any more.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """The form of a text. All that is shown goes through ``show``; a line longer than 120 columns is no pleasure."""

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
        """Return the page for an output of this width, kept within what can be read.

        ``verbose`` is how often ``-v`` was given, ``quiet`` leaves the verdict alone, ``program`` is how the user calls
        gpustack.
        """
        width = min(max(width, LEAST_WIDTH), MOST_WIDTH)
        return cls(
            width=width, colour=colour, ascii_only=ascii, verbose=int(verbose), quiet=quiet, program=program or PROGRAM
        )

    def command(self, text: str) -> str:
        """Return a command on one line, gpustack's own as the user calls it.

        A newline that came in with a name must not become a second command.
        """
        typed = "\\n".join(text.splitlines())
        return f"{self.program}{typed[len(PROGRAM) :]}" if typed.startswith(f"{PROGRAM} ") else typed

    def show(self, text: str) -> str:
        """Return the text as it may be printed here: harmless, on one line, in letters that the output has."""
        shown = clean(text)
        if not self.ascii_only or shown.isascii():
            return shown
        return shown.translate(SPELT).encode("ascii", "backslashreplace").decode()

    def mark(self, name: str) -> str:
        """Return the mark of this name, such as ``ok``."""
        return (ASCII_MARKS if self.ascii_only else MARKS)[name]

    @property
    def narrow(self) -> bool:
        """Whether columns side by side have no room."""
        return self.width < 60  # noqa: PLR2004 - the layer, the status and the shortest useful name need 58


def safe(text: object) -> str:
    """Return the text as it may stand in HTML, between tags or in a quoted attribute: escaped, and harmless to read."""
    return escape(clean(str(text)), quote=True)


def tag(name: str, inside: str, class_: str = "") -> str:
    """Return an element around HTML that is made already."""
    kind = f' class="{class_}"' if class_ else ""
    return f"<{name}{kind}>{inside}</{name}>"


def section(heading: str, inside: str) -> str:
    """Return a part of a page with its heading, or nothing where nothing is in it."""
    return tag("section", tag("h2", heading) + inside) if inside else ""


def bullets(items: Iterable[str], class_: str = "") -> str:
    """Return a list of items that are HTML already, or nothing where there are none."""
    inside = "".join(tag("li", item) for item in items)
    return tag("ul", inside, class_) if inside else ""


def table(names: Iterable[str], rows: Iterable[Iterable[str]], class_: str = "rows") -> str:
    """Return rows of cells that are HTML already under their names."""
    head = "".join(tag("th", safe(name)) for name in names)
    made = "".join(tag("tr", "".join(row)) for row in rows)
    return tag("table", tag("thead", tag("tr", head)) + tag("tbody", made), class_)


def document(title: str, inside: str, *styles: str) -> str:
    """Return a whole page around HTML that is made already, in the styles of ``styles/`` of these names.

    The page loads nothing, and the one script in it, named by its hash, puts a button beside each command to copy it.
    """
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
