"""Typed access to facts: anything missing or malformed is None or empty, so that rules stay short and never raise."""

from __future__ import annotations

from collections.abc import Mapping

from gpustack.model.facts import Component, Facts, Instance, JsonValue, Status, once
from gpustack.model.report import Because

HERE = frozenset({Status.PRESENT, Status.FAILED})


def at(held: JsonValue, *names: str) -> JsonValue:
    """Return the value below these names, or None."""
    for name in names:
        if not isinstance(held, dict) and not isinstance(held, Mapping):  # the first is quick
            return None
        held = held.get(name)
    return held


def text(held: JsonValue, *names: str) -> str | None:
    """Return a non-empty text."""
    value = at(held, *names)
    return value if isinstance(value, str) and value else None


def number(held: JsonValue, *names: str) -> int | None:
    """Return a whole number."""
    value = at(held, *names)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def flag(held: JsonValue, *names: str) -> bool | None:
    """Return true or false, or None if unknown."""
    value = at(held, *names)
    return value if isinstance(value, bool) else None


def items(held: JsonValue, *names: str) -> tuple[JsonValue, ...]:
    """Return the members of a list."""
    value = at(held, *names)
    return value if isinstance(value, tuple) else ()


def texts(held: JsonValue, *names: str) -> tuple[str, ...]:
    """Return the texts of a list."""
    return tuple(value for value in items(held, *names) if isinstance(value, str))


def table(held: JsonValue, *names: str) -> Mapping[str, JsonValue]:
    """Return a table by name."""
    value = at(held, *names)
    return value if isinstance(value, Mapping) else {}


def everything(copy: Instance | Component) -> Mapping[str, JsonValue]:
    """Return version, build, path and facts of one copy, or of a component without copies."""
    return {"version": copy.version, "build": copy.build, "path": copy.path, **copy.facts}


@once
def told(facts: Facts, component: str) -> Mapping[str, JsonValue]:
    """Return version, build, path and facts of the copy in use, or of the first failed one; empty if there is none."""
    seen = facts.find(component)
    if seen is None:
        return {}
    copy = next((copy for copy in seen.instances if copy.status is Status.PRESENT), None)
    used = copy or next((copy for copy in seen.instances if copy.status is Status.FAILED), seen)
    return everything(used)


def status(facts: Facts, component: str) -> Status | None:
    """Return a component's status; None: it was not probed."""
    seen = facts.find(component)
    return seen.status if seen else None


def version(facts: Facts, component: str) -> str | None:
    """Return the version of the copy in use, or of the first failed one."""
    return text(told(facts, component), "version")


@once
def copies(facts: Facts, component: str) -> tuple[Instance, ...]:
    """Return every copy present, working or not."""
    seen = facts.find(component)
    return tuple(copy for copy in seen.instances if copy.status in HERE) if seen else ()


def because(facts: Facts, component: str, *names: str) -> Because:
    """Return a fact of the copy in use, as evidence for a finding."""
    seen = facts.find(component)
    value = at(told(facts, component), *names)
    return Because(component=component, fact=".".join(names), value=value, source=seen.source if seen else "")


def because_of(facts: Facts, component: str, copy: Instance, *names: str) -> Because:
    """Return a fact of one copy, as evidence for a finding."""
    seen = facts.find(component)
    value = at(everything(copy), *names)
    return Because(component=component, fact=".".join(names), value=value, source=seen.source if seen else "")
