"""Markdown as GitHub reads it: every word of a text escaped, commands in fences that nothing in them can close."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from gpustack.render.page import clean

SIGNS = re.compile(r"([\\`*_\[\]<>&|~$#!{}^=@])")
FIRST = re.compile(r"^([-+:]|[0-9]+(?=[.)]))")
TICKS = re.compile("`+")


def safe(text: object) -> str:
    """Give the text as it may stand within a line of Markdown, in a table too: shown as it is, and harmless."""
    return SIGNS.sub(r"\\\1", " ".join(clean(str(text)).split()))


def line(text: object) -> str:
    """Give the text as it may begin a line: what would make a list of it is escaped too."""
    return FIRST.sub(_held, safe(text))


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


def _held(match: re.Match[str]) -> str:
    first = match[0]
    return f"{first}\\" if first.isdecimal() else f"\\{first}"
