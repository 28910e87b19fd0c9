"""Examine this machine: run the probes in parallel and turn their answers into facts."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Literal

from gpustack import assets
from gpustack.collect import catalogue, isolation, targets
from gpustack.collect import targets as surroundings
from gpustack.collect.probe_results import parse
from gpustack.collect.subprocesses import Door
from gpustack.collect.targets import Surroundings
from gpustack.collect.workers import MOST_CHILDREN, Task, ask
from gpustack.collect.workers import begin as start
from gpustack.errors import GpustackError
from gpustack.model.facts import Environment, Facts, Layer

if TYPE_CHECKING:
    from gpustack.collect.catalogue import System

__all__ = ["begin", "look", "parse", "plan"]

REPORT_SECONDS = 1.0
LEAST_SECONDS = 0.5
SHARE_OF_MANY = 0.25  # of the remaining time, for one probe
SLOWEST = "libcuda"  # starting CUDA takes longest; OpenCL uses the same driver and starts faster in the same process
EXERCISE_SECONDS = 55.0  # a first import from a cold disk takes tens of seconds; the deadline still applies


def begin() -> None:
    """Start the slowest probe of this machine; ``look`` takes over its child."""
    with suppress(GpustackError):  # ``look`` reports it
        start(plan((), targets.environment_of(os.environ), catalogue.load(), deep=False)[0], Door())


def look(
    *,
    pythons: Sequence[str] = (),
    deep: bool = False,
    all_envs: bool = False,
    timeout: float = 10.0,
    environ: Mapping[str, str] | None = None,
    door: Door | None = None,
    systems: Sequence[System] | None = None,
    meanwhile: Callable[[], object] | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> Facts:
    """Return the facts of this machine within ``timeout`` seconds, one of which is reserved for the report.

    ``deep`` imports and runs frameworks and libraries in children; ``all_envs`` searches for further Pythons, and
    ``progress`` receives the finished and total counts; raises UsageError for a Python that does not exist.
    """
    door = door or Door()
    begun = door.now()
    environ = os.environ if environ is None else environ
    environments = targets.choose(pythons, environ)
    left = max(LEAST_SECONDS, timeout - REPORT_SECONDS)
    asked = patient(catalogue.load(), left, many=deep or all_envs) if systems is None else systems
    deadline = begun + left
    folder = isolation.here()
    around = surroundings.look(environments, environ, folder, door, deadline) if all_envs else Surroundings()
    environments += around.environments
    programs = targets.programs(environments, environ, door, min(targets.SECONDS, left))
    tasks = plan(environments, targets.environment_of(environ), asked, deep=deep, programs=programs)
    most = _at_a_time(deep=deep) if deep or around.environments else MOST_CHILDREN
    told = progress and _counted(environments, progress)
    replies = tuple(ask(tasks, door, deadline, meanwhile, most=most, progress=told))
    beside = {one.python for one in around.environments}
    components, unseen = parse(replies, beside)
    doubles = surroundings.doubles(components, beside)
    if doubles:
        environments = tuple(one for one in environments if one.python not in doubles)
        components, unseen = parse([one for one in replies if one.environment not in doubles], beside)
    components = surroundings.noted(components, around.kernels)
    return Facts(
        taken=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        host=catalogue.describe(components),
        components=components,
        environments=catalogue.versions(environments, components),
        not_seen=(*around.not_seen, *unseen),
        deep=deep,
        seconds=round(door.now() - begun, 3),
    )


def patient(systems: Sequence[System], left: float, *, many: bool) -> tuple[System, ...]:
    """Return the systems with the seconds each may take: slow libraries get more while time remains.

    A risky probe has its own child and delays no other, so it gets all the remaining time, or a share of it if there
    are ``many`` children waiting for their turn. One that shares a child keeps its own limit.
    """
    alone = left * SHARE_OF_MANY if many else left
    return tuple(replace(one, seconds=min(left, max(one.seconds, alone if one.alone else 0.0))) for one in systems)


def plan(
    environments: Sequence[Environment],
    environ: Mapping[str, str],
    systems: Sequence[System],
    *,
    deep: bool,
    programs: Mapping[str, str] | None = None,
) -> tuple[Task, ...]:
    """Return the children to start: each risky probe alone, the rest by the Python they run in and the group they name.

    A target's Python runs as its user runs it (its own site-packages and PYTHONPATH), with the program that
    ``programs`` names in place of a shim; ours starts bare. The machine's risky probes come first, since drivers take
    longest to answer; discovered Pythons come last, each with one child for everything that does not need its own:
    there may be many.
    """
    path, started = tuple(isolation.path()), dict(programs or {})
    here = [Task(argv=targets.OURS, environ=environ, systems=group, path=path) for group in groups(systems, "here")]
    there = [
        Task(
            argv=(started.get(one.python, one.python), str(assets.RUNNER)),
            environ=environ,
            systems=group,
            environment=one.python,
        )
        for one in sorted(environments, key=lambda one: one.found)
        for group in groups(systems, "target", together=one.found)
    ]
    exercises = [
        Task(
            argv=(started.get(one.python, one.python), str(assets.RUNNER)),
            environ=environ,
            systems=(replace(system, seconds=EXERCISE_SECONDS),),
            environment=one.python,
            deep=True,
        )
        for one in environments
        for system in sorted(systems, key=lambda system: system.layer is not Layer.FRAMEWORK)
        if deep and system.deep
    ]
    found = {one.python for one in environments if one.found}
    here.sort(key=lambda task: (task.systems[0].id != SLOWEST, not task.systems[0].alone))
    return tuple(sorted((*here, *there, *exercises), key=lambda task: task.environment in found))


def groups(
    systems: Sequence[System], where: Literal["here", "target"], *, together: bool = False
) -> list[tuple[System, ...]]:
    """Return the systems of one place by the child that they share; a risky one gets its own, or starts its group's."""
    groups: dict[str, list[System]] = {}
    for system in systems:
        if getattr(system, where):
            group = "group" if together else f"group {system.group}"
            groups.setdefault(system.id if system.alone and not system.group else group, []).append(system)
    return [tuple(group) for group in groups.values()]


def _at_a_time(*, deep: bool) -> int:
    """Return how many children may run at once if there are many: a running framework takes gigabytes."""
    processors = len(os.sched_getaffinity(0))
    return max(4, min(processors // 2, 8)) if deep else max(4, min(processors * 2, 16))


def _counted(
    environments: Sequence[Environment], progress: Callable[[int, int], object]
) -> Callable[[Sequence[Task]], object]:
    """Return a function that reports how many Pythons are done, given the unfinished tasks."""
    return lambda left: progress(
        len(environments) - len({task.environment for task in left if task.environment}), len(environments)
    )
