"""Texts become facts: each reader takes in what it knows, then the messages in them, then what people say in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from gpustack import messages
from gpustack.imports import (
    amd_intel,
    choices,
    devices,
    environment_report,
    file_names,
    from_messages,
    nvidia_smi,
    packages,
    python_session,
    shell,
    statements,
    whereabouts,
    words,
)
from gpustack.imports.gathered import Gathered

if TYPE_CHECKING:
    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts, Message

MOST_WORDS = 200_000  # characters that may be a person's words: more is a log
READERS = (environment_report.read, shell.read, packages.read, python_session.read, amd_intel.read)
LAYOUTS = (nvidia_smi.read, devices.read)  # these need the indentation


def take(told: Sequence[tuple[str, str]], matrix: Matrix) -> tuple[Facts, tuple[str, ...]]:
    """Give the facts that texts (origin, text) tell of one machine, and the origins in which nothing was recognised."""
    places = {name: (one.layer, one.vendor) for name, one in matrix.systems.items()}
    into, silent = Gathered(places=places), []
    printed: dict[str, list[str]] = {}
    asides: dict[str, str] = {}
    told = tuple((origin, whereabouts.own(raw)) for origin, raw in told)
    for origin, raw in told:
        before, text = into.count, messages.clean(raw)
        for layout in LAYOUTS:
            layout(origin, messages.laid(raw), into)
        for reader in READERS:
            reader(origin, text, into)
        found = messages.look(origin, text, matrix, (*statements.STATEMENTS, *choices.CHOICES))
        from_messages.read(tuple(one.message for one in found), into)
        printed[origin] = [one.message.line for one in found if one.whole and not from_messages.told(one.message)]
        asides[origin] = "\n".join(one.aside for one in found if one.aside)
        if into.count == before:
            silent.append(origin)
    for origin, raw in told:
        before = into.count
        words.read(origin, messages.spoken(raw[:MOST_WORDS]), into, printed[origin])
        words.read(origin, asides[origin], into)
        file_names.read(origin, messages.clean(raw[:MOST_WORDS]), into)
        if into.count != before and origin in silent:
            silent.remove(origin)
    into.messages = tuple(_as_written(told, into.messages))
    return into.facts(), tuple(silent)


def _as_written(told: Sequence[tuple[str, str]], found: Sequence[Message]) -> Iterator[Message]:
    """Give messages with their lines as somebody wrote them, where they were read in other words."""
    written = {origin: messages.rewritten(raw) for origin, raw in told}
    for one in found:
        line = one.line
        for read, own in written.get(one.origin, {}).items():
            line = line.replace(read, own)
        yield replace(one, line=line)
