"""Decoded JSON and TOML converted to our types: the types of a dataclass's fields say how values are read."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum
from functools import cache
from types import UnionType
from typing import Any, TypeVar, Union, cast, get_args, get_origin

from gpustack.model.command import NOTHING, Command, reread
from gpustack.model.facts import JsonValue

MOST_DEPTH = 100  # levels of nesting; facts have a dozen
MOST_NUMBER = 2**70  # above the largest number of any machine, and small enough for any arithmetic
KINDS: Mapping[type, str] = {
    str: "is not text",
    int: "is not a whole number",
    bool: "is neither true nor false",
    list: "is not a list",
    dict: "is not an object",
}
FAULTS = (KeyError, TypeError, ValueError)

Made = TypeVar("Made")
Reader = Callable[[Any], Any]


class MisfitError(ValueError):
    """A value that does not fit its type: what is wrong with it, and its place, such as ``components[3].id``."""

    def __init__(self, says: str, place: str = "") -> None:
        super().__init__(f"{place.lstrip('.')} {says}".strip())
        self.says, self.place = says, place


def made(said: object, kind: type[Made]) -> Made:
    """Return one of our types from decoded JSON or TOML; raises MisfitError, a ValueError, if they do not fit.

    Unknown keys are ignored; a missing key gets the field's default, if it has one.
    """
    return cast("Made", reader(kind)(said))  # type: ignore[arg-type]  # a class can be a key


def key(name: str, read: Reader | None = None) -> Mapping[str, object]:
    """Return the metadata of a field that has another name in the file or is read in its own way."""
    return {"key": name, "read": read}


def whole(read: Reader) -> Mapping[str, object]:
    """Return the metadata of a field that is made from the whole object or row."""
    return {"whole": read}


@cache
def reader(hint: Any) -> Reader:  # noqa: ANN401 - a hint has no type of its own
    """Return the function that converts a decoded value to this type; it raises MisfitError if the value is wrong."""
    origin, inside = get_origin(hint), get_args(hint)
    if hint is Command:
        return lambda said: reread(said) or NOTHING
    if hint is JsonValue:
        return frozen
    if origin in {Union, UnionType}:
        present = reader(next(one for one in inside if one is not type(None)))
        return lambda said: None if said is None else present(said)
    if origin in {tuple, frozenset}:
        return _listed(origin, inside)
    return _mapped(*inside) if origin is not None else _plain(hint)


def _plain(kind: type) -> Reader:
    if hasattr(kind, "parse"):
        return _parsed(kind)
    if is_dataclass(kind):
        return _record(kind)
    if issubclass(kind, Enum):
        return kind
    if kind is float:
        return _number
    return lambda said: said if type(said) is kind else _misfit(kind)


def _number(said: object) -> float:
    if isinstance(said, bool) or not isinstance(said, int | float) or not -MOST_NUMBER < said < MOST_NUMBER:
        raise MisfitError("is not a number")
    return float(said)


def _parsed(kind: Any) -> Reader:  # noqa: ANN401 - any type with ``parse``
    def read(said: object) -> object:
        found = kind.parse(said) if isinstance(said, str) else _misfit(str)
        if found is None:
            raise MisfitError(f"is not a {kind.__name__}: {said!r:.80}")
        return found

    return read


def _listed(made_of: type, inside: tuple[Any, ...]) -> Reader:
    """Return the reader of a list: of any length, or with as many members as the hint names."""
    kinds = [reader(one) for one in inside if one is not Ellipsis]

    def read(said: object) -> object:
        held = said if isinstance(said, list) else _misfit(list)
        if inside[-1] is not Ellipsis and made_of is tuple and len(held) != len(kinds):
            raise MisfitError(f"has {len(held)} values, not {len(kinds)}")
        try:
            if len(kinds) == 1:
                return made_of(map(kinds[0], held))
            return made_of(one(value) for one, value in zip(kinds, held, strict=True))
        except FAULTS:
            for number, value in enumerate(held):
                _placed(kinds[min(number, len(kinds) - 1)], value, f"[{number}]")
            raise

    return read


def _mapped(name: Any, value: Any) -> Reader:  # noqa: ANN401 - hints
    of_name, of_value = reader(name) if name is not str else str, reader(value)

    def read(said: object) -> object:
        held = said if isinstance(said, dict) else _misfit(dict)
        try:
            return {of_name(one): of_value(inner) for one, inner in held.items()}
        except FAULTS:  # which one it was is asked then
            for one, inner in held.items():
                _placed(of_value, inner, f"[{one!r:.40}]")
            raise

    return read


def _record(kind: type) -> Reader:
    owners = [one for one in reversed(kind.__mro__) if "__annotations__" in vars(one)]
    # Like ``typing.get_type_hints``, but most words are the same throughout a module.
    hints = {name: _meant(text, one.__module__) for one in owners for name, text in one.__annotations__.items()}
    held = {one: _reader_of(one, hints[one.name]) for one in fields(kind) if one.init}
    wholes = [(one.name, read) for one, read in held.items() if "whole" in one.metadata]
    keyed = [(one.name, _key(one), read) for one, read in held.items() if "whole" not in one.metadata]
    needed = [_key(one) for one in held if one.default is MISSING and one.default_factory is MISSING]

    def read(said: object) -> object:
        held = said if isinstance(said, dict) else _misfit(dict)
        try:
            values = {name: convert(held[at]) for name, at, convert in keyed if at in held}
            for name, convert in wholes:
                values[name] = convert(held)
            return kind(**values)
        except FAULTS:  # which one it was is asked then
            for _, at, convert in keyed:
                if at in held:
                    _placed(convert, held[at], f".{at}")
                elif at in needed:
                    raise MisfitError("is missing", f".{at}") from None
            raise

    return read


@cache
def _meant(text: str, module: str) -> Any:  # noqa: ANN401 - a hint
    return eval(text, vars(sys.modules[module]))  # noqa: S307 - an annotation of our own


def _key(one: Field[Any]) -> str:
    return str(one.metadata.get("key", one.name.rstrip("_")))


def _reader_of(one: Field[Any], hint: Any) -> Reader:  # noqa: ANN401 - a hint
    """Return how the value of a field is read; null becomes the default text if there is one."""
    convert: Reader = one.metadata.get("whole") or one.metadata.get("read") or reader(hint)
    if hint is not str or one.default is MISSING:
        return convert
    return lambda said: one.default if said is None else convert(said)


def _placed(convert: Reader, said: object, place: str) -> Any:  # noqa: ANN401 - what the reader makes
    """Return the converted value; if it does not fit, the error includes the place."""
    try:
        return convert(said)
    except MisfitError as error:
        raise MisfitError(error.says, place + error.place) from error
    except FAULTS as error:
        raise MisfitError(f"is wrong: {' '.join(str(error).split())}", place) from error


def _misfit(kind: type) -> Any:  # noqa: ANN401 - it never returns
    raise MisfitError(KINDS[kind])


def frozen(value: object, depth: int = MOST_DEPTH) -> JsonValue:
    """Return decoded JSON as facts store it: lists become tuples, NaN, infinite and huge numbers null.

    Raises RecursionError if it is nested too deeply.
    """
    if value is None or isinstance(value, str | bool):
        return value
    if not depth:
        raise RecursionError
    if isinstance(value, list):
        return tuple([frozen(held, depth - 1) for held in value])
    if isinstance(value, dict):
        return {name: frozen(held, depth - 1) for name, held in value.items()}
    if isinstance(value, float):
        return value if value - value == 0 else None
    if isinstance(value, int):
        return value if -MOST_NUMBER < value < MOST_NUMBER else None
    raise TypeError(f"{type(value).__name__} is not JSON")
