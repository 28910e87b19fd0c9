"""Texts become facts: each reader takes in what it knows, then the messages in them, then what people say in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from gpustack.imports import (
    amd_intel,
    choices,
    devices,
    environment_report,
    file_names,
    from_messages,
    lines,
    messages,
    nvidia_smi,
    packages,
    python_session,
    shell,
    statements,
    whereabouts,
    words,
)
from gpustack.imports.deadline import OutOfTime, unread, within
from gpustack.imports.gathered import Gathered
from gpustack.model.facts import Unseen

if TYPE_CHECKING:
    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts

MOST_WORDS = 200_000  # characters that may be a person's words: more is a log
READERS = (environment_report.read, shell.read, packages.read, python_session.read, amd_intel.read)
LAYOUTS = (nvidia_smi.read, devices.read)  # these need the indentation
CUT = f"it has lines of more than {lines.LONGEST} characters, of which only the beginning and the end were read"
SHORTER = "a file with shorter lines"


@dataclass
class Text:
    """One text that is read step by step, and what a step keeps for the next."""

    origin: str
    raw: str
    cut: bool
    told: list[str] = field(default_factory=list)  # lines that are messages of a program
    asides: str = ""  # what somebody wrote beside them

    def read(self, into: Gathered, matrix: Matrix) -> None:
        """Take in what programs printed."""
        self.raw = whereabouts.own(self.raw)
        text, indented = messages.clean(self.raw), messages.laid(self.raw)
        for layout in LAYOUTS:
            layout(self.origin, indented, into)
        for reader in READERS:
            reader(self.origin, text, into)
        found = messages.look(self.origin, text, matrix, (*statements.STATEMENTS, *choices.CHOICES))
        from_messages.read(tuple(one.message for one in found), into)
        self.told = [one.message.line for one in found if one.whole and not from_messages.told(one.message)]
        self.asides = "\n".join(one.aside for one in found if one.aside)

    def listen(self, into: Gathered, _matrix: Matrix) -> None:
        """Take in what people say in words."""
        words.read(self.origin, messages.spoken(self.raw[:MOST_WORDS]), into, self.told)
        words.read(self.origin, self.asides, into)
        file_names.read(self.origin, messages.clean(self.raw[:MOST_WORDS]), into)

    def quote(self, into: Gathered, _matrix: Matrix) -> None:
        """Give messages their lines as somebody wrote them, where they were read in other words."""
        written = messages.rewritten(self.raw)
        into.messages = tuple(
            replace(one, line=_in_words(one.line, written)) if one.origin == self.origin else one
            for one in into.messages
        )


STEPS = (Text.read, Text.listen, Text.quote)


def take(told: Sequence[tuple[str, str]], matrix: Matrix, until: float | None = None) -> tuple[Facts, tuple[str, ...]]:
    """Return the facts that texts (origin, text) tell of one machine, and the origins in which nothing was recognised.

    What is not read by ``until`` is among the facts' ``not_seen``, and so are long lines, which are cut.
    """
    into = Gathered(places={name: (one.layer, one.vendor) for name, one in matrix.systems.items()})
    texts = [Text(origin, *lines.short(raw)) for origin, raw in told]
    late: dict[str, None] = {}
    heard: dict[str, int] = {}
    for step in STEPS:
        for text in texts:
            before = into.count
            try:
                with within(until):
                    step(text, into, matrix)
            except OutOfTime:
                late[text.origin] = None
            heard[text.origin] = heard.get(text.origin, 0) + into.count - before
    silent = tuple(text.origin for text in texts if not heard[text.origin] and text.origin not in late)
    cut = (Unseen(what=text.origin, why=CUT, enable_by=SHORTER) for text in texts if text.cut)
    missed = map(unread, late)
    facts = into.facts()
    return replace(facts, not_seen=(*facts.not_seen, *cut, *missed)), silent


def _in_words(line: str, written: Mapping[str, str]) -> str:
    for read, own in written.items():
        line = line.replace(read, own)
    return line
