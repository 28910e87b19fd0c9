"""Any text: which readers apply, which of two answers wins, and its lines as they are read."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from gpustack.imports import (
    amd_intel,
    devices,
    environment_report,
    file_names,
    from_messages,
    messages,
    nvidia_smi,
    packages,
    python_session,
    shell,
    sifting,
    states,
    words,
)
from gpustack.imports.deadline import OutOfTime, unread, within
from gpustack.imports.gathered import Gathered
from gpustack.matrix.subjects.candidates import index
from gpustack.model.facts import Facts, Strength, Unseen

if TYPE_CHECKING:
    from gpustack.matrix import Matrix

LONGEST = 8_000  # characters of a line that are read
HEAD, TAIL = 6_000, 1_990
CUT = " ... "
EMPTY = "\n" * 20  # further consecutive empty lines are dropped
MOST_WORDS = 200_000  # characters that may be a person's words; anything longer is a log
READERS = (environment_report.read, shell.read, packages.read, python_session.read, amd_intel.read)
LAYOUTS = (nvidia_smi.read, devices.read, nvidia_smi.links)  # these need the indentation
LINES_CUT = f"it has lines of more than {LONGEST} characters; only their beginning and end were read"
SHORTER = "a file with shorter lines"


def short(text: str) -> tuple[str, bool]:
    """Return a text with plain line endings and without the middle of long lines, and whether there was any."""
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if EMPTY in text:
        text = re.sub(EMPTY + "+", lambda _: EMPTY, text)
    lines = text.split("\n")
    return (text, False) if max(map(len, lines)) <= LONGEST else ("\n".join(map(_short, lines)), True)


def _short(line: str) -> str:
    return line if len(line) <= LONGEST else f"{line[:HEAD]}{CUT}{line[-TAIL:]}"


@dataclass
class Text:
    """One text that is read step by step, and what each step keeps for the next."""

    origin: str
    raw: str
    cut: bool
    tells: bool  # it is about the stack
    ours: bool  # it is, or another of the texts
    told: list[str] = field(default_factory=list)  # lines that are messages of a program
    asides: str = ""  # what someone wrote beside them

    def read(self, into: Gathered, matrix: Matrix) -> None:
        """Read program output."""
        rest, over = sifting.own(self.raw)
        gone = messages.look(self.origin, messages.clean(over), matrix) if over else ()
        named = any(one.row.finding for one in gone) or not gone or sifting.OLD_SENTENCE.search(over)
        if named or messages.look(self.origin, messages.clean(rest), matrix):
            self.raw = rest  # else nothing could be named of a text that tells how a fault was fixed
            from_messages.past(gone, into)
        text, indented = messages.clean(self.raw), messages.laid(self.raw)
        for layout in LAYOUTS:
            layout(self.origin, indented, into)
        for reader in READERS:
            reader(self.origin, text, into)
        found = messages.look(self.origin, text, matrix)
        found = (*found, *states.codes(self.origin, text, matrix, found))
        found = (*found, *states.look(self.origin, text[:MOST_WORDS], matrix, found))
        if all(one.message.kind == states.AILS for one in found):
            found = (*found, *states.cut(self.origin, text, matrix))
        if not self.ours and all(one.message.strength is Strength.STATED for one in found):
            found = ()  # these are words about something else
        from_messages.read(found, into, matrix)
        printed = (one for one in found if one.whole and one.message.strength is not Strength.STATED)
        self.told = [one.message.line for one in printed if not from_messages.told(one.message)]
        self.asides = "\n".join(one.aside for one in found if one.aside)

    def listen(self, into: Gathered, matrix: Matrix) -> None:
        """Read people's own words."""
        words.read(self.origin, messages.spoken(self.raw[:MOST_WORDS]), into, self.told)
        words.read(self.origin, self.asides, into)
        if (
            self.tells
            or any(map(into.knows, from_messages.GPUS))
            or any(one.origin == self.origin for one in into.messages)
        ):
            into.words |= index(matrix).words(messages.clean(self.raw))
        file_names.read(self.origin, messages.clean(self.raw[:MOST_WORDS]), into)

    def quote(self, into: Gathered, _matrix: Matrix) -> None:
        """Restore the original lines of messages that were reworded for reading."""
        written = messages.rewritten(self.raw)
        into.messages = tuple(
            replace(one, line=_in_words(one.line, written)) if one.origin == self.origin else one
            for one in into.messages
        )


STEPS = (Text.read, Text.listen, Text.quote)


def take(
    told: Sequence[tuple[str, str]], matrix: Matrix, until: float | None = None, *, ours: bool = False
) -> tuple[Facts, tuple[str, ...]]:
    """Return the facts in texts (origin, text) about one machine, and the origins without anything recognised.

    What people's words alone say counts only if a text is about the stack, which ``ours`` says of all. Anything not
    read by ``until`` is among the facts' ``not_seen``, as are long lines, which are cut.
    """
    into = Gathered(places={name: (one.layer, one.vendor) for name, one in matrix.systems.items()})
    tells = [index(matrix).tells(messages.clean(_ends(raw))) for _, raw in told]
    ours = ours or any(tells)
    texts = [Text(origin, *short(raw), one, ours) for (origin, raw), one in zip(told, tells, strict=True)]
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
    from_messages.join(into, matrix)
    silent = tuple(text.origin for text in texts if not heard[text.origin] and text.origin not in late)
    cut = (Unseen(what=text.origin, why=LINES_CUT, enable_by=SHORTER) for text in texts if text.cut)
    missed = map(unread, late)
    facts = into.facts()
    return replace(facts, not_seen=(*facts.not_seen, *cut, *missed)), silent


def _ends(raw: str) -> str:
    return raw if len(raw) <= 2 * MOST_WORDS else f"{raw[:MOST_WORDS]}\n{raw[-MOST_WORDS:]}"


def _in_words(line: str, written: Mapping[str, str]) -> str:
    for read, own in written.items():
        line = line.replace(read, own)
    return line
