"""The layers and the systems of the stack: what each is for, what it stands on, and how to see it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpustack.matrix import tables
from gpustack.model.facts import Layer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpustack.matrix import Matrix
    from gpustack.model.report import Row


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerRow:
    """One layer of the stack; ``also`` are other names for it, ``see`` commands that show what is in it."""

    layer: Layer
    role: str
    see: tuple[str, ...]
    row: Row
    also: tuple[str, ...] = ()

    @property
    def beside(self) -> bool:
        """Whether it stands beside the stack, not in it."""
        return self.layer in {Layer.ENVIRONMENT, Layer.CONTAINER}


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """One system of the stack: what it is for, what it needs (ids and terms), and commands that show it."""

    id: str
    layer: Layer
    vendor: str
    role: str
    see: tuple[str, ...]
    row: Row
    also: tuple[str, ...] = ()
    stands_on: tuple[str, ...] = ()
    findings: tuple[str, ...] = ()


def layers(matrix: Matrix) -> tuple[LayerRow, ...]:
    """Give the twelve layers, bottom first, and the two beside them."""
    return matrix.rows("stack", "layers", _layer)


def systems(matrix: Matrix) -> tuple[System, ...]:
    """Give every system, bottom layer first."""
    return matrix.rows("stack", "systems", _system)


def _layer(line: Mapping[str, Any]) -> LayerRow:
    return LayerRow(
        layer=Layer(line["id"]),
        role=line["role"],
        see=tuple(line["see"]),
        also=tuple(line.get("also", ())),
        row=tables.row("stack", f"{line['id']} layer: {line['role']}", line),
    )


def _system(line: Mapping[str, Any]) -> System:
    return System(
        id=line["id"],
        layer=Layer(line["layer"]),
        vendor=line["vendor"],
        role=line["role"],
        see=tuple(line["see"]),
        also=tuple(line.get("also", ())),
        stands_on=tuple(line.get("stands_on", ())),
        findings=tuple(line.get("findings", ())),
        row=tables.row("stack", f"{line['id']}: {line['role']}", line),
    )
