"""States that people tell in words: a thing and its state in one clause that neither asks, supposes nor denies."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpustack.imports.messages import Found
from gpustack.matrix.subjects.messages import Pattern, patterns
from gpustack.matrix.subjects.prose import meanings, states, things
from gpustack.model.facts import Message, Strength

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpustack.matrix import Matrix
    from gpustack.matrix.subjects.prose import Meaning

CLAUSE = re.compile(
    r"(?<=[.!?;])(?=\s|$)|,(?= )|: | (?:but|while|although|whereas|and then|so that|because|since|so) |\n"
)
# A clause that says nothing of now, or nothing for sure.
VOID = re.compile(
    r"\?|\b(?:if|whether|unless|would|should|could|might|may|maybe|suppose|make sure|check|was the|used to|previously"
    r"|last (?:week|month|year)|until|before|no longer (?:missing|small|in use|denied|vanish\w*|lost|hot)"
    r"|nothing (?:is|was|looks|seems)|never (?:hot|vanish\w*|overheat\w*|disappear\w*|drop\w*)"
    r"|(?:not|n't|no longer) (?:missing|too|been (?:lost|gone)|hot|overheat\w*|disappear\w*|vanish\w*|drop\w*|gone|lost"
    r"|denied|shadow\w*|a snap|the snap|from)|no (?:permission )?(?:problems?|errors?|issues?|trouble)|works?|worked"
    r"|fixed|solved|fine|limit|target|max|junction|hot ?spot|memory temp\w*|VRAM|fallback)\b",
    re.IGNORECASE,
)
PRINTED = re.compile(
    r"[{}<>|=]|::|^\s*(?:\[|\$|#|>|File \"|Traceback|at )|\b[A-Z]\w+(?:Error|Exception|Warning)\b|\bNVRM\b"
)
PLAIN = re.compile(r"--[a-z]+[ =]?\w{0,10}")
NEAR, LONGEST, MOST_LINES = 60, 400, 300


def look(origin: str, text: str, matrix: Matrix, known: Sequence[Found]) -> tuple[Found, ...]:
    """Return what a person says of states, each kind once, where no message (``known``) says it."""
    kinds = {one.message.kind for one in known}
    found: dict[str, Found] = {}
    lines = (line for line in text.split("\n") if 0 < len(line) <= LONGEST and not PRINTED.search(PLAIN.sub("", line)))
    for line, _ in zip(lines, range(MOST_LINES), strict=False):
        for clause in _clauses(line):
            for one in _meant(clause, matrix):
                if one.message not in kinds and one.fits(line):
                    found.setdefault(one.message, _found(one, line, origin, matrix))
    return tuple(found.values())


def _clauses(line: str) -> Iterator[str]:
    """Yield the clauses of a line that say something of now."""
    for clause in CLAUSE.split(line):
        if clause and not VOID.search(clause):
            yield clause


def _meant(clause: str, matrix: Matrix) -> Iterator[Meaning]:
    """Yield what a clause says: a thing and a state that stand near each other."""
    spoken = {one.name: found for one in things(matrix) if (found := one.compiled().search(clause))}
    held = {one.name: found for one in states(matrix) if (found := one.compiled().search(clause))} if spoken else {}
    for one in meanings(matrix):
        thing, state = spoken.get(one.thing), held.get(one.state)
        if thing and state and max(thing.start(), state.start()) - min(thing.end(), state.end()) <= NEAR:
            yield one


def _found(one: Meaning, line: str, origin: str, matrix: Matrix) -> Found:
    """Return the statement as the message that says the same, with what such a message always says."""
    known = (held for held in patterns(matrix) if held.kind == one.message)
    row = next(known, Pattern(kind=one.message, has="", match="", says="", source="wording", checked=""))
    said = Message(
        kind=one.message, line=" ".join(line.split()), origin=origin, values=row.values, strength=Strength.STATED
    )
    return Found(said, row, whole=False)
