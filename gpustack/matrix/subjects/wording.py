"""The wording of messages: texts with placeholders, and expressions, as rows write them, made safe on any input."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# A look-behind; a space, possibly repeated; a set of characters or a single one, repeated without a limit.
_PARTS = re.compile(
    r"(?P<behind>\(\?<[!=][^()]*\))| (?P<space>[?*+]?)"
    r"|(?P<one>\\.|\[\^?(?:\\.|[^\]\\]){1,200}\]|.)(?P<many>[*+]?)",
    re.DOTALL,
)
# How many consecutive characters a row's expression may match if the row sets no limit: words and numbers, a set of
# characters as in a path, anything but some characters.
MOST_SPACE = MOST_OF_WORD = 40
MOST_OF_PATH, MOST_OF_LINE = 120, 400


def _part(found: re.Match[str]) -> str:
    if found["behind"]:
        return found["behind"].replace(" ", r"\s")
    if found["one"] is None:
        return f"\\s{{{0 if found['space'] in {'?', '*'} else 1},{MOST_SPACE}}}"
    if not found["many"]:
        return found[0]
    one = found["one"]
    wide = one.startswith("[^") or one in {".", r"\S"}
    most = MOST_OF_LINE if wide else MOST_OF_PATH if one.startswith("[") else MOST_OF_WORD
    return f"{one}{{{int(found['many'] == '+')},{most}}}"


@cache  # there are more of them than re caches
def compiled(match: str) -> re.Pattern[str]:
    """Return the expression of a row; case is ignored, a space matches any white space, repeats are limited."""
    return re.compile(_PARTS.sub(_part, match), re.IGNORECASE | re.MULTILINE)


# What a placeholder of a text holds, by its kind, as in {driver:release}; {found:CUDA|GPU} is one of these words, {why}
# some text of the line, {...} any text of the line, also none.
KINDS = {
    "number": r"\d+",
    "count": r"[1-9]\d*",  # at least one
    "version": r"\d(?:[\d.]{0,38}\d)?",
    "release": r"\d{3}\.[\d.]{0,8}\d",  # of NVIDIA's driver
    "hex": r"(?:0x)?[\da-f]+",
    "pci": r"[\da-f:.]+[\da-f]",
    "arch": r"(?:sm_|compute_|gfx)\d[\da-f]+",
    "token": r"[^\s\x22\x27`]+",  # anything without a space or quotes
    "word": r"[\w-]+",
    "name": r"\w(?:[\w.+~-]{0,118}\w)?",  # of a package, a kernel, a build, a file
    "file": r"[\w./+@~-]{0,160}\w\.\w{1,12}",  # its name and ending, with or without the path
    "path": r"/(?:[\w./+@=~-]{0,298}\w)?",
    "soname": r"lib[\w+-]+?\.so(?:\.[\d.]{0,18}\d)?",
    "module": r"(?:nvidia[\w-]*|amdgpu|i915|xe)",
}
QUOTES = "'\"`\u2018\u2019\u201c\u201d"
_QUOTED = rf"[\\{QUOTES}]{{0,2}}"  # of any style, also escaped or left out
NEAR = 80  # letters that {...} may be between other words
_SPACED = re.compile(r" ?[:=] | [:=] ?")  # where programs' versions differ in spaces
_PLACES = re.compile(r"\{(\.\.\.|(\w+)(?::([^{}]+))?|:([^{}]+))\}")
_BREAKS = re.compile(rf"\{{(?:\.\.\.|\w*:[^{{}}]+|\w+)\}}|[{QUOTES}]+|{_SPACED.pattern}")  # no word goes beyond


@cache
def expression(texts: tuple[str, ...]) -> str:
    """Return the expression that matches any of these texts, the first one that fits; a repeated name gets a number."""
    names: Counter[str] = Counter()

    def place(found: re.Match[str]) -> str:
        whole, name, kind, alone = found.groups()
        held = _held(kind or alone) if kind or alone else _some(whole == "...", found.string[found.end() :][:1])
        names.update([name] * bool(name))
        return f"(?P<{name}{f'__{names[name]}' * (names[name] > 1)}>{held})" if name else held

    return "|".join(_replaced(text, place) for text in texts)


def _some(none: bool, after: str) -> str:  # noqa: FBT001 - whether it may be nothing
    """Return the expression of some text of a line, given the letter after it: up to there, and at the end all."""
    if after and after in QUOTES:
        return r"[^\n\x22\x27`\u2019\u201d]+"
    least, most = int(not none), NEAR if none and after else MOST_OF_LINE
    return rf"[^\n]{{{least},{most}}}{'?' * bool(after)}"


def _held(kind: str) -> str:
    """Return the expression of a kind, or of a choice of words; raises ValueError for an unknown kind."""
    if kind not in KINDS and "|" not in kind:
        raise ValueError(f"{kind!r} is no kind of placeholder: {', '.join(KINDS)}")
    return KINDS.get(kind) or f"(?:{'|'.join(map(_escaped, kind.split('|')))})"


def _replaced(text: str, place: Callable[[re.Match[str]], str]) -> str:
    """Return a text as an expression, its placeholders replaced."""
    found, end = [], 0
    for one in _PLACES.finditer(text):
        found += [_escaped(text[end : one.start()]), place(one)]
        end = one.end()
    return "".join((*found, _escaped(text[end:])))


def _escaped(text: str) -> str:
    spaced = _SPACED.sub(lambda one: f" *{one[0].strip()} *", re.escape(text).replace("\\ ", " "))
    return re.sub(rf"[{QUOTES}]{{1,2}}", lambda _: _QUOTED, spaced)


EAST_ASIAN = "\u3040"  # from here on, letters have no upper case


def words(texts: Sequence[str]) -> tuple[str, ...]:
    """Return what to search for first: the longest two neighbouring words of each text, in lower case."""
    return tuple(dict.fromkeys(_telling(text.lower()) for text in texts))


def _telling(text: str) -> str:
    best = ""
    for literal in _BREAKS.split(text):
        if len(literal) > len(best) and all(one.isascii() or one >= EAST_ASIAN for one in literal):
            single = literal.split()
            best = max(best, *single, *(f"{one} {other}" for one, other in pairwise(single)), "", key=len)
    return best
