"""States that people describe in words: a thing and its state in a clause that does not ask, suppose or deny."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpustack.imports.messages import Found
from gpustack.matrix.subjects.messages import meanings, patterns, states, things, voids
from gpustack.model.facts import Message, Strength

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpustack.matrix import Matrix
    from gpustack.matrix.subjects.messages import Meaning

CLAUSE = re.compile(
    r"(?<=[.!?;])(?=\s|$)|,(?= )|: | (?:but|while|although|whereas|and then|so that|because|since|so) |\n"
)
SENTENCE = re.compile(r"(?<=[.!?]) ")
PRINTED = re.compile(
    r"[{}<>|=]|::|^\s*(?:\[|\$|#|>|File \"|Traceback|at )|\b[A-Z]\w+(?:Error|Exception|Warning)\b|\bNVRM\b"
)
PLAIN = re.compile(r"--[a-z]+[ =]?\w{0,10}|\b[A-Z][A-Z0-9_]{3,40} ?= ?[\w.\"']{1,40}")  # options and variables
# "The image is missing the headers": what is missing follows, and what comes before is there.
LACKS = re.compile(r"(?:\w+ )?(?:missing|lacks?|lacking|without) (?=(?:the|an?|its|some|any)\b|[\x60'\"/])")
NEAR, LONGEST, MOST_LINES = 60, 400, 300


def look(origin: str, text: str, matrix: Matrix, known: Sequence[Found]) -> tuple[Found, ...]:
    """Return the states that a person describes, each kind once, unless a message (``known``) states it."""
    kinds = {one.message.kind for one in known}
    found: dict[str, Found] = {}
    lines = (line for line in text.split("\n") if 0 < len(line) <= LONGEST and not PRINTED.search(PLAIN.sub("", line)))
    for line, _ in zip(lines, range(MOST_LINES), strict=False):
        for sentence in SENTENCE.split(line):
            for clause in filter(None, CLAUSE.split(sentence)):
                for one in _meant(clause, matrix):
                    if one.message not in kinds and one.fits(sentence, line):
                        found.setdefault(one.message, _found(one, line, origin, matrix))
    return tuple(found.values())


def _meant(clause: str, matrix: Matrix) -> Iterator[Meaning]:
    """Yield the statements of a clause about the present: a thing and a state near each other."""
    spoken = {one.name: found for one in things(matrix) if (found := one.compiled().search(clause))}
    clause_states = ((one.name, one.compiled().search(clause)) for one in states(matrix)) if spoken else ()
    held = {
        name: found for name, found in clause_states if found and clause[: found.start()][-1:] != "-"
    }  # gpu-overheat
    void = {one.name for one in voids(matrix) if one.compiled().search(clause)} if held else set()
    for one in meanings(matrix):
        thing, state = spoken.get(one.thing), held.get(one.state)
        if (
            void <= {one.despite}
            and thing
            and state
            and max(thing.start(), state.start()) - min(thing.end(), state.end()) <= NEAR
            and (thing.start() > state.start() or not LACKS.match(clause, state.start()))
        ):
            yield one


def _found(one: Meaning, line: str, origin: str, matrix: Matrix) -> Found:
    """Return the statement as the equivalent message, with what such a message always implies."""
    row = next(held for held in patterns(matrix) if held.kind == one.message)
    said = Message(
        kind=one.message, line=" ".join(line.split()), origin=origin, values=row.values, strength=Strength.STATED
    )
    return Found(said, row, whole=False)
