"""What one form of a secret is: how it is found, in which words it is documented, and what proves it.

No expression may take more than a bounded number of steps a letter: it begins at the start of a run of letters (a
lookbehind forbids the middle of one) or with fixed letters that its own body cannot repeat.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

KINDS = ("GPU", "MIG", "uuid", "host", "user", "serial", "mac", "ip", "email", "secret", "home")
PLACEHOLDER = re.compile(r"(?:GPU|MIG|uuid|host|user|serial|mac|ip|email|secret)-\d+")
NOTHING = frozenset({"", "none", "null", "nil", "true", "false", "yes", "no", "n/a", "[n/a]", "unknown", "0", "~"})
OPEN, CLOSE = "«»"  # what an example must lose stands between these


@dataclass(frozen=True, slots=True, order=True)
class Found:
    """The place of a secret in a text, what kind it is, and the secret itself (alike for alike secrets)."""

    start: int
    end: int
    kind: str
    secret: str


Finder: TypeAlias = Callable[[str, Sequence[str]], Iterator[Found]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """One row of the table.

    ``hints`` are lower-case letters of which a text must have some, or the form is not looked for. Words of a
    ``learnt`` form are then found wherever they stand. In an example the secret stands between two marks; a stay is
    what looks alike and must come out as it was.
    """

    name: str
    context: str
    find: Finder
    examples: tuple[str, ...]
    hints: tuple[str, ...] = ()
    stays: tuple[str, ...] = ()
    learnt: bool = False


def shape(pattern: str | re.Pattern[str], keep: Callable[[re.Match[str], Sequence[str]], bool] | None = None) -> Finder:
    """Return a finder of what the named groups of an expression match, each of the kind that it is named after.

    Of two groups of one kind the second has a number behind its name. ``keep`` says of a match whether it counts.
    """
    compiled = re.compile(pattern)
    groups = [(group, group.rstrip("0123456789")) for group in compiled.groupindex]
    groups = [(group, kind) for group, kind in groups if kind in KINDS]

    def find(text: str, names: Sequence[str]) -> Iterator[Found]:
        for match in compiled.finditer(text):
            if keep is None or keep(match, names):
                for group, kind in groups:
                    if match[group]:
                        yield Found(match.start(group), match.end(group), kind, _alike(kind, match[group]))

    return find


def _alike(kind: str, secret: str) -> str:
    """Return a number as all its spellings are: small, and without what says of which kind it is."""
    return secret.lower().removeprefix(f"{kind.lower()}-") if kind in {"GPU", "MIG", "uuid"} else secret


def bare(example: str) -> str:
    """Return an example without the marks around its secret."""
    return example.replace(OPEN, "").replace(CLOSE, "")


def secrets(example: str) -> list[str]:
    """Return what the marks of an example stand around."""
    return re.findall(rf"{OPEN}([^{CLOSE}]*){CLOSE}", example)


def fill(letters: int) -> str:
    """Return so many letters as tokens are made of."""
    return ("aB3dE5gH7jK9mN1pQ4sT6vW8xY0zC2f" * 9)[:letters]
