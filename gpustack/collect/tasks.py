"""What children are asked, and what comes back."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpustack.collect.catalogue import System

PATIENCE = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """Systems to ask after in one Python: ``argv`` starts it, ``environment`` is its path (None: gpustack's own).

    ``path`` is appended to that Python's search path, for the few libraries of ours that a probe may ask; ``more`` is
    what else the runner of probes is given (the root of an image, and what is known of it).
    """

    argv: tuple[str, ...]
    environ: Mapping[str, str]
    systems: tuple[System, ...]
    environment: str | None = None
    path: tuple[str, ...] = ()
    deep: bool = False
    more: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What came back for one system: the probe's own answer, or how it failed to give one (``failure``)."""

    system: System
    environment: str | None
    answer: Mapping[str, Any] | None = None
    failure: str | None = None
    asked: bool = True
    deep: bool = False
    seconds: float = 0.0
    step: str | None = None  # of a trial, at which it died or was ended


def question(task: Task, systems: Sequence[System]) -> str:
    """Return what a child is asked: these systems of the task, with the time that what they start may take."""
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
