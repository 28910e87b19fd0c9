"""TensorRT: the CUDA, cuDNN and GPU of each release, the name it is loaded under, and torch-tensorrt's pins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpustack.matrix import tables
from gpustack.matrix.subjects.spans import numbers, within
from gpustack.model.versions import ComputeCapability, DriverRelease

if TYPE_CHECKING:
    from gpustack.matrix import Matrix
    from gpustack.model.report import Row

    Line = Mapping[str, Any]

_NEW_CODE = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorrtRelease:
    """One release; ``cuda`` are the toolkits (or majors) it was built with, ``cudnn`` is None where none is needed."""

    version: str
    cuda: tuple[str, ...]
    soname: str
    row: Row
    cudnn: str | None = None
    oldest_gpu: ComputeCapability | None = None

    @property
    def majors(self) -> tuple[int, ...]:
        """The CUDA majors there are builds for."""
        return tuple(sorted({int(cuda.partition(".")[0]) for cuda in self.cuda}))


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorrtDriver:
    """The oldest Linux driver of a range of releases in their builds for one CUDA major."""

    versions: str
    cuda: int
    driver: DriverRelease
    row: Row


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchTensorrt:
    """What one release of torch-tensorrt requires of torch and TensorRT, and its CUDA major."""

    version: str
    torch: str
    tensorrt: str
    cuda: int
    row: Row


def releases(matrix: Matrix) -> tuple[TensorrtRelease, ...]:
    """Give every release that is known, oldest first."""
    return matrix.rows("tensorrt", "releases", _release)


def release_of(matrix: Matrix, version: str) -> TensorrtRelease | None:
    """Give the release of a version (10.9.0.34), else the newest known of its minor, or None."""
    wanted = numbers(version)
    same = [one for one in releases(matrix) if numbers(one.version)[:2] == wanted[:2]]
    return next((one for one in same if numbers(one.version)[:3] == wanted[:3]), same[-1] if same else None)


def drivers_of(matrix: Matrix, version: str) -> tuple[TensorrtDriver, ...]:
    """Give the oldest Linux drivers of a version, by CUDA major; none where no row states them."""
    drivers = matrix.rows("tensorrt", "drivers", _driver)
    return tuple(one for one in drivers if within(version, one.versions))


def torch_tensorrt(matrix: Matrix) -> tuple[TorchTensorrt, ...]:
    """Give the pins of torch-tensorrt, oldest first."""
    return matrix.rows("tensorrt", "torch_tensorrt", _torch)


def decode(number: int) -> str:
    """Give the version that ``getInferLibVersion`` answers with: 110400 is 11.4.0, and 8601 is 8.6.1."""
    major, rest = divmod(number, 10_000 if number >= _NEW_CODE else 1_000)
    return f"{major}.{rest // 100}.{rest % 100}"


def _release(line: Line) -> TensorrtRelease:
    cudnn = f" and cuDNN {line['cudnn']}" if "cudnn" in line else ""
    gpu = f", for GPUs from compute capability {line['min_cc']}" if "min_cc" in line else ""
    text = f"TensorRT {line['tensorrt']} is built with CUDA {' and '.join(line['cuda'])}{cudnn}{gpu}"
    return TensorrtRelease(
        version=line["tensorrt"],
        cuda=tuple(line["cuda"]),
        soname=line["soname"],
        row=tables.row("tensorrt", text, line),
        cudnn=line.get("cudnn"),
        oldest_gpu=ComputeCapability.parse(line.get("min_cc")),
    )


def _driver(line: Line) -> TensorrtDriver:
    text = f"TensorRT {line['versions']} for CUDA {line['cuda']} needs driver {line['driver']} or newer"
    return TensorrtDriver(
        versions=line["versions"],
        cuda=line["cuda"],
        driver=DriverRelease(int(line["driver"])),
        row=tables.row("tensorrt", text, line),
    )


def _torch(line: Line) -> TorchTensorrt:
    text = f"torch-tensorrt {line['torch_tensorrt']} requires torch {line['torch']} and TensorRT {line['tensorrt']}"
    return TorchTensorrt(
        version=line["torch_tensorrt"],
        torch=line["torch"],
        tensorrt=line["tensorrt"],
        cuda=line["cuda"],
        row=tables.row("tensorrt", text, line),
    )
