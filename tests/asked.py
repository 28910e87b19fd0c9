"""Facts that record which of them are read, so that a test can list what no rule reads."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from gpustack.diagnose import engine
from gpustack.diagnose.machine import completing, values
from gpustack.diagnose.requirements import subjects
from gpustack.diagnose.requirements.subjects import Subject
from tests.schema import MATRIX, SCHEMA

if TYPE_CHECKING:
    from collections.abc import ItemsView, Iterable, Mapping, ValuesView

    from gpustack.matrix import Matrix
    from gpustack.matrix.facts import Fact
    from gpustack.model.facts import Component, Facts, Instance, JsonValue

# A list or a table of plain values is read as a whole, by its own name.
WHOLE = ((), ("[]",), ("*",), ("[]", "[]"), ("*", "[]"), ("*", "*"))


class Asked(dict[str, "JsonValue"]):
    """A table of facts that records every name that is read from it."""

    def __init__(self, held: dict[str, JsonValue], component: str, at: tuple[str, ...], into: set[Fact]) -> None:
        """Wrap these facts of a component, found under this path."""
        self.component, self.at, self.into = component, at, into
        super().__init__({name: asked(value, component, (*at, name), into) for name, value in dict.items(held)})

    def note(self, *names: str) -> None:
        """Record that these were read."""
        for name in names:
            found = (SCHEMA.at(self.component, *self.at, name, *more) for more in WHOLE)
            self.into.update(fact for fact in found if fact)

    def __getitem__(self, name: str) -> JsonValue:
        """Return one fact."""
        self.note(name)
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:  # noqa: ANN401 - as a dictionary does
        """Return one fact, or the default."""
        self.note(name)
        return super().get(name, default)

    def items(self) -> ItemsView[str, JsonValue]:  # type: ignore[override]  # a dictionary's own type has no name
        """Return all items, which reads each."""
        self.note(*self)
        return super().items()

    def values(self) -> ValuesView[JsonValue]:  # type: ignore[override]  # as above
        """Return all values, which reads each."""
        self.note(*self)
        return super().values()


def asked(value: JsonValue, component: str, at: tuple[str, ...], into: set[Fact]) -> JsonValue:
    """Return a value whose tables, at any depth, record what is read from them."""
    if isinstance(value, dict):
        return Asked(value, component, at, into)
    return tuple(asked(one, component, (*at, "[]"), into) for one in value) if isinstance(value, tuple) else value


def noting(facts: Facts, into: set[Fact]) -> Facts:
    """Return a machine that records which of its facts are read."""
    return replace(facts, components=tuple(_component(one, into) for one in facts.components))


def _component(one: Component, into: set[Fact]) -> Component:
    copies = tuple(replace(copy, facts=Asked(dict(copy.facts), one.id, (), into)) for copy in one.instances)
    return replace(one, facts=Asked(dict(one.facts), one.id, (), into), instances=copies)


def read(machines: Iterable[Facts]) -> frozenset[Fact]:
    """Return the facts that the rules read when these machines are judged."""
    into: set[Fact] = set()
    complete, everything = completing.complete, values.everything

    def completed(facts: Facts, matrix: Matrix) -> Facts:
        return noting(complete(facts, matrix), into)

    def whole(copy: Instance | Component) -> Mapping[str, JsonValue]:
        held, facts = everything(copy), copy.facts
        return Asked(dict(held), facts.component, (), into) if isinstance(facts, Asked) else held

    def subject(*, component: str, held: Mapping[str, JsonValue], **named: Any) -> Subject:  # noqa: ANN401 - of any field
        noted = Asked(dict(held), component, (), into)  # some are rebuilt, and would record nothing
        if named.get("gpu") is held:
            named["gpu"] = noted
        return Subject(component=component, held=noted, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "complete", completed)
        patch.setattr(subjects, "Subject", subject)
        patch.setattr(values, "everything", whole)
        for facts in machines:
            engine.judge(noting(facts, into), MATRIX)
    return frozenset(into)
