"""Our types as JSON: the one place where the names of keys are made."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum

SCHEMAS = {
    "Report": "gpustack.report/1",
    "StackMap": "gpustack.stack/1",
    "Facts": "gpustack.snapshot/1",
    "BenchReport": "gpustack.bench/1",
    "CheckReport": "gpustack.check/1",
    "Difference": "gpustack.diff/1",
    "Explanation": "gpustack.explain/1",
    "MatrixAnswer": "gpustack.matrix/1",
    "MatrixTables": "gpustack.matrix-show/1",
    "MatrixUpdate": "gpustack.matrix-update/1",
    "SelfTest": "gpustack.selftest/1",
    "Trace": "gpustack.trace/1",
}


def plain(value: object) -> object:
    """Return dictionaries, lists and plain values for our types.

    A trailing underscore of a field is dropped, a property is a key too, and the largest types name their schema.
    What JSON cannot say becomes what it can: a number that is none is null, half a surrogate pair a question mark.
    """
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value) and not isinstance(value, type):
        return {name: plain(held) for name, held in _keys(value).items()}
    if isinstance(value, Mapping):
        return {_text(str(name)): plain(held) for name, held in value.items()}
    if isinstance(value, tuple | list):
        return [plain(held) for held in value]
    if isinstance(value, str):
        return _text(value)
    return value if not isinstance(value, float) or value - value == 0 else None


def render(value: object) -> str:
    """Return the JSON text of a report or snapshot, ending with a newline.

    It is ASCII: every output can take it, and nothing in it can steer a terminal.
    """
    return json.dumps(plain(value), indent=1, allow_nan=False).replace("\x7f", "\\u007f") + "\n"


def _keys(value: object) -> dict[str, object]:
    """Return keys and values of one of our types, in the order of its fields, after what it is and is called."""
    kind = type(value)
    schema = {"schema": SCHEMAS[kind.__name__]} if kind.__name__ in SCHEMAS else {}
    told = {name: getattr(value, name) for name, held in vars(kind).items() if isinstance(held, property)}
    named = {held.name.rstrip("_"): getattr(value, held.name) for held in fields(value)}  # type: ignore[arg-type] # plain asked
    return {**schema, **told, **named}


def _text(text: str) -> str:
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
