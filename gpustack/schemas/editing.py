"""The JSON Schema of a policy, for editors: from its types, with what each key means and which values it takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field, fields
from typing import Any

from pydantic import TypeAdapter

from gpustack.model import policy

DIALECT = "https://json-schema.org/draft/2020-12/schema"
KINDS = (policy.Policy, policy.Gpus, policy.Ignored, policy.Raised, policy.Figures, policy.InUse, policy.Golden)
NOISE = ("title", "default")


def schema() -> dict[str, Any]:
    """Give the schema of gpustack.toml, and of [tool.gpustack] in pyproject.toml."""
    made = TypeAdapter(policy.Policy).json_schema()
    kinds = {kind.__name__: kind for kind in KINDS}
    inside = {name: _named(held, kinds.get(name)) for name, held in made.pop("$defs").items()}
    used = {name: held for name, held in inside.items() if name != "Severity"}  # its words stand with its key
    return {"$schema": DIALECT, "title": "gpustack.policy/1", **_named(made, policy.Policy), "$defs": used}


def _named(held: Mapping[str, Any], kind: type | None) -> dict[str, Any]:
    """Give one type's schema with its keys as they are written in the file; any other key is a mistake."""
    kept = {key: value for key, value in held.items() if key not in NOISE}
    if kind is None:
        return kept
    properties = {_key(one): _valued(held["properties"][one.name], one) for one in fields(kind)}
    return {**kept, "properties": properties, "additionalProperties": False}


def _key(one: Field[Any]) -> str:
    return one.name.rstrip("_").replace("_", "-")


def _valued(said: Mapping[str, Any], one: Field[Any]) -> dict[str, Any]:
    """Give what a key may hold: what the type says, but where the field itself says it more closely."""
    own = one.metadata["schema"]
    told = (
        {} if {"type", "anyOf", "enum"} & set(own) else {key: value for key, value in said.items() if key not in NOISE}
    )
    kinds = [kind for kind in told.pop("anyOf", ()) if kind != {"type": "null"}]
    if kinds:
        told.update(kinds[0] if len(kinds) == 1 else {"anyOf": kinds})
    return {"description": one.metadata["about"], **told, **own}
