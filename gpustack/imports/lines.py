"""Lines short enough for any expression: a program prints longer ones only where it dumps what nobody reads."""

from __future__ import annotations

LONGEST = 8_000  # characters of a line that are read
HEAD, TAIL = 6_000, 1_990
CUT = " ... "


def short(text: str) -> tuple[str, bool]:
    """Return a text without the middle of its long lines, and whether there was any."""
    if len(text) <= LONGEST:
        return text, False
    lines = text.replace("\r", "\n").split("\n") if "\r" in text else text.split("\n")
    if max(map(len, lines)) <= LONGEST:
        return text, False
    return "\n".join(map(_short, lines)), True


def _short(line: str) -> str:
    return line if len(line) <= LONGEST else f"{line[:HEAD]}{CUT}{line[-TAIL:]}"
