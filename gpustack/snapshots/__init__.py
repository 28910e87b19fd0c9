"""Recorded facts as text, and back to facts: the one place where a ``gpustack.snapshot/1`` is read, and rewritten."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NoReturn

from gpustack.errors import InputError
from gpustack.model import writing
from gpustack.model.facts import Component, Facts, JsonValue
from gpustack.model.reading import frozen, made
from gpustack.model.writing import measure

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
        raise InputError(f"{origin} holds {holds}, but {SCHEMA} is required")
    try:
        facts = made(said, Facts)
        facts = replace(facts, components=tuple(map(_renamed, facts.components)))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{origin} is a damaged snapshot: {why(error)}") from error
    copies = [len(one.instances) for one in facts.components]
    found = {name: len(getattr(facts, name)) for name in MOST}
    found |= {"instances of one component": max(copies, default=0), "instances": sum(copies)}
    for name, most in {**MOST, **MOST_INSTANCES}.items():
        if found[name] > most:
            raise InputError(f"{origin} holds {found[name]} {name.replace('_', ' ')}; no machine has more than {most}")
    return facts


def decode(text: str, origin: str) -> Mapping[str, Any]:
    """Return the JSON object that the text is; raises InputError, naming the origin, where it is none."""
    measure(text, origin)
    try:
        said = json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{origin} begins like JSON but is not valid: {why(error)}") from error
    if not isinstance(said, dict):
        raise InputError(f"{origin} is not a JSON object")
    return said


def first(text: str, start: int, origin: str) -> tuple[Any, int]:
    """Return the JSON that begins at a place of a text, and where it ends; raises ValueError if there is none.

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


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")


def why(error: Exception) -> str:
    """Return in one line why a text could not be decoded."""
    return "it is nested too deeply" if isinstance(error, RecursionError) else " ".join(str(error).split())[:200]


def unknown(said: Mapping[str, object], facts: Facts) -> JsonValue:
    """Return what a decoded snapshot says beyond the facts that were read from it, by the same names; None for nothing.

    Of a list there is one value for each of its members. Raises InputError where it is nested too deeply to be kept.
    """
    try:
        return _beyond(said, writing.plain(facts))
    except RecursionError as error:
        raise InputError("what a newer gpustack wrote into the snapshot is nested too deeply") from error


def render(facts: Facts, more: JsonValue) -> str:
    """Return the facts as a snapshot, with what was unknown put back."""
    return writing.render(_joined(writing.plain(facts), more))


def _beyond(said: object, known: object) -> JsonValue:
    if isinstance(said, Mapping) and isinstance(known, Mapping):
        left = {name: _beyond(held, known[name]) if name in known else frozen(held) for name, held in said.items()}
        return {name: held for name, held in left.items() if held is not None or name not in known} or None
    if isinstance(said, list) and isinstance(known, list):
        each = tuple(_beyond(one, other) for one, other in zip(said, known, strict=False))  # texts may have added more
        return each if any(one is not None for one in each) else None
    return None


def _joined(known: object, more: JsonValue) -> object:
    if isinstance(known, dict) and isinstance(more, Mapping):
        return {**known, **{name: _joined(known[name], held) if name in known else held for name, held in more.items()}}
    if isinstance(known, list) and isinstance(more, tuple):
        return [*(_joined(one, held) for one, held in zip(known, more, strict=False)), *known[len(more) :]]
    return known
