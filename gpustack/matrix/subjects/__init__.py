"""What the compatibility matrix states, subject by subject: its rows as types, and look-ups in them.

A row is read according to the types of its fields: ``matrix.rows("cudnn", "releases", CudnnRelease)``.
Each file under ``compat-matrix/`` names the components that it is about (``subjects``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpustack.matrix import Matrix

Kind = TypeVar("Kind")


def rows_of(table: str, part: str, kind: type[Kind]) -> Callable[[Matrix], tuple[Kind, ...]]:
    """Return a function that returns the rows of one part of a table, read once for each matrix."""
    return lambda matrix: matrix.rows(table, part, kind)
