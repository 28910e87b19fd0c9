"""The machine with the Pythons that were named or are active, as if those that were merely found were not there."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gpustack.model.facts import Status

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from gpustack.model.facts import Component, Facts


def alone(facts: Facts) -> Facts:
    """Give the facts without what lies in a Python that was found by looking around; the same where none was."""
    found = {one.python for one in facts.environments if one.found}
    if not found:
        return facts
    return replace(
        facts,
        components=tuple(_without(component, found) for component in facts.components),
        environments=tuple(one for one in facts.environments if not one.found),
    )


def _without(component: Component, found: AbstractSet[str]) -> Component:
    kept = tuple(copy for copy in component.instances if copy.environment not in found)
    if len(kept) == len(component.instances):
        return component
    used = next((copy for copy in kept if copy.status is Status.PRESENT), None)
    return replace(
        component,
        status=Status.PRESENT if used else kept[0].status if kept else Status.ABSENT,
        version=used.version if used else None,
        build=used.build if used else None,
        path=used.path if used else None,
        facts=used.facts if used else {},
        instances=kept,
    )
