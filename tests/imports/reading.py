"""Texts read as ``doctor --from`` reads them, with the result in a short form for comparison."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING

from gpustack.diagnose.engine import judge
from gpustack.imports import load
from gpustack.imports.texts import take
from gpustack.matrix import Matrix
from gpustack.model.writing import render

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpustack.model.facts import Component, Facts, Instance, JsonValue

MATRIX = Matrix()


def read(*texts: str) -> Facts:
    """Return the facts that texts reveal about one machine."""
    facts, _ = take([(f"text {number}", text) for number, text in enumerate(texts)], MATRIX)
    return facts


def given(data: bytes) -> Facts:
    """Return the facts that standard input contains."""
    return load(["-"], io.BytesIO(data), MATRIX)


def first(text: str) -> tuple[str | None, str]:
    """Return the id of the first root cause of a text, and everything that the doctor says about it, as JSON."""
    report = judge(read(text), MATRIX)
    key = next(iter(report.verdict.root_keys), None)
    found = next((one for one in json.loads(render(report))["findings"] if one["key"] == key), {"id": None})
    return found["id"], json.dumps(found, ensure_ascii=False)


def component(facts: Facts, name: str) -> Component:
    """Return a component that the text must have mentioned."""
    found = facts.find(name)
    assert found is not None, f"{name} was not read"
    return found


def copies(facts: Facts, name: str) -> dict[str, Instance]:
    """Return every copy of a component by its key."""
    return {copy.key: copy for copy in component(facts, name).instances}


def held(facts: Facts, name: str, key: str | None = None) -> Mapping[str, JsonValue]:
    """Return version, build and facts of a component's copy."""
    copy = copies(facts, name)[key] if key is not None else component(facts, name).instances[0]
    return {"version": copy.version, "build": copy.build, "path": copy.path, **copy.facts}


def version(facts: Facts, name: str) -> str | None:
    """Return the version of a component, or None if the text did not mention it."""
    found = facts.find(name)
    return found.version if found else None


def packages(facts: Facts) -> Mapping[str, JsonValue]:
    """Return the distributions that were listed."""
    said = held(facts, "packages").get("distributions")
    assert isinstance(said, dict)
    return said


def kinds(facts: Facts) -> set[str]:
    """Return the kinds of the messages that were recognised."""
    return {message.kind for message in facts.messages}
