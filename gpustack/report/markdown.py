"""Markdown as GitHub reads it: every word of a text escaped, commands in fences that nothing in them can close.

GitHub makes links of bare addresses, and mentions, references and pictures of @name, #1 and :name:, after Markdown was
read, when no backslash is left. In code it makes none, so a word that could become one is shown as code.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Sequence

from gpustack.report.page import clean

SIGNS = str.maketrans({sign: f"\\{sign}" for sign in r"\`*_[]<>&|~$#!{}^=@"})
FIRST = re.compile(r"^([-+:]|[0-9]+(?=[.)]))")
TICKS = re.compile("`+")
LIVE = re.compile(r"(?i)://|www\.|mailto:|xmpp:|@[\w-]|#\d|gh-\d|:[+a-z_-][\w+-]*:|:(?:100|1234|8ball):")
ADDRESS = re.compile(r"https://[A-Za-z0-9][\w./#?=%&+~-]*\w")
OPENING, CLOSING = "([{<\"'", ")]}>\"'.,;:!?"


def safe(text: object, *, own: str = "") -> str:
    """Return the text as it may stand within a line of Markdown, in a table too: shown as it is, and harmless.

    Web addresses that ``own`` holds, a text of ours such as the source of a row, are links; no other address is.
    """
    links = frozenset(ADDRESS.findall(own))
    return " ".join(_word(word, links) for word in clean(str(text)).split())


def line(text: object, *, own: str = "") -> str:
    """Return the text as it may begin a line: what would make a list of it is escaped too."""
    return FIRST.sub(_held, safe(text, own=own))


def code(text: object) -> str:
    """Give the text as code inside a line; a table takes it too."""
    shown = " ".join(clean(str(text)).split())
    fence = "`" * (max(map(len, TICKS.findall(shown)), default=0) + 1)
    space = " " if shown.startswith("`") or shown.endswith("`") else ""
    return f"{fence}{space}{shown.replace('|', chr(0x2223))}{space}{fence}" if shown else ""


def block(lines: Iterable[str]) -> str:
    """Give commands in a fence, each on a line of its own."""
    shown = [clean(line) for line in lines]
    fence = "`" * max(3, *(len(ticks) + 1 for line in shown for ticks in TICKS.findall(line)), 0)
    return "\n".join([f"{fence}sh", *shown, fence])


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Give a table of cells that are Markdown already."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in lines)


def _word(word: str, links: Container[str]) -> str:
    """Return a word, escaped; as code where GitHub would make more of it, as a link where it is one of ours."""
    if not LIVE.search(word):
        return _escaped(word)
    start = len(word) - len(word.lstrip(OPENING))
    end = max(start, len(word.rstrip(CLOSING)))
    core = word[start:end]
    return f"{_escaped(word[:start])}{f'<{core}>' if core in links else code(core)}{_escaped(word[end:])}"


def _escaped(text: str) -> str:
    return text.translate(SIGNS)


def _held(match: re.Match[str]) -> str:
    first = match[0]
    return f"{first}\\" if first.isdecimal() else f"\\{first}"
