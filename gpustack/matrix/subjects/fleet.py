"""How commands reach many machines, and which facts tell one machine from its twin."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpustack.matrix import Matrix

TABLE = "fleet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """A launcher that a site runs already: ``command`` runs a program on {node}, ``nodes`` prints the names of all."""

    name: str
    command: tuple[str, ...]
    nodes: tuple[str, ...] = ()
    source: str
    checked: str


def engines(matrix: Matrix) -> tuple[Engine, ...]:
    """Return every launcher."""
    return matrix.rows(TABLE, "engines", Engine)


def identity(matrix: Matrix) -> frozenset[str]:
    """Return the names of facts that no two machines share."""
    return frozenset(matrix.table(TABLE)["identity"])


def fleeting(matrix: Matrix) -> frozenset[tuple[str, str]]:
    """Return the components and paths of numbers that decide no verdict but by their limits."""
    held = matrix.table(TABLE)["fleeting"]
    return frozenset((component, path) for component, paths in held.items() for path in paths)
