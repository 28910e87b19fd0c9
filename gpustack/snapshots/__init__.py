"""Recorded facts as text, and back to facts: the one place where a ``gpustack.snapshot/1`` is read."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from gpustack.errors import InputError
from gpustack.model.facts import (
    Call,
    Component,
    Environment,
    Facts,
    Host,
    Instance,
    JsonValue,
    Layer,
    Message,
    Status,
    Strength,
    Unseen,
)
from gpustack.model.plain import measure

if TYPE_CHECKING:
    from typing import NoReturn

SCHEMA = "gpustack.snapshot/1"
FAMILY = "gpustack."
# Names of components and facts that 0.1.0 took from texts, and what probes call the same.
RENAMED = {"fabric-manager": "nvidia-fabricmanager", "i915": "i915.ko", "xe": "xe.ko"}
RENAMED_FACTS = {"nvml_library": "libnvidia_ml"}
MOST_DEPTH = 100  # of values in values; facts have a dozen
MOST = {"components": 1000, "environments": 2000, "not_seen": 20_000, "messages": 20_000}
MOST_INSTANCES = {"instances of one component": 1000, "instances": 8000}  # of 64 Pythons, 64 GPUs and 130 systems
FIRST, LARGER = 4096, 8  # letters in which an object is looked for, and how many times as many next
MOST_NUMBER = 2**70  # beyond the largest of a machine's, and small enough to be counted with in any way

Made = TypeVar("Made")


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
        _count(said, origin)
        return _facts(said)
    except (TypeError, ValueError, KeyError, RecursionError) as error:
        raise InputError(f"{origin} is a damaged snapshot: {why(error)}") from error


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


def _count(said: Mapping[str, Any], origin: str) -> None:
    """Raise InputError for more things than any machine has: each is held against many others."""
    copies = [len(_list(_object(one), "instances")) for one in _list(said, "components")]
    found = {name: len(_list(said, name)) for name in MOST}
    found |= {"instances of one component": max(copies, default=0), "instances": sum(copies)}
    for name, most in {**MOST, **MOST_INSTANCES}.items():
        if found[name] > most:
            raise InputError(f"{origin} holds {found[name]} {name.replace('_', ' ')}; no machine has more than {most}")


def _list(said: Mapping[str, Any], name: str) -> list[Any]:
    held = said.get(name, [])
    if not isinstance(held, list):
        raise TypeError(f"{name} is no list")
    return held


def _facts(said: Mapping[str, Any]) -> Facts:
    return Facts(
        taken=_text(said, "taken") or "",
        host=_host(_object(said.get("host", {}))),
        components=_each(said, "components", _component),
        environments=_each(said, "environments", _environment),
        not_seen=_each(said, "not_seen", _unseen),
        messages=_each(said, "messages", _message),
        deep=_flag(said, "deep"),
        seconds=_number(said, "seconds"),
    )


def _host(said: Mapping[str, Any]) -> Host:
    return Host(
        hostname=_text(said, "hostname"),
        os=_text(said, "os"),
        kernel=_text(said, "kernel"),
        machine=_text(said, "machine"),
        virtualisation=_text(said, "virtualisation"),
        container=_text(said, "container"),
        wsl=_flag(said, "wsl"),
    )


def _component(said: Mapping[str, Any]) -> Component:
    return Component(
        id=RENAMED.get(_name(said, "id"), _name(said, "id")),
        layer=Layer(said["layer"]),
        vendor=_text(said, "vendor") or "any",
        status=Status(said["status"]),
        version=_text(said, "version"),
        build=_text(said, "build"),
        path=_text(said, "path"),
        facts=_frozen_object(said.get("facts", {})),
        source=_text(said, "source") or "",
        reason=_text(said, "reason"),
        seconds=_number(said, "seconds"),
        instances=_each(said, "instances", _instance),
        calls=_each(said, "calls", _call),
    )


def _instance(said: Mapping[str, Any]) -> Instance:
    return Instance(
        key=_name(said, "key"),
        version=_text(said, "version"),
        build=_text(said, "build"),
        path=_text(said, "path"),
        environment=_text(said, "environment"),
        status=Status(said.get("status", "present")),
        facts=_frozen_object(said.get("facts", {})),
        strengths={name: Strength(how) for name, how in _object(said.get("strengths", {})).items()},
    )


def _call(said: Mapping[str, Any]) -> Call:
    return Call(name=_name(said, "name"), seconds=_number(said, "seconds"), outcome=_text(said, "outcome") or "")


def _environment(said: Mapping[str, Any]) -> Environment:
    return Environment(
        python=_name(said, "python"),
        kind=_text(said, "kind") or "",
        version=_text(said, "version"),
        prefix=_text(said, "prefix"),
        found=_flag(said, "found"),
    )


def _unseen(said: Mapping[str, Any]) -> Unseen:
    return Unseen(what=_name(said, "what"), why=_text(said, "why") or "", enable_by=_text(said, "enable_by"))


def _message(said: Mapping[str, Any]) -> Message:
    values = _object(said.get("values", {}))
    return Message(
        kind=_name(said, "kind"),
        line=_text(said, "line") or "",
        origin=_text(said, "origin") or "",
        values={name: _name(values, name) for name in values},
        strength=Strength(said.get("strength", Strength.MESSAGE)),
    )


def _each(said: Mapping[str, Any], name: str, make: Callable[[Mapping[str, Any]], Made]) -> tuple[Made, ...]:
    return tuple(make(_object(one)) for one in _list(said, name))


def _object(value: object) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise TypeError("an object was expected")
    return value


def _name(said: Mapping[str, Any], name: str) -> str:
    value = said[name]
    if not isinstance(value, str):
        raise TypeError(f"{name} is no text")
    return value


def _text(said: Mapping[str, Any], name: str) -> str | None:
    return None if said.get(name) is None else _name(said, name)


def _flag(said: Mapping[str, Any], name: str) -> bool:
    value = said.get(name, False)
    if not isinstance(value, bool):
        raise TypeError(f"{name} is neither true nor false")
    return value


def _number(said: Mapping[str, Any], name: str) -> float:
    value = said.get(name, 0.0)
    if isinstance(value, bool) or not isinstance(value, int | float) or not -MOST_NUMBER < value < MOST_NUMBER:
        raise TypeError(f"{name} is no number")
    return float(value)


def _frozen_object(value: object) -> Mapping[str, JsonValue]:
    return {RENAMED_FACTS.get(name, name): frozen(held) for name, held in _object(value).items()}


def frozen(value: object, depth: int = MOST_DEPTH) -> JsonValue:
    """Return decoded JSON as facts hold it: lists are tuples, numbers that nobody can count with are null.

    Raises RecursionError where it is nested too deeply.
    """
    if not depth:
        raise RecursionError
    if isinstance(value, list):
        return tuple(frozen(held, depth - 1) for held in value)
    if isinstance(value, dict):
        return {name: frozen(held, depth - 1) for name, held in value.items()}
    if isinstance(value, float):
        return value if value - value == 0 else None
    if isinstance(value, int):
        return value if -MOST_NUMBER < value < MOST_NUMBER else None
    if value is None or isinstance(value, str):
        return value
    raise TypeError(f"{type(value).__name__} is no JSON")


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no JSON")


def why(error: Exception) -> str:
    """Say in one line why a text could not be decoded."""
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if isinstance(error, KeyError):
        return f"{error.args[0]} is missing"
    return " ".join(str(error).split())[:200]
