"""What the kernel's log and frameworks that failed say is recognised like any text that somebody pastes."""

from __future__ import annotations

import re
from dataclasses import replace
from importlib import import_module
from operator import is_
from typing import TYPE_CHECKING

from gpustack.diagnose.machine import exercised
from gpustack.diagnose.machine.values import texts, told

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Component, Facts, Instance, Message

LOG = ("nvrm", "module_errors", "hardware_errors", "amdgpu")
KERNEL_LOG = "kernel log"
# What a line says where something is wrong: a log without any is not held against a thousand messages.
TROUBLE = re.compile(
    r"(?i)fail(?!ed: signature)|error|\b(?:not|cannot|lost|off|unable|invalid|unsigned|magic|heartbeat|timed)\b"
    r"|time-?out|reject|refus|unsupported|mismatch|ownership|ignore|legacy|uncorrect|fatal|wpr2|\bkey\b(?! missing)"
)


def heard(facts: Facts, matrix: Matrix) -> Facts:
    """Return the facts with the messages in what was said by those that failed; the same where none did."""
    said = (*exercised.spoken(facts), *_logged(facts))
    if not said:
        return facts
    messages = import_module("gpustack.imports.messages")  # most machines have nothing to say
    found: tuple[Message, ...] = messages.find([(who, messages.clean(words)) for who, words in said], matrix)
    return replace(facts, messages=(*facts.messages, *found)) if found else facts


def _logged(facts: Facts) -> Iterator[tuple[str, str]]:
    """Yield the lines of a log that a probe has read; those of a text are recognised where the text is read."""
    log = told(facts, "kernel-log") if facts.taken else {}
    lines = [line for name in LOG for line in texts(log, name)]
    if any(map(TROUBLE.search, lines)):
        yield KERNEL_LOG, "\n".join(lines)


def implied(facts: Facts, matrix: Matrix) -> Facts:
    """Return the facts with what their messages imply where nothing else says it.

    Readers do the same with each text; a snapshot of an older version holds the messages alone.
    """
    if not facts.messages:
        return facts
    reader = import_module("gpustack.imports.from_messages")
    more: dict[str, Component] = {one.id: one for one in reader.implied(facts, matrix).components}
    known = tuple(_filled(one, more.pop(one.id, None)) for one in facts.components)
    components = (*known, *more.values())
    same = len(components) == len(known) and all(map(is_, components, facts.components))
    return facts if same else replace(facts, components=components)


def _filled(known: Component, more: Component | None) -> Component:
    """Return a component with what messages add to copies of it; that it failed, they say of failed ones alone."""
    copies = {(copy.key, copy.status): copy for copy in more.instances} if more else {}
    filled = tuple(_with(copy, copies.get((copy.key, copy.status))) for copy in known.instances)
    return known if all(map(is_, filled, known.instances)) else replace(known, instances=filled)


def _with(copy: Instance, more: Instance | None) -> Instance:
    if more is None:
        return copy
    new = {name: value for name, value in more.facts.items() if name not in copy.facts}
    version = copy.version or more.version
    if not new and version == copy.version:
        return copy
    strengths = {**more.strengths, **copy.strengths}
    return replace(copy, version=version, facts={**copy.facts, **new}, strengths=strengths)
