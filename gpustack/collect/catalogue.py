"""The catalogue of probes, the host data they receive, and the tasks that run them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from gpustack import assets
from gpustack.errors import BrokenError
from gpustack.model import field, record, replace
from gpustack.model.facts import Component, Environment, Host, JsonValue, Layer

PATIENCE = 0.5
ADDED: list[System] = []  # systems of plugins


def describe(components: Sequence[Component]) -> Host:
    """Return a summary of the machine; what no probe observed is None."""
    kernel = next((seen for seen in components if seen.id == "linux-kernel"), None)
    facts = kernel.facts if kernel else {}
    return Host(
        hostname=_text(facts.get("hostname")),
        os=_text(facts.get("os")),
        kernel=kernel.version if kernel else None,
        machine=_text(facts.get("machine")),
        virtualisation=_text(facts.get("virtualisation")),
        container=_text(facts.get("container")),
        wsl=facts.get("wsl") is True,
    )


def versions(environments: Sequence[Environment], components: Sequence[Component]) -> tuple[Environment, ...]:
    """Return the environments with the versions that their own Pythons reported."""
    python = next((seen for seen in components if seen.id == "python"), None)
    told = {copy.environment: copy.version for copy in python.instances} if python else {}
    return tuple(replace(one, version=told.get(one.python)) for one in environments)


def _text(value: JsonValue) -> str | None:
    return value if isinstance(value, str) else None


@record
class System:
    """One row: a system of the stack, its probe, and how it is run. ``data`` is the row as the probe receives it."""

    id: str
    layer: Layer
    vendor: str
    here: bool
    target: bool
    alone: bool
    deep: bool
    group: str
    seconds: float
    data: Mapping[str, Any]


def load() -> tuple[System, ...]:
    """Return every row in file order, followed by those of plugins."""
    return (*_shipped(), *ADDED)


@cache
def _shipped() -> tuple[System, ...]:
    path = assets.PROBES / "catalogue.json"
    try:
        rows = json.loads(path.read_text("utf-8"))["systems"]
        return tuple(system(row) for row in rows)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BrokenError(f"the shipped catalogue of probes is damaged: {path.name}: {error}") from error


def question(name: str, seconds: float, **data: object) -> System:
    """Return a question of our own, asked like those about systems, with its program's input."""
    row = {"id": name, "layer": Layer.ENVIRONMENT, "vendor": "any", "where": "system", "seconds": seconds}
    return replace(system(row), data={"id": name, **data})


def system(row: Mapping[str, Any]) -> System:
    """Return a row of the catalogue; raises KeyError, TypeError or ValueError for an invalid one."""
    return System(
        id=row["id"],
        layer=Layer(row["layer"]),
        vendor=row["vendor"],
        here=row["where"] in {"system", "both"},
        target=row["where"] in {"target", "both"},
        alone=row.get("alone", False),
        deep=row.get("deep", False),
        group=row.get("group", ""),
        seconds=row.get("seconds", 5.0),
        data=row,
    )


@record
class Task:
    """The systems to probe in one Python: ``argv`` starts it, ``environment`` is its path (None: gpustack's own).

    ``path`` is appended to that Python's search path, for the few libraries of ours that a probe may use; ``more`` is
    further input for the runner of probes (the root of an image, and what is known about it).
    """

    argv: tuple[str, ...]
    environ: Mapping[str, str]
    systems: tuple[System, ...]
    environment: str | None = None
    path: tuple[str, ...] = ()
    deep: bool = False
    more: Mapping[str, Any] = field(default_factory=dict)


@record
class Reply:
    """The reply for one system: the probe's own answer, or how it failed to give one (``failure``)."""

    system: System
    environment: str | None
    answer: Mapping[str, Any] | None = None
    failure: str | None = None
    asked: bool = True
    deep: bool = False
    seconds: float = 0.0
    step: str | None = None  # of a trial, at which it crashed or was killed


def line_for(task: Task, systems: Sequence[System]) -> str:
    """Return a child's input: the systems of the task, with the time limit for programs they start."""
    most = max(system.seconds for system in systems)
    return json.dumps(
        {
            "rows": [dict(system.data) for system in systems],
            "deep": task.deep,
            "steps": task.deep,
            "bound": os.getpid(),
            "seconds": most - min(PATIENCE, most / 2),
            "path": task.path,
            "environment": task.environment,
            **task.more,
        }
    )
