"""Reports and snapshots read back from files, and rewritten."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Any, TypeVar, Union, get_args, get_origin, get_type_hints

from gpustack.errors import InputError
from gpustack.model import plain
from gpustack.model.bench import BenchReport
from gpustack.model.command import NOTHING, Command, reread
from gpustack.snapshots import frozen

if TYPE_CHECKING:
    from gpustack.model.facts import Facts, JsonValue

SCHEMA = "gpustack.bench/1"
Made = TypeVar("Made")


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
    except (TypeError, ValueError, KeyError, OverflowError, RecursionError) as error:
        raise InputError(f"{path} is damaged: {type(error).__name__}: {error}") from error


def made(said: Mapping[str, Any], kind: type[Made]) -> Made:
    """Return one of our types from its JSON; raises TypeError or ValueError where they do not fit."""
    if not isinstance(said, dict):
        raise TypeError(f"{kind.__name__} is no object")
    held, hints = {}, _hints(kind)  # type: ignore[arg-type]  # a class can be a key
    for one in fields(kind):  # type: ignore[arg-type]  # asked for types of ours alone
        name = one.name.rstrip("_")
        if name in said:
            held[one.name] = _value(said[name], hints[one.name])
        elif one.default is MISSING and one.default_factory is MISSING:
            raise TypeError(f"{kind.__name__} has no {name}")
    return kind(**held)


@cache
def _hints(kind: type) -> Mapping[str, Any]:
    return get_type_hints(kind)


def _value(said: object, hint: Any) -> object:  # noqa: ANN401 - a hint has no type of its own
    origin, inside = get_origin(hint), get_args(hint)
    if hint is Command:
        return reread(said) or NOTHING
    if origin in {Union, UnionType}:
        return None if said is None else _value(said, next(one for one in inside if one is not type(None)))
    if origin is tuple:
        return _tuple(said, inside)
    if origin is not None:  # Mapping[str, JsonValue]
        return _frozen(_checked(said, dict))
    return _one(said, hint)


def _one(said: object, hint: type) -> object:
    """Return a value that is no list and no table of free names."""
    if is_dataclass(hint):
        return made(_checked(said, dict), hint)
    if issubclass(hint, Enum):
        return hint(said)
    if hint is float:
        return float(_checked(said, float, int))
    return _frozen(said) if hint is object else _checked(said, hint)


def _tuple(said: object, inside: tuple[Any, ...]) -> tuple[object, ...]:
    held = _checked(said, list)
    if inside[-1] is Ellipsis:
        return tuple(_value(one, inside[0]) for one in held)
    return tuple(_value(one, hint) for one, hint in zip(held, inside, strict=True))


def _checked(said: object, *kinds: type) -> Any:  # noqa: ANN401 - one of the kinds, which no type here can say
    if not isinstance(said, kinds) or (isinstance(said, bool) and bool not in kinds):
        raise TypeError(f"{type(said).__name__} where {kinds[0].__name__} was expected")
    return said


def _frozen(said: object) -> object:
    """Return JSON as our facts hold it: lists are tuples."""
    if isinstance(said, list):
        return tuple(map(_frozen, said))
    return {name: _frozen(one) for name, one in said.items()} if isinstance(said, dict) else said
