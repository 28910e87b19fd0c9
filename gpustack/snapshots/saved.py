"""Reports and snapshots read back from files, and rewritten."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from gpustack.errors import InputError
from gpustack.model import plain
from gpustack.model.bench import BenchReport
from gpustack.model.reading import frozen, made

if TYPE_CHECKING:
    from pathlib import Path

    from gpustack.model.facts import Facts, JsonValue

SCHEMA = "gpustack.bench/1"


def unknown(said: Mapping[str, object], facts: Facts) -> JsonValue:
    """Return what a decoded snapshot says beyond the facts that were read from it, by the same names; None for nothing.

    Of a list there is one value for each of its members. Raises InputError where it is nested too deeply to be kept.
    """
    try:
        return _beyond(said, plain.plain(facts))
    except RecursionError as error:
        raise InputError("what a newer gpustack wrote into the snapshot is nested too deeply") from error


def render(facts: Facts, more: JsonValue) -> str:
    """Return the facts as a snapshot, with what was unknown put back."""
    return plain.render(_joined(plain.plain(facts), more))


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


def read(path: Path) -> BenchReport:
    """Return the report of a file of ``gpustack bench --save``; raises InputError for anything else.

    Keys that are not known are passed over, and those that an older gpustack did not write have their usual values.
    """
    try:
        said = json.loads(plain.json_text(path))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is no report of gpustack bench: it is not JSON") from error
    schema = said.get("schema") if isinstance(said, dict) else None
    if schema != SCHEMA:
        raise InputError(f"{path} is no report of gpustack bench: its schema is {schema or 'missing'}, not {SCHEMA}")
    try:
        return made(said, BenchReport)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is damaged: {error}") from error
