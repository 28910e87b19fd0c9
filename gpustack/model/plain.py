"""Our types as JSON, and named files read up to a limit, since they may be endless or a device."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import TYPE_CHECKING

from gpustack.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

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
    "FleetReport": "gpustack.fleet/1",
    "FleetDifference": "gpustack.fleet-diff/1",
    "Decoded": "gpustack.fleet-pairs/1",
    "Matchings": "gpustack.fleet-plan/1",
    "History": "gpustack.fleet-since/1",
}
MOST_BYTES = 130_000_000  # of text; logs can be this long
MOST_JSON, MOST_VALUES = 32_000_000, 2_000_000  # letters and values of JSON; one value costs up to 100 bytes of memory


def plain(value: object) -> object:
    """Return our types as dictionaries, lists and plain values.

    A field's trailing underscore is dropped, properties become keys, and the top-level types name their schema. What
    JSON cannot represent is replaced: NaN and infinity by null, half a surrogate pair by a question mark.
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

    It is ASCII, so every output can take it and nothing in it can control a terminal.
    """
    return json.dumps(plain(value), indent=1, allow_nan=False).replace("\x7f", "\\u007f") + "\n"


def _keys(value: object) -> dict[str, object]:
    """Return the keys and values of one of our types, in the order of its fields, preceded by its schema and kind."""
    kind = type(value)
    schema = {"schema": SCHEMAS[kind.__name__]} if kind.__name__ in SCHEMAS else {}
    told = {name: getattr(value, name) for name, held in vars(kind).items() if isinstance(held, property)}
    named = {held.name.rstrip("_"): getattr(value, held.name) for held in fields(value)}  # type: ignore[arg-type] # plain asked
    return {**schema, **told, **named}


def _text(text: str) -> str:
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def json_text(path: Path) -> str:
    """Return the text of a JSON file; raises InputError if it cannot be read or exceeds the decoding limits."""
    held = text(path, MOST_JSON)
    measure(held, str(path))
    return held


def measure(json: str, origin: str) -> None:
    """Raise InputError, naming the origin, for JSON that is too large to decode, without decoding it."""
    if len(json) > MOST_JSON:
        raise InputError(f"{origin}: more than {MOST_JSON // 1_000_000} MB of JSON is too much to read")
    if len(json) > MOST_VALUES and sum(map(json.count, ",[{")) > MOST_VALUES:
        raise InputError(f"{origin}: more than {MOST_VALUES // 1_000_000} million values of JSON are too much to read")


def text(path: Path, most: int = MOST_BYTES) -> str:
    """Return the text of a file; raises InputError if it cannot be read, is too long or is not UTF-8."""
    try:
        with path.open("rb") as file:
            data = file.read(most + 1)
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if len(data) > most:
        raise InputError(f"{path}: more than {most // 1_000_000} MB is too much to read")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path} cannot be read: it is not UTF-8") from error
