"""What people say of their machine in words: things, the states that they are in, and what both mean together."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from gpustack.model.rows import Stated

if TYPE_CHECKING:
    from gpustack.matrix import Matrix


@cache
def _compiled(match: str) -> re.Pattern[str]:
    return re.compile(match, re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Words(Stated):
    """The words that people use for a thing or for a state."""

    name: str
    match: str

    def compiled(self) -> re.Pattern[str]:
        """Return their expression; case does not count."""
        return _compiled(self.match)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Meaning(Stated):
    """A thing in a state, and the kind of message that says the same, ``unless`` or ``only`` where a line has words.

    ``despite`` names the words that void any other meaning, but not this one: a cure that works names the fault.
    """

    thing: str
    state: str
    message: str
    unless: str | None = None
    only: str | None = None
    despite: str | None = None

    def fits(self, line: str) -> bool:
        """Return whether nothing in a line gives it another meaning."""
        other = self.unless and _compiled(self.unless).search(line)
        return not other and (self.only is None or bool(_compiled(self.only).search(line)))

    def __str__(self) -> str:
        return f"{self.thing} {self.state}"


def things(matrix: Matrix) -> tuple[Words, ...]:
    """Return what people speak of."""
    return matrix.rows("prose", "things", Words)


def states(matrix: Matrix) -> tuple[Words, ...]:
    """Return in which states they say that it is."""
    return matrix.rows("prose", "states", Words)


def voids(matrix: Matrix) -> tuple[Words, ...]:
    """Return the words with which a clause says nothing of now, or nothing for sure."""
    return matrix.rows("prose", "voids", Words)


def meanings(matrix: Matrix) -> tuple[Meaning, ...]:
    """Return what a thing in a state means."""
    return matrix.rows("prose", "means", Meaning)
