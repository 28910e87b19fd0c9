"""What the compatibility matrix states of one subject after another: its rows as types, and look-ups in them.

The types of a row's fields say how it is read: ``matrix.rows("cudnn", "releases", CudnnRelease)``.
Each file under ``compat-matrix/`` names in its head the components (``subjects``) that it is about. A module is loaded
when it is first asked for something, since a report needs few of them and its start is counted in milliseconds.
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
    """Return the function that returns the rows of one part of a table, which a matrix reads once."""
    return lambda matrix: matrix.rows(table, part, kind)


def _late(name: str) -> None:
    """Put a module in its place that loads itself when something is first taken from it."""
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
