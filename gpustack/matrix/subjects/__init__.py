"""What the compatibility matrix states, subject by subject: its rows as types, and look-ups in them.

A row is read according to the types of its fields: ``matrix.rows("cudnn", "releases", CudnnRelease)``.
Each file under ``compat-matrix/`` names the components that it is about (``subjects``). A module is loaded when it is
first used, since a report needs few of them and milliseconds count at its start.
"""

from __future__ import annotations

import importlib.util
import sys
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpustack.matrix import Matrix

Kind = TypeVar("Kind")
LATE = (
    *("amd_intel", "codes", "drivers", "frameworks", "gpus", "health", "known_bad", "libraries", "messages", "ranges"),
    *("serving", "terms", "toolkits", "torch", "training", "wheel_tags"),
)


def rows_of(table: str, part: str, kind: type[Kind]) -> Callable[[Matrix], tuple[Kind, ...]]:
    """Return a function that returns the rows of one part of a table, read once for each matrix."""
    return lambda matrix: matrix.rows(table, part, kind)


def _late(name: str) -> None:
    """Register a module that is loaded when an attribute of it is first used."""
    spec = importlib.util.find_spec(name)
    if spec is None or spec.loader is None:
        raise ImportError(name)
    spec.loader = importlib.util.LazyLoader(spec.loader)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    globals()[name.rpartition(".")[2]] = module


for _name in LATE:
    _late(f"{__name__}.{_name}")
