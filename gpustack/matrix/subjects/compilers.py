"""Compilers of Python: the Triton that each torch asks for, CuPy's packages, and what numba-cuda runs on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpustack.matrix.subjects.ranges import VersionRange
from gpustack.matrix.tables import needed, row
from gpustack.model.versions import ComputeCapability

if TYPE_CHECKING:
    from gpustack.matrix import Matrix
    from gpustack.matrix.tables import Line
    from gpustack.model.report import Row


@dataclass(frozen=True, slots=True, kw_only=True)
class TritonPin:
    """The Triton that a torch asks for, by torch's minor (2.8) or exact release (2.7.1)."""

    torch: str
    triton: VersionRange
    row: Row


@dataclass(frozen=True, slots=True, kw_only=True)
class TritonFloor:
    """The lowest compute capability that some releases of Triton compile for."""

    versions: VersionRange
    capability: ComputeCapability
    row: Row


def triton_floor_of(matrix: Matrix, version: str) -> TritonFloor | None:
    """Give the lowest GPU of a release of Triton, or None where no row states it."""
    floors = matrix.rows("compilers", "triton_floors", _triton_floor)
    return next((one for one in floors if one.versions.holds(version)), None)


def triton_pins(matrix: Matrix) -> tuple[TritonPin, ...]:
    """Give the Triton of every torch, oldest first."""
    return matrix.rows("compilers", "triton_pins", _triton_pin)


def triton_pin_of(matrix: Matrix, torch: str) -> TritonPin | None:
    """Give the Triton that this torch asks for: its own row, else its minor's, else None."""
    release = torch.partition("+")[0]
    pins = {one.torch: one for one in triton_pins(matrix)}
    return pins.get(release) or pins.get(".".join(release.split(".")[:2]))


def _triton_floor(line: Line) -> TritonFloor:
    return TritonFloor(
        versions=VersionRange.parse(line["versions"]),
        capability=needed(ComputeCapability.parse(line["capability"])),
        row=row(
            "compilers", f"triton {line['versions']} is for compute capability {line['capability']} and newer", line
        ),
    )


def _triton_pin(line: Line) -> TritonPin:
    return TritonPin(
        torch=line["torch"],
        triton=VersionRange.parse(line["triton"]),
        row=row("compilers", f"torch {line['torch']} asks for triton {line['triton']}", line),
    )
