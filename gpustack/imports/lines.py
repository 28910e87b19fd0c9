"""Lines short enough for any expression: a program prints longer ones only where it dumps what nobody reads."""

from __future__ import annotations

import re

LONGEST = 8_000  # characters of a line that are read
HEAD, TAIL = 6_000, 1_990
CUT = " ... "
EMPTY = "\n" * 20  # more empty lines in a row are no more than these


def short(text: str) -> tuple[str, bool]:
    """Return a text with plain ends of lines and without the middle of long ones, and whether there was any."""
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if EMPTY in text:
        text = re.sub(EMPTY + "+", lambda _: EMPTY, text)
    lines = text.split("\n")
    if max(map(len, lines)) <= LONGEST:
        return text, False
    return "\n".join(map(_short, lines)), True


def _short(line: str) -> str:
    return line if len(line) <= LONGEST else f"{line[:HEAD]}{CUT}{line[-TAIL:]}"
