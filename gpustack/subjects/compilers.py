"""Compilers of Python: the Triton that each torch asks for, CuPy's packages, and what numba-cuda runs on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpustack.model.versions import ComputeCapability
from gpustack.subjects.ranges import VersionRange
from gpustack.tables import needed, row

if TYPE_CHECKING:
    from gpustack.matrix import Matrix
    from gpustack.model.report import Row
    from gpustack.tables import Line


@dataclass(frozen=True, slots=True, kw_only=True)
class TritonPin:
    """The Triton that a torch asks for, by torch's minor (2.8) or exact release (2.7.1)."""

    torch: str
    triton: VersionRange
    row: Row


@dataclass(frozen=True, slots=True, kw_only=True)
class CupyPackage:
    """One package of CuPy and the CUDA or ROCm that it is made for; the other range is None."""

    package: str
    newest: str
    row: Row
    cuda: VersionRange | None = None
    rocm: VersionRange | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NumbaCuda:
    """The compute capabilities that some releases of numba-cuda run on with a CUDA of one major."""

    versions: VersionRange
    cuda: int
    capabilities: VersionRange
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


def cupy_packages(matrix: Matrix) -> tuple[CupyPackage, ...]:
    """Give every package of CuPy."""
    return matrix.rows("compilers", "cupy_packages", _cupy_package)


def numba_cuda(matrix: Matrix) -> tuple[NumbaCuda, ...]:
    """Give what numba-cuda runs on."""
    return matrix.rows("compilers", "numba_cuda", _numba_cuda)


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


def _cupy_package(line: Line) -> CupyPackage:
    kind = "cuda" if "cuda" in line else "rocm"
    span = VersionRange.parse(line[kind])
    text = f"{line['package']} is made for {kind.upper().replace('ROCM', 'ROCm')} {span}"
    return CupyPackage(
        package=line["package"],
        newest=line["newest"],
        row=row("compilers", text, line),
        cuda=span if kind == "cuda" else None,
        rocm=span if kind == "rocm" else None,
    )


def _numba_cuda(line: Line) -> NumbaCuda:
    text = f"numba-cuda {line['versions']} with CUDA {line['cuda']}: compute capability {line['capabilities']}"
    return NumbaCuda(
        versions=VersionRange.parse(line["versions"]),
        cuda=int(line["cuda"]),
        capabilities=VersionRange.parse(line["capabilities"]),
        row=row("compilers", text, line),
    )
