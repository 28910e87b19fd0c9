"""Releases of vLLM: the torch, CUDA and Python that each asks for, and the GPUs that its wheels run on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpustack.matrix.subjects.ranges import VersionRange, version_of
from gpustack.matrix.tables import needed, row
from gpustack.model.versions import ComputeCapability, CudaVersion

if TYPE_CHECKING:
    from gpustack.matrix import Matrix
    from gpustack.matrix.tables import Line
    from gpustack.model.report import Row


@dataclass(frozen=True, slots=True, kw_only=True)
class VllmRelease:
    """One release; ``cuda`` is that of the torch which the package index gives for its pin."""

    version: str
    torch: VersionRange
    python: VersionRange
    row: Row
    cuda: CudaVersion | None = None
    glibc: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VllmFloor:
    """The lowest compute capability that the ready-made wheels of some releases run on."""

    versions: VersionRange
    capability: ComputeCapability
    row: Row


def releases(matrix: Matrix) -> tuple[VllmRelease, ...]:
    """Give every release that was read, oldest first."""
    return matrix.rows("vllm", "releases", _release)


def release_of(matrix: Matrix, version: str) -> VllmRelease | None:
    """Give the release of exactly this version, or None where no row states it."""
    wanted = version_of(version.partition("+")[0])
    return next((one for one in releases(matrix) if wanted is not None and version_of(one.version) == wanted), None)


def floor_of(matrix: Matrix, version: str) -> VllmFloor | None:
    """Give the lowest GPU of a release, or None where no row states it."""
    floors = matrix.rows("vllm", "gpus", _floor)
    return next((one for one in floors if one.versions.holds(version)), None)


def _release(line: Line) -> VllmRelease:
    text = f"vllm {line['version']} asks for torch {line['torch']} and Python {line['python']}"
    return VllmRelease(
        version=line["version"],
        torch=VersionRange.parse(line["torch"]),
        python=VersionRange.parse(line["python"]),
        row=row("vllm", text, line),
        cuda=CudaVersion.parse(line.get("cuda")),
        glibc=line.get("glibc"),
    )


def _floor(line: Line) -> VllmFloor:
    text = f"wheels of vllm {line['versions']} run from compute capability {line['capability']} on"
    return VllmFloor(
        versions=VersionRange.parse(line["versions"]),
        capability=needed(ComputeCapability.parse(line["capability"])),
        row=row("vllm", text, line),
    )
