"""Which cuBLASLt and NCCL are measured: the copy that a framework of the chosen Python loads, else the first here."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

PLACES = ("lib/python3*/site-packages", "lib/python3*/dist-packages", "local/lib/python3*/dist-packages")
WHEELS = ("nvidia/cublas/lib", "nvidia/cu13/lib", "nvidia/cu14/lib", "torch/lib")
NCCL_WHEELS = ("nvidia/nccl/lib", "torch/lib")  # one folder for every major version of CUDA


def of_environment(prefixes: Sequence[str], name: str = "cublasLt", wheels: Sequence[str] = WHEELS) -> str | None:
    """Give the youngest copy of a library in the first of these environments that has one: a wheel's, or in its lib."""
    whole = re.compile(rf"lib{name}\.so\.(\d+)")
    for prefix in map(Path, prefixes):
        folders = [folder / wheel for place in PLACES for folder in sorted(prefix.glob(place)) for wheel in wheels]
        found = [path for folder in [*folders, prefix / "lib"] for path in folder.glob(f"lib{name}.so.*")]
        named = [(int(match[1]), str(path)) for path in found if (match := whole.fullmatch(path.name))]
        if named:
            return max(named)[1]
    return None


def found_here(name: str = "cublasLt") -> str | None:
    """Give the library that NVIDIA's own search finds for this process: wheels, conda, the loader, CUDA_PATH."""
    from cuda.pathfinder import DynamicLibNotFoundError, load_nvidia_dynamic_lib  # noqa: PLC0415 - only a child that measures products needs it

    try:
        path = load_nvidia_dynamic_lib(name).abs_path
    except (DynamicLibNotFoundError, RuntimeError, OSError):
        return None
    return str(path) if path else None
