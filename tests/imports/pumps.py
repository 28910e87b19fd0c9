"""Texts on which a regular expression may take too long, made from the expression itself.

A pump is a piece that is repeated: what a long repeat matches, after what comes before it, or both again and again;
and plain letters. A text ends with a letter that nothing expects, so that every way through the expression is tried.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

if sys.version_info >= (3, 11):
    from re import _constants as codes
    from re import _parser as parser
else:
    import sre_constants as codes
    import sre_parse as parser

MANY = 24  # a repeat of this many or more is worth a pump
LETTERS = " \ta0\n/:=-,._A(\"'x~>|{<\\[#$%@;*!?+1e\x1b\u0301\u4e2d"
PLAIN = ' \ta0\n/:=-,.[("'
FEW = 2  # how many letters of a repeat to use, in a short run
BAD = "\x01"
ONE = frozenset({codes.LITERAL, codes.NOT_LITERAL, codes.ANY, codes.IN})
NAMES = ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT")
REPEATS = frozenset(getattr(codes, name) for name in NAMES if hasattr(codes, name))
ATOMIC = getattr(codes, "ATOMIC_GROUP", None)
CATEGORIES: dict[Any, Callable[[str], bool]] = {
    codes.CATEGORY_DIGIT: str.isdigit,
    codes.CATEGORY_NOT_DIGIT: lambda one: not one.isdigit(),
    codes.CATEGORY_SPACE: str.isspace,
    codes.CATEGORY_NOT_SPACE: lambda one: not one.isspace(),
    codes.CATEGORY_WORD: lambda one: one.isalnum() or one == "_",
    codes.CATEGORY_NOT_WORD: lambda one: not (one.isalnum() or one == "_"),
}


class Pump(NamedTuple):
    """A text of any length: its beginning, the repeated part, and its end."""

    before: str
    piece: str
    after: str

    def text(self, length: int) -> str:
        """Return the text whose repeated part has this length."""
        return self.before + (self.piece * (length // len(self.piece) + 1))[:length] + self.after


def parsed(pattern: re.Pattern[Any]) -> Any:  # noqa: ANN401 - a tree of re's own
    """Return the tree of an expression."""
    source = pattern.pattern
    text = source.decode("latin-1") if isinstance(source, bytes) else source
    return parser.parse(text, pattern.flags & (re.IGNORECASE | re.MULTILINE | re.DOTALL | re.VERBOSE | re.ASCII))


def pumps(pattern: re.Pattern[Any], *, every: bool) -> tuple[Pump, ...]:
    """Return the pumps of an expression, the likely ones or ``every`` one."""
    tree = parsed(pattern)
    whole = example(tree)
    found = [Pump("", one, BAD) for one in (LETTERS if every else PLAIN)]
    found += [Pump("", whole + one, BAD) for one in ("", " ", "\n")]
    for before, body in _long(tree):
        for one in _bodies(body)[: None if every else FEW]:
            found += [Pump(before, one, BAD), Pump("", before + one, BAD)]
            if every:
                found += [Pump(before, one, "\n" + BAD), Pump("", f"{before}{one}\n", BAD)]
    return tuple(dict.fromkeys(one for one in found if one.piece))


def example(tree: Any) -> str:  # noqa: ANN401 - as above
    """Return a text that this part of an expression matches, usually a short one."""
    return "".join(map(_example, tree))


def _example(node: tuple[Any, Any]) -> str:
    code, value = node
    if code in ONE:
        taken = _letters(node)
        return next((one for one in taken if not one.isspace()), taken[0] if taken else "a")
    if code in REPEATS:
        return example(value[2]) * int(value[0])
    parts = _parts(node)
    return example(parts[0]) if parts and code not in {codes.ASSERT, codes.ASSERT_NOT} else ""


def _parts(node: tuple[Any, Any]) -> Sequence[Any]:
    """Return the parts that a composite node contains."""
    code, value = node
    if code in REPEATS:
        return (value[2],)
    if code is codes.SUBPATTERN:
        return (value[3],)
    if code is codes.BRANCH:
        return tuple(value[1])
    if code in {codes.ASSERT, codes.ASSERT_NOT}:
        return (value[1],)
    return (value,) if ATOMIC is not None and code is ATOMIC else ()


def _long(tree: Any, before: str = "") -> Iterator[tuple[str, Any]]:  # noqa: ANN401 - as above
    """Yield each long repeat's body, and what comes before it."""
    for node in tree:
        if node[0] in REPEATS and node[1][1] >= MANY:
            yield before, node[1][2]
        for part in _parts(node):
            yield from _long(part, before)
        before += _example(node)


def _bodies(body: Any) -> list[str]:  # noqa: ANN401 - as above
    if len(body) == 1 and body[0][0] in ONE:
        return _letters(body[0])
    return [example(body), *(example(part) for node in body for part in _parts(node) if node[0] is codes.BRANCH)]


def _letters(node: tuple[Any, Any]) -> list[str]:
    """Return letters that a node of one letter matches."""
    code, value = node
    own: list[str] = []
    if code is codes.LITERAL:
        own = [chr(value)]
    elif code is codes.IN and value[0][0] is not codes.NEGATE:
        own = [chr(held if part is codes.LITERAL else held[0]) for part, held in value if part is not codes.CATEGORY]
    return list(dict.fromkeys([*(one for one in LETTERS if _takes(node, one)), *own]))


def _takes(node: tuple[Any, Any], letter: str) -> bool:
    code, value = node
    if code is codes.LITERAL:
        return chr(value) == letter
    if code is codes.NOT_LITERAL:
        return chr(value) != letter
    if code is codes.ANY:
        return letter != "\n"
    if value[0][0] is codes.NEGATE:
        return not any(_among(one, letter) for one in value[1:])
    return any(_among(one, letter) for one in value)


def _among(part: tuple[Any, Any], letter: str) -> bool:
    code, value = part
    if code is codes.LITERAL:
        return chr(value) == letter
    return bool(value[0] <= ord(letter) <= value[1]) if code is codes.RANGE else CATEGORIES[value](letter)


def doubtful(pattern: re.Pattern[Any]) -> list[str]:
    """Return where unbounded repeats can divide their letters in many ways: one in another, or one after another."""
    return list(_doubts(parsed(pattern)))


def _doubts(tree: Any) -> Iterator[str]:  # noqa: ANN401 - as above
    endless: set[str] = set()  # what the unbounded repeats just before match
    for node in tree:
        taken = _endless(node)
        if endless & taken:
            yield f"one after another, both of {min(endless & taken)!r}"
        if node[0] in REPEATS and node[1][1] is codes.MAXREPEAT and not _alone(node[1][2]):
            inner = {one for part in node[1][2] for one in _endless(part)}
            if inner & _edge(node[1][2]) and inner & _edge(reversed(node[1][2])):
                yield "one in another"
        endless = endless | taken if _may_be_empty(node) else taken
        for part in _parts(node):
            yield from _doubts(part)


def _alone(body: Any) -> bool:  # noqa: ANN401 - as above
    return len(body) == 1 and body[0][0] in ONE


def _endless(node: tuple[Any, Any]) -> set[str]:
    """Return the letters of an unbounded repeat of one letter, of the set that a node is or begins and ends with."""
    if node[0] in REPEATS and node[1][1] is codes.MAXREPEAT and _alone(node[1][2]):
        return set(_letters(node[1][2][0]))
    return set()


def _edge(nodes: Any) -> set[str]:  # noqa: ANN401 - as above
    """Return the letters that a sequence may begin with."""
    found: set[str] = set()
    for node in nodes:
        found |= set(_letters(node)) if node[0] in ONE else {one for part in _parts(node) for one in _edge(part)}
        if not _may_be_empty(node):
            break
    return found


def _may_be_empty(node: tuple[Any, Any]) -> bool:
    code, value = node
    if code in ONE:
        return False
    if code in REPEATS:
        return value[0] == 0 or all(map(_may_be_empty, value[2]))
    parts = _parts(node)
    return not parts or code in {codes.ASSERT, codes.ASSERT_NOT} or any(all(map(_may_be_empty, p)) for p in parts)
