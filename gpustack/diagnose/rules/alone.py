"""The machine with some of its Pythons, as if the others were not there: those that were named or active, or one."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from gpustack.diagnose.rules import tried
from gpustack.model.command import PYTHON, for_python
from gpustack.model.facts import Status

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from gpustack.model.facts import Component, Facts
    from gpustack.model.report import Finding


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


def each(facts: Facts) -> tuple[Facts, ...]:
    """Give the machine once for each of its Pythons, the chosen one first, with what was said of that one alone."""
    names = [one.python for one in facts.environments]
    return tuple(_with(facts, name, {*names} - {name}) for name in names) if len(names) > 1 else (facts,)


def inside(finding: Finding, python: str) -> Finding:
    """Give a finding about a Python that is not the chosen one: it says which, and its commands are for that one."""
    mark, fix = finding.instance or finding.component, finding.fix
    if python in mark:
        return finding
    if fix:
        own = partial(for_python, python=PYTHON(python))
        fix = replace(fix, commands=tuple(map(own, fix.commands)), verify=fix.verify and own(fix.verify))
    return replace(finding, instance=f"{mark}:{python}", title=f"{finding.title} (in {python})", fix=fix)


def _with(facts: Facts, python: str, others: AbstractSet[str]) -> Facts:
    elsewhere = tuple(f":{other}{tried.RUN}" for other in others)
    return replace(
        facts,
        components=tuple(_without(component, others) for component in facts.components),
        environments=tuple(one for one in facts.environments if one.python == python),
        messages=tuple(one for one in facts.messages if not one.origin.endswith(elsewhere)),
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
