"""Which cuBLASLt is measured: the copy that a framework of the chosen Python would load, else the first found here."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

PLACES = ("lib/python3*/site-packages", "lib/python3*/dist-packages", "local/lib/python3*/dist-packages")
WHEELS = ("nvidia/cublas/lib", "nvidia/cu13/lib", "nvidia/cu14/lib", "torch/lib")
_NAME = re.compile(r"libcublasLt\.so\.(\d+)")


def of_environment(prefixes: Sequence[str]) -> str | None:
    """Give the youngest cuBLASLt in the first of these environments that has one: a wheel's, or in its lib folder."""
    for prefix in map(Path, prefixes):
        folders = [folder / wheel for place in PLACES for folder in sorted(prefix.glob(place)) for wheel in WHEELS]
        found = [path for folder in [*folders, prefix / "lib"] for path in folder.glob("libcublasLt.so.*")]
        named = [(int(match[1]), str(path)) for path in found if (match := _NAME.fullmatch(path.name))]
        if named:
            return max(named)[1]
    return None


def found_here() -> str | None:
    """Give the cuBLASLt that NVIDIA's own search finds for this process: wheels, conda, the loader, CUDA_PATH."""
    from cuda.pathfinder import DynamicLibNotFoundError, load_nvidia_dynamic_lib  # noqa: PLC0415 - only a child that measures products needs it

    try:
        path = load_nvidia_dynamic_lib("cublasLt").abs_path
    except (DynamicLibNotFoundError, RuntimeError, OSError):
        return None
    return str(path) if path else None
