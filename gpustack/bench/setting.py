"""What a child that measures gets from its surroundings: the variables, and the cuBLASLt and NCCL that are meant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from gpustack.bench import libraries
from gpustack.collect import targets

# The first would have fp32 measured as tf32 or the reverse; with the second the gate would wait for itself.
UNSET = frozenset({"NVIDIA_TF32_OVERRIDE", "CUDA_LAUNCH_BLOCKING"})
# NVLink multicast belongs to the whole host, and one who fails with it takes it from all: who wants it sets it himself.
UNLESS_SET = {"NCCL_NVLS_ENABLE": "0"}


def variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Give the environment of a child that measures: ours without what would falsify a figure."""
    kept = {name: value for name, value in environ.items() if name not in UNSET}
    return {**UNLESS_SET, **kept, "CUDA_PYTHON_DISABLE_MAJOR_VERSION_WARNING": "1", "PYTHONDONTWRITEBYTECODE": "1"}


def library(pythons: Sequence[str], environ: Mapping[str, str]) -> str | None:
    """Give the cuBLASLt that a framework of the first of these Pythons would load, or None where it has none."""
    return libraries.of_environment(_prefixes(pythons, environ))


def collective(pythons: Sequence[str], environ: Mapping[str, str]) -> str | None:
    """Give the NCCL that a framework of the first of these Pythons would load, or None where it has none."""
    return libraries.of_environment(_prefixes(pythons, environ), "nccl", libraries.NCCL_WHEELS)


def _prefixes(pythons: Sequence[str], environ: Mapping[str, str]) -> list[str]:
    chosen = targets.choose(pythons, environ)[0]
    own = str(Path(environ.get("HOME", "/nowhere"), ".local"))
    prefixes = [chosen.prefix] if chosen.prefix else []
    return [*prefixes, *([own] if chosen.kind == "system" else [])]
