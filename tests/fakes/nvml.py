"""The stand-in NVML: queried in this process for facts, and through all of the probing where it hangs or crashes."""

from __future__ import annotations

import ctypes
import importlib.util
import json
import os
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pynvml

from gpustack.collect import catalogue, probing
from gpustack.model.facts import Environment
from tests.told import ToldHost, load

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from types import ModuleType

    from gpustack.collect.workers import Task
    from gpustack.model.facts import Component

SONAME = "libnvidia-ml.so.1"
PROBES = {"nvml": "driver/nvml.py", "gpu": "hardware/gpu.py", "nvlink": "hardware/nvlink.py"}
CODES: tuple[int, ...] = tuple(sorted(value for name, value in vars(pynvml).items() if name.startswith("NVML_ERROR_")))


class StandIn:
    """One compiled stand-in and an nvidia-ml-py of its own that calls it."""

    def __init__(self, library: Path) -> None:
        """Load it."""
        self.library = library
        self.loaded = ctypes.CDLL(str(library))
        self.module = fresh()
        vars(self.module)["nvmlLib"] = self.loaded

    def host(self, **told: Any) -> ToldHost:  # noqa: ANN401 - whatever a told host takes
        """Return a host on which this is the driver."""
        return ToldHost(
            libraries={SONAME: self.loaded}, modules={"pynvml": self.module}, maps=[str(self.library)], **told
        )

    def ask(self, probe: str, **told: Any) -> Any:  # noqa: ANN401 - a probe's answer
        """Return what a probe answers on that host."""
        return load(PROBES[probe])["probe"](self.host(**told))

    def look(self, *ids: str, seconds: Mapping[str, float] | None = None, **environ: str) -> dict[str, Component]:
        """Return the components that probes in their own children report for this driver; ``seconds`` are limits."""
        limits = seconds or {}
        rows = [system for system in catalogue.load() if system.id in (ids or PROBES)]
        systems = [replace(system, seconds=limits.get(system.id, 8.0)) for system in rows]
        facts = probing.look(pythons=[sys.executable], systems=systems, environ=self.environ(**environ))
        return {component.id: component for component in facts.components}

    def tasks(self, probe: str, plans: Mapping[str, str]) -> list[Task]:
        """Return a child for each plan; a task has the plan's name where the path of its Python would be."""
        systems = [system for system in catalogue.load() if system.id == probe]
        ours = (Environment(python=sys.executable, kind="own"),)
        return [
            replace(task, environment=name)
            for name, plan in plans.items()
            for task in probing.plan(ours, self.environ(NVML_FAKE=plan), systems, deep=False)
        ]

    def environ(self, **more: str) -> dict[str, str]:
        """Return an environment in which the loader finds this driver first."""
        return {"PATH": os.environ["PATH"], "LD_LIBRARY_PATH": str(self.library.parent), **more}


def facts_of(component: Component) -> list[dict[str, Any]]:
    """Return the facts of each copy, as a reader of the JSON gets them."""
    return [json.loads(json.dumps(copy.facts)) for copy in component.instances]


def fresh() -> ModuleType:
    """Return an nvidia-ml-py that shares nothing with another."""
    spec = importlib.util.spec_from_file_location("pynvml_of_a_stand_in", pynvml.__file__)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # while it is imported it looks itself up there
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules[spec.name]
    return module
