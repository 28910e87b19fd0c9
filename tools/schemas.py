"""Generate the JSON Schemas of all results from their types, in ``gpustack/schemas``: ``python -m tools.schemas``."""

# ruff: noqa: INP001 - a maintainers' program, whose folder is not a package
from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import Field, fields, is_dataclass
from pathlib import Path
from typing import Any, get_type_hints

from pydantic import TypeAdapter

from gpustack import assets
from gpustack.model import policy, writing
from gpustack.model.bench import BenchReport
from gpustack.model.difference import Difference
from gpustack.model.facts import Facts
from gpustack.model.fleet import Decoded, FleetDifference, FleetReport, History, Matchings
from gpustack.model.matrix_answer import Explanation, MatrixAnswer, MatrixTables, MatrixUpdate, SelfTest, StackMap
from gpustack.model.policy import CheckReport, Policy
from gpustack.model.report import Report
from gpustack.model.trace import Trace
from gpustack.model.writing import SCHEMAS

DIALECT = "https://json-schema.org/draft/2020-12/schema"
KINDS = (policy.Policy, policy.Gpus, policy.Ignored, policy.Raised, policy.Figures, policy.InUse, policy.Golden)
NOISE = ("title", "default")
ROOTS = {
    "report": Report,
    "stack": StackMap,
    "snapshot": Facts,
    "bench": BenchReport,
    "check": CheckReport,
    "diff": Difference,
    "explain": Explanation,
    "matrix": MatrixAnswer,
    "matrix-show": MatrixTables,
    "matrix-update": MatrixUpdate,
    "policy": Policy,
    "selftest": SelfTest,
    "trace": Trace,
    "fleet": FleetReport,
    "fleet-diff": FleetDifference,
    "fleet-pairs": Decoded,
    "fleet-plan": Matchings,
    "fleet-since": History,
}


def schema() -> dict[str, Any]:
    """Return the schema of gpustack.toml, and of [tool.gpustack] in pyproject.toml."""
    made = TypeAdapter(policy.Policy).json_schema()
    kinds = {kind.__name__: kind for kind in KINDS}
    inside = {name: _named(held, kinds.get(name)) for name, held in made.pop("$defs").items()}
    used = {name: held for name, held in inside.items() if name != "Severity"}  # its description is with its key
    return {"$schema": DIALECT, "title": "gpustack.policy/1", **_named(made, policy.Policy), "$defs": used}


def _named(held: Mapping[str, Any], kind: type | None) -> dict[str, Any]:
    """Return one type's schema with its keys as written in the file; any other key is an error."""
    kept = {key: value for key, value in held.items() if key not in NOISE}
    if kind is None:
        return kept
    properties = {_key(one): _valued(held["properties"][one.name], one) for one in fields(kind)}
    return {**kept, "properties": properties, "additionalProperties": False}


def _key(one: Field[Any]) -> str:
    return one.name.rstrip("_").replace("_", "-")


def _valued(said: Mapping[str, Any], one: Field[Any]) -> dict[str, Any]:
    """Return the allowed values of a key: from its type, unless the field itself is more specific."""
    own = one.metadata["schema"]
    told = (
        {} if {"type", "anyOf", "enum"} & set(own) else {key: value for key, value in said.items() if key not in NOISE}
    )
    kinds = [kind for kind in told.pop("anyOf", ()) if kind != {"type": "null"}]
    if kinds:
        told.update(kinds[0] if len(kinds) == 1 else {"anyOf": kinds})
    return {"description": one.metadata["about"], **told, **own}


def generate() -> Iterator[tuple[str, str]]:
    """Yield the name of each schema and its text."""
    for name, root in ROOTS.items():
        yield name, json.dumps(schema() if root is Policy else whole_schema(root), indent=1) + "\n"


def write(folder: Path) -> None:
    """Write each schema to its file."""
    for name, text in generate():
        writing.write(folder / f"{name}.json", text)


def whole_schema(root: type) -> dict[str, Any]:
    """Return the schema of our output of this type, and of all types inside it."""
    made = TypeAdapter(root).json_schema(mode="serialization")
    inside = {kind.__name__: kind for kind in _types(root)}
    named = {name: _all_named(held, inside.get(name)) for name, held in made.pop("$defs").items()}
    top = _all_named(made, root)
    const = {"schema": {"const": SCHEMAS[root.__name__]}}
    top = {**top, "properties": {**const, **top["properties"]}, "required": ["schema", *top["required"]]}
    return {"$schema": DIALECT, "title": SCHEMAS[root.__name__], **top, "$defs": named}


def _all_named(held: Mapping[str, Any], kind: type | None) -> dict[str, Any]:
    """Return one type's schema with the keys that ``plain`` writes: always all of them; further keys are allowed."""
    kept = {key: value for key, value in held.items() if key not in NOISE}
    if kind is None or "properties" not in held:
        return kept
    told = {
        name: TypeAdapter(get_type_hints(value.fget)["return"]).json_schema()
        for name, value in vars(kind).items()
        if isinstance(value, property)
    }
    plain = {name.rstrip("_"): _quiet(value) for name, value in held["properties"].items()}
    properties = {**told, **plain}
    return {**kept, "properties": properties, "required": list(properties), "additionalProperties": True}


def _quiet(value: Mapping[str, Any]) -> dict[str, Any]:
    return {key: inner for key, inner in value.items() if key not in NOISE}


def _types(kind: object) -> Iterator[type]:
    """Yield one of our types and all of our types that its fields refer to."""
    if is_dataclass(kind) and isinstance(kind, type):
        yield kind
        hints = get_type_hints(kind)
        for held in fields(kind):
            yield from _types(hints[held.name])
    for part in getattr(kind, "__args__", ()):
        yield from _types(part)


if __name__ == "__main__":
    write(assets.SCHEMAS)
