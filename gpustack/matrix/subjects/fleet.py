"""How commands reach many machines, and which facts tell one machine from its twin."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix

TABLE = "fleet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """A launcher that a site runs already: ``command`` runs a program on {node}, ``nodes`` prints the names of all.

    ``before`` goes first with ``manifest`` as its input, ``after`` cleans up.
    """

    name: str
    command: tuple[str, ...]
    nodes: tuple[str, ...] = ()
    before: tuple[tuple[str, ...], ...] = ()
    after: tuple[str, ...] = ()
    manifest: str = ""
    source: str
    checked: str


def engines(matrix: Matrix) -> tuple[Engine, ...]:
    """Return every launcher."""
    return matrix.rows(TABLE, "engines", Engine)


def identity(matrix: Matrix) -> frozenset[str]:
    """Return the names of facts that no two machines share."""
    return frozenset(name for _, name in _facts(matrix, "identity"))


def fleeting(matrix: Matrix) -> frozenset[tuple[str, str]]:
    """Return the components and paths of numbers that decide no verdict but by their limits."""
    return frozenset(_facts(matrix, "fleeting"))


def _facts(matrix: Matrix, kind: str) -> Iterator[tuple[str, str]]:
    rows = (row for row in matrix.table(TABLE)["facts"] if row["kind"] == kind)
    return ((row["of"], name) for row in rows for name in row["names"])
