"""cuDNN: the CUDA, driver and GPU that each release needs, and its name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gpustack.matrix import tables
from gpustack.matrix.subjects.spans import within
from gpustack.model.versions import ComputeCapability, DriverRelease

if TYPE_CHECKING:
    from gpustack.matrix import Matrix
    from gpustack.model.report import Row

    Line = Mapping[str, Any]

_CUDA_11 = 11


@dataclass(frozen=True, slots=True, kw_only=True)
class CudnnRelease:
    """Releases of cuDNN in one range.

    ``cuda`` are majors (11, 12), and minors before CUDA 11 (10.2); ``drivers`` the oldest Linux driver for each.
    ``oldest_gpu`` is None where no source says it; ``oldest_gpu_cuda11`` where builds for CUDA 11 need a newer one.
    """

    versions: str
    soname: str
    cuda: tuple[str, ...]
    row: Row
    drivers: Mapping[str, DriverRelease] = field(default_factory=dict)
    oldest_gpu: ComputeCapability | None = None
    oldest_gpu_cuda11: ComputeCapability | None = None


def releases(matrix: Matrix) -> tuple[CudnnRelease, ...]:
    """Give the releases of cuDNN, oldest first."""
    return matrix.rows("cudnn", "releases", _release)


def release_of(matrix: Matrix, version: str) -> CudnnRelease | None:
    """Give what is known of a version such as 9.10.2.21, or None."""
    return next((one for one in releases(matrix) if within(version, one.versions)), None)


def oldest_gpu(matrix: Matrix, version: str, cuda: int | None = None) -> ComputeCapability | None:
    """Give the oldest GPU that this cuDNN runs on, in its build for a CUDA major; None where nobody says."""
    release = release_of(matrix, version)
    if release is None:
        return None
    return (release.oldest_gpu_cuda11 if cuda == _CUDA_11 else None) or release.oldest_gpu


def _release(line: Line) -> CudnnRelease:
    gpu = f" and GPUs from compute capability {line['min_cc']}" if "min_cc" in line else ""
    text = f"cuDNN {line['versions']} ({line['soname']}) is for CUDA {', '.join(line['cuda'])}{gpu}"
    return CudnnRelease(
        versions=line["versions"],
        soname=line["soname"],
        cuda=tuple(line["cuda"]),
        row=tables.row("cudnn", text, line),
        drivers={cuda: tables.needed(DriverRelease.parse(one)) for cuda, one in line.get("drivers", {}).items()},
        oldest_gpu=ComputeCapability.parse(line.get("min_cc")),
        oldest_gpu_cuda11=ComputeCapability.parse(line.get("min_cc_cuda11")),
    )
