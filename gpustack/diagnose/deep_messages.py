"""What frameworks and libraries said when they were run is recognised like any text that somebody pastes."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING

from gpustack.diagnose.machine import exercised

if TYPE_CHECKING:
    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts, Message


def heard(facts: Facts, matrix: Matrix) -> Facts:
    """Return the facts with the messages in what was said by those that failed; the same where none did."""
    told = tuple(exercised.spoken(facts))
    if not told:
        return facts
    messages = import_module("gpustack.imports.messages")  # most machines have nothing to say
    found: tuple[Message, ...] = messages.find([(who, messages.clean(words)) for who, words in told], matrix)
    return replace(facts, messages=(*facts.messages, *found))
