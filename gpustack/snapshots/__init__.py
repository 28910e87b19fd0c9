"""Recorded facts as text, and back to facts: the one place where a ``gpustack.snapshot/1`` is read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from gpustack.errors import InputError
from gpustack.model.facts import Facts
from gpustack.model.plain import measure
from gpustack.model.reading import made

if TYPE_CHECKING:
    from typing import NoReturn

    from gpustack.model.facts import Component, JsonValue

SCHEMA = "gpustack.snapshot/1"
FAMILY = "gpustack."
# Names of components and facts that 0.1.0 took from texts, and what probes call the same.
RENAMED = {"fabric-manager": "nvidia-fabricmanager", "i915": "i915.ko", "xe": "xe.ko", "nvidia-driver": "nvidia-driver"}
RENAMED_FACTS = {"nvml_library": "libnvidia_ml"}
MOST = {"components": 1000, "environments": 2000, "not_seen": 20_000, "messages": 20_000, "words": 20_000}
MOST_INSTANCES = {"instances of one component": 1000, "instances": 8000}  # of 64 Pythons, 64 GPUs and 130 systems
FIRST, LARGER = 4096, 8  # letters in which an object is looked for, and how many times as many next


def read(text: str, origin: str = "the snapshot") -> Facts:
    """Return the facts that the text records; raises InputError, naming the origin, for anything else.

    Keys that are not known are passed over, so that a newer gpustack may add some; ``rewriting`` keeps them.
    """
    return take(decode(text, origin), origin)


def take(said: Mapping[str, Any], origin: str) -> Facts:
    """Return the facts that a decoded snapshot records; raises InputError, naming the origin, for anything else."""
    schema = said.get("schema")
    if schema != SCHEMA:
        holds = " ".join(str(schema).split())[:100] if schema else "JSON without a schema"
        raise InputError(f"{origin} holds {holds}, where {SCHEMA} is wanted")
    try:
        facts = made(said, Facts)
        facts = replace(facts, components=tuple(map(_renamed, facts.components)))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{origin} is a damaged snapshot: {why(error)}") from error
    _count(facts, origin)
    return facts


def decode(text: str, origin: str) -> Mapping[str, Any]:
    """Return the JSON object that the text is; raises InputError, naming the origin, where it is none."""
    measure(text, origin)
    try:
        said = json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{origin} begins like JSON and is none: {why(error)}") from error
    if not isinstance(said, dict):
        raise InputError(f"{origin} is no JSON object")
    return said


def first(text: str, start: int, origin: str) -> tuple[Any, int]:
    """Return the JSON that begins at a place of a text, and where it ends; raises ValueError where there is none.

    Raises RecursionError where it is nested too deeply, and InputError, naming the origin, where it is too much.
    """
    size = FIRST
    while True:
        window = text[start : start + size]
        measure(window, origin)
        try:
            said, length = json.JSONDecoder().raw_decode(window)
        except ValueError:
            if start + size >= len(text):
                raise
        else:
            return said, start + length
        size *= LARGER


def _renamed(one: Component) -> Component:
    """Return a component by the names that it and its facts have now."""
    if one.id not in RENAMED:
        return one
    copies = tuple(replace(copy, facts=_named(copy.facts)) for copy in one.instances)
    return replace(one, id=RENAMED[one.id], facts=_named(one.facts), instances=copies)


def _named(facts: Mapping[str, JsonValue]) -> Mapping[str, JsonValue]:
    return {RENAMED_FACTS.get(name, name): held for name, held in facts.items()}


def _count(facts: Facts, origin: str) -> None:
    """Raise InputError for more things than any machine has: each is held against many others."""
    copies = [len(one.instances) for one in facts.components]
    found = {name: len(getattr(facts, name)) for name in MOST}
    found |= {"instances of one component": max(copies, default=0), "instances": sum(copies)}
    for name, most in {**MOST, **MOST_INSTANCES}.items():
        if found[name] > most:
            raise InputError(f"{origin} holds {found[name]} {name.replace('_', ' ')}; no machine has more than {most}")


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no JSON")


def why(error: Exception) -> str:
    """Return in one line why a text could not be decoded."""
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    return " ".join(str(error).split())[:200]
