"""What a child that measures gets from its surroundings: the variables, and the cuBLASLt that is meant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from gpustack import targets
from gpustack.bench import libraries

# The first would have fp32 measured as tf32 or the reverse; with the second the gate would wait for itself.
UNSET = frozenset({"NVIDIA_TF32_OVERRIDE", "CUDA_LAUNCH_BLOCKING"})


def variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Give the environment of a child that measures: ours without what would falsify a figure."""
    kept = {name: value for name, value in environ.items() if name not in UNSET}
    return {**kept, "CUDA_PYTHON_DISABLE_MAJOR_VERSION_WARNING": "1", "PYTHONDONTWRITEBYTECODE": "1"}


def library(pythons: Sequence[str], environ: Mapping[str, str]) -> str | None:
    """Give the cuBLASLt that a framework of the first of these Pythons would load, or None where it has none."""
    chosen = targets.choose(pythons, environ)[0]
    own = str(Path(environ.get("HOME", "/nowhere"), ".local"))
    prefixes = [chosen.prefix] if chosen.prefix else []
    return libraries.of_environment([*prefixes, *([own] if chosen.kind == "system" else [])])
