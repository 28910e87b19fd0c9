"""Machines drawn from the schema of facts: every component, each fact of its type, usually with a value seen before."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from gpustack import selftest, snapshots
from gpustack.matrix.facts import ANY, EACH, Kind
from gpustack.model.facts import Component, Facts, Host, Instance, Layer, Status
from tests.schema import SCHEMA

if TYPE_CHECKING:
    from gpustack.matrix.facts import Fact, Node
    from gpustack.model.facts import JsonValue

ROOT = Path(__file__).parent
RECORDED = sorted([*(ROOT / "hosts").glob("*.json"), *(ROOT.parent / "examples").glob("*.json")])
USUAL: Mapping[Kind, tuple[JsonValue, ...]] = {
    Kind.TEXT: ("x", "failed", "/usr/lib/x", "no"),
    Kind.VERSION: ("1.0", "580.95.05", "13.0.1"),
    Kind.WHOLE: (0, 1, 2, 100, 70_000),
    Kind.NUMBER: (0.0, 2.5, 16.0, 9e9),
    Kind.FLAG: (True, False),
    Kind.LIMIT: (1024, "unlimited"),
}
NAMES = ("a", "b", "libcudnn.so.9", "torch", "CUDA_VISIBLE_DEVICES", "0-1", "nvidia-cudnn-cu13")  # in tables by name
NAMED = ("version", "build", "path")
STATES = (*[Status.PRESENT] * 6, Status.ABSENT)
COPIES = (*[Status.PRESENT] * 4, Status.FAILED)


def recorded(path: Path) -> Facts:
    """Return the facts of a recorded machine, or of an example."""
    said = json.loads(path.read_text("utf-8"))
    return snapshots.take({"schema": snapshots.SCHEMA, **said.get("facts", said)}, path.name)


@cache
def known() -> tuple[Facts, ...]:
    """Return every recorded machine, and the faulty ones of the self-test."""
    sick = ({"schema": snapshots.SCHEMA, **said} for said in selftest.sick_facts().values())
    return (*map(recorded, RECORDED), *(snapshots.take(said, "the self-test") for said in sick))


def machines(number: int, seed: int = 1) -> Iterator[Facts]:
    """Yield this many random machines, and each known one with what it lacks drawn; the same for the same seed."""
    draw = random.Random(seed)  # noqa: S311 - no secret is made of it
    for _ in range(number):
        yield _machine(draw)
    for facts in known():
        yield _filled(facts, _machine(draw), draw)


@cache
def _seen() -> Mapping[Fact, tuple[JsonValue, ...]]:
    """Return the values that each fact has on known machines."""
    found: dict[Fact, dict[JsonValue, None]] = {}
    for facts in known():
        for component in facts.components:
            for copy in component.instances:
                named = {"version": copy.version, "build": copy.build, "path": copy.path}
                for fact, value in _leaves(component.id, (), {**copy.facts, **named}):
                    found.setdefault(fact, {})[value] = None
    return {fact: tuple(values) for fact, values in found.items()}


def _leaves(component: str, at: tuple[str, ...], value: JsonValue) -> Iterator[tuple[Fact, JsonValue]]:
    if isinstance(value, Mapping):
        for name, held in value.items():
            yield from _leaves(component, (*at, name), held)
    elif isinstance(value, tuple):
        for held in value:
            yield from _leaves(component, (*at, EACH), held)
    elif value is not None and (fact := SCHEMA.at(component, *at)):
        yield fact, value


def _machine(draw: random.Random) -> Facts:
    host = Host(os="Ubuntu 24.04.3 LTS", kernel="6.8.0-50-generic", machine="x86_64")
    components = tuple(_component(name, node, draw) for name, node in SCHEMA.roots.items())
    return Facts(taken="2026-11-21T10:00:00+00:00", host=host, components=components)


def _component(name: str, node: Node, draw: random.Random) -> Component:
    status = draw.choice(STATES)
    copies = (
        tuple(_copy(number, node, draw) for number in range(draw.randint(1, 2))) if status is Status.PRESENT else ()
    )
    component = Component(id=name, layer=Layer.LIBRARY, vendor="any", status=status, source="drawn", instances=copies)
    if not copies:
        return component
    used = copies[0]
    return replace(component, version=used.version, build=used.build, path=used.path, facts=used.facts)


def _copy(number: int, node: Node, draw: random.Random) -> Instance:
    held = _value(node, draw)
    assert isinstance(held, dict)
    version, build, path = (None if (one := held.pop(name, None)) is None else str(one) for name in NAMED)
    status = draw.choice(COPIES)
    return Instance(key=f"copy {number}", version=version, build=build, path=path, status=status, facts=held)


def _value(node: Node, draw: random.Random) -> JsonValue:
    if EACH in node.below:
        return tuple(_value(node.below[EACH], draw) for _ in range(draw.randint(0, 2)))
    if not node.below:
        assert node.fact
        seen = _seen().get(node.fact)
        return draw.choice(seen) if seen and draw.random() < 0.7 else draw.choice(USUAL[node.fact.kind])
    below = {name: one for name, one in sorted(node.below.items()) if name != ANY and draw.random() < 0.85}
    named = dict.fromkeys(draw.sample(NAMES, 2), node.below[ANY]) if ANY in node.below else {}
    return {name: _value(one, draw) for name, one in {**named, **below}.items()}


def _filled(facts: Facts, others: Facts, draw: random.Random) -> Facts:
    """Return a machine whose missing facts are filled in from another."""
    more = {one.id: one for one in others.components}
    components = []
    for one in facts.components:
        other = more.pop(one.id, None)
        if other and other.instances and one.instances:
            lent = other.instances[0].facts
            copies = tuple(replace(copy, facts={**lent, **copy.facts}) for copy in one.instances)
            components.append(replace(one, facts=copies[0].facts, instances=copies))
        else:
            components.append(one)
    return replace(facts, components=(*components, *(one for one in more.values() if draw.random() < 0.5)))
