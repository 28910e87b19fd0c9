"""The schema of facts: what a probe or a reader may state about a component, with type, unit and meaning.

``facts.toml`` has one row for each fact, named by its path: ``fabric.state``, ``links[].active`` (of each member of a
list), ``pins.*`` (of each name in a table). Tests check every fact against it; values from messages are parsed by its
types.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cache
from typing import TYPE_CHECKING

from gpustack.model import record

if TYPE_CHECKING:
    from gpustack.matrix import Matrix
    from gpustack.model.facts import JsonValue

STEPS = re.compile(r"\[\]|[^.\[\]]+")
EACH, ANY = "[]", "*"  # a member of a list, and a value in a table whose names are not known beforehand
VERSION = re.compile(r"\d[\w.+:~!-]*")
DIGITS, DECIMAL = re.compile(r"[0-9]{1,15}"), re.compile(r"[0-9]{1,15}(?:\.[0-9]{1,9})?")
SIZE, UNITS = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,6})?) ?([KMGT])(?:i?B)?", re.IGNORECASE), "KMGT"
TUPLE = re.compile(r",\s*(?=\d)")


class Kind(str, Enum):
    """The type of a fact. ``limit`` is a whole number or the word unlimited; null is allowed for each."""

    TEXT = "text"
    VERSION = "version"
    WHOLE = "whole"
    NUMBER = "number"
    FLAG = "flag"
    LIMIT = "limit"

    def holds(self, value: JsonValue) -> bool:
        """Return whether a value is of this type."""
        whole = isinstance(value, int) and not isinstance(value, bool)
        if self is Kind.FLAG:
            return isinstance(value, bool)
        if self is Kind.NUMBER:
            return whole or isinstance(value, float)
        if self is Kind.VERSION:
            return isinstance(value, str) and bool(VERSION.fullmatch(value))
        return isinstance(value, str) if self is Kind.TEXT else whole or (self is Kind.LIMIT and value == "unlimited")

    def parse(self, text: str) -> JsonValue:
        """Return the value that a text spells, or None if it does not fit this type; (9, 1, 0) is version 9.1.0."""
        value: JsonValue = TUPLE.sub(".", text) if self is Kind.VERSION else text
        if self in {Kind.WHOLE, Kind.LIMIT} and DIGITS.fullmatch(text):
            value = int(text)
        if self is Kind.NUMBER and DECIMAL.fullmatch(text):
            value = float(text)
        return value if self.holds(value) else None


@record
class Fact:
    """One fact of a component. ``informational``: no requirement and no rule reads it."""

    component: str
    path: str
    kind: Kind
    what: str
    unit: str | None = None
    informational: bool = False

    def parse(self, text: str) -> JsonValue:
        """Return the value that a text spells, 64M of bytes too; None if it does not fit the fact's type."""
        size = SIZE.fullmatch(text) if self.unit == "bytes" else None
        return int(float(size[1]) * 1024 ** (1 + UNITS.index(size[2].upper()))) if size else self.kind.parse(text)


@dataclass(slots=True)
class Node:
    """One place in the schema: a fact, or places below it by name, ``[]`` or ``*``."""

    fact: Fact | None = None
    below: dict[str, Node] = field(default_factory=dict)


class Schema:
    """Every fact of every component."""

    def __init__(self, matrix: Matrix) -> None:
        """Read the table: a block describes the component in its name, or those that ``of`` lists."""
        table = matrix.table("facts")
        self.facts = tuple(
            fact
            for block, rows in table["facts"].items()
            for component in table["of"].get(block, (block,))
            for fact in facts_of(component, rows)
        )
        self.roots: dict[str, Node] = {}
        for fact in self.facts:
            node = self.roots.setdefault(fact.component, Node())
            for step in STEPS.findall(fact.path):
                node = node.below.setdefault(step, Node())
            node.fact = fact

    def at(self, component: str, *names: str) -> Fact | None:
        """Return the fact at this path; ``[]`` stands for each member of a list."""
        node = self.roots.get(component)
        for name in names:
            node = (node.below.get(name) or node.below.get(ANY)) if node else None
        return node.fact if node else None


@cache
def schema(matrix: Matrix) -> Schema:
    """Return the schema of this matrix, read once."""
    return Schema(matrix)


def facts_of(component: str, rows: Mapping[str, Mapping[str, str | bool]]) -> Iterator[Fact]:
    """Yield the facts in a block of the table; raises KeyError or ValueError for an invalid row."""
    for path, row in rows.items():
        yield Fact(
            component=component,
            path=path,
            kind=Kind(row["type"]),
            what=str(row["what"]),
            unit=str(row["unit"]) if "unit" in row else None,
            informational=bool(row.get("informational")),
        )
