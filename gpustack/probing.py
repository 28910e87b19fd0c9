"""Look at this machine: start the probes side by side, take their answers, and give the facts."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Literal

from gpustack import assets, catalogue, host, targets
from gpustack.answers import parse
from gpustack.door import Door
from gpustack.model.facts import Facts
from gpustack.workers import Task, ask

if TYPE_CHECKING:
    from gpustack.catalogue import System
    from gpustack.model.facts import Environment

__all__ = ["look", "parse", "plan"]

REPORT_SECONDS = 1.0
LEAST_SECONDS = 0.5
EXERCISE_SECONDS = 55.0  # a first import from a cold disk takes tens of seconds; the deadline holds all the same


def look(
    *,
    pythons: Sequence[str] = (),
    deep: bool = False,
    timeout: float = 10.0,
    environ: Mapping[str, str] | None = None,
    door: Door | None = None,
    systems: Sequence[System] | None = None,
    meanwhile: Callable[[], object] | None = None,
) -> Facts:
    """Give the facts of this machine within ``timeout`` seconds, one of which is left for the report.

    ``deep`` imports and exercises frameworks in children; raises UsageError for a Python that is not there.
    """
    door = door or Door()
    begun = door.now()
    environ = os.environ if environ is None else environ
    environments = targets.choose(pythons, environ)
    asked = catalogue.load() if systems is None else systems
    tasks = plan(environments, targets.environment_of(environ), asked, deep=deep)
    replies = tuple(ask(tasks, door, begun + max(LEAST_SECONDS, timeout - REPORT_SECONDS), meanwhile))
    components, unseen = parse(replies)
    return Facts(
        taken=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        host=host.describe(components),
        components=components,
        environments=host.versions(environments, components),
        not_seen=unseen,
        deep=deep,
        seconds=round(door.now() - begun, 3),
    )


def plan(
    environments: Sequence[Environment], environ: Mapping[str, str], systems: Sequence[System], *, deep: bool
) -> tuple[Task, ...]:
    """Give the children to start: each risky probe alone, the rest by the Python they run in and the group they name.

    A target's Python runs as its user runs it (its own site-packages and PYTHONPATH); ours starts bare.
    """
    ours = (sys.executable, "-I", "-S", str(assets.PROBES))
    path = tuple(entry for entry in sys.path if entry)
    here = [Task(argv=ours, environ=environ, systems=group, path=path) for group in _groups(systems, "here")]
    there = [
        Task(argv=(one.python, str(assets.PROBES)), environ=environ, systems=group, environment=one.python)
        for one in environments
        for group in _groups(systems, "target")
    ]
    exercises = [
        Task(
            argv=(one.python, str(assets.PROBES)),
            environ=environ,
            systems=(replace(system, seconds=EXERCISE_SECONDS),),
            environment=one.python,
            deep=True,
        )
        for one in environments
        for system in systems
        if deep and system.deep
    ]
    return (*there, *here, *exercises)


def _groups(systems: Sequence[System], where: Literal["here", "target"]) -> list[tuple[System, ...]]:
    """Give the systems of one place by the child that they share; a risky one has a child to itself."""
    groups: dict[str, list[System]] = {}
    for system in systems:
        if getattr(system, where):
            groups.setdefault(system.id if system.alone else f"group {system.group}", []).append(system)
    return [tuple(group) for group in groups.values()]
