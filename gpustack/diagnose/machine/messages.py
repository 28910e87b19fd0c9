"""Recognised messages of programs: facts like any others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.model.report import Because

if TYPE_CHECKING:
    from gpustack.model.facts import Facts, Message


MESSAGE = "message"


def said(facts: Facts, *kinds: str) -> tuple[Message, ...]:
    """Return the messages of these kinds, in order."""
    return tuple(one for one in facts.messages if one.kind in kinds)


def holding(facts: Facts, kind: str, *names: str) -> tuple[Message, ...]:
    """Return the messages of one kind that have all these values."""
    return tuple(one for one in said(facts, kind) if all(one.values.get(name) for name in names))


def heard(facts: Facts, *kinds: str) -> bool:
    """Return whether there is a message of these kinds."""
    return any(one.kind in kinds for one in facts.messages)


def value(facts: Facts, kind: str, *names: str) -> str | None:
    """Return the first value with one of these names in the messages of one kind."""
    return next((one.values[name] for one in said(facts, kind) for name in names if one.values.get(name)), None)


def because_said(message: Message) -> Because:
    """Return a message as evidence for a finding."""
    return Because(component=MESSAGE, fact=message.kind, value=message.line, source=message.origin)


def grounds(facts: Facts, *kinds: str, most: int = 4) -> tuple[Because, ...]:
    """Return the first few messages of these kinds as evidence."""
    return tuple(because_said(one) for one in said(facts, *kinds)[:most])
