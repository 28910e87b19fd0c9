"""TensorFlow: Python, CUDA, cuDNN and GPU of each release."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpustack.matrix import tables
from gpustack.matrix.subjects import libraries
from gpustack.matrix.subjects.spans import minor, numbers, within
from gpustack.model.versions import CodeArch, CudaVersion

if TYPE_CHECKING:
    from gpustack.matrix import Matrix
    from gpustack.model.report import Row

    Line = Mapping[str, Any]

_OPENED = ("cudart", "cublas", "cublasLt", "cufft", "cusolver", "cusparse")


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorflowRelease:
    """One minor release: the CUDA and cuDNN its GPU build was made with, whose majors must be there at run time.

    ``archs`` is empty where nobody read them; ``gpu_wheel`` is the distribution with the GPU build.
    """

    version: str
    pythons: tuple[str, ...]
    cuda: CudaVersion
    cudnn: str
    row: Row
    archs: tuple[CodeArch, ...] = ()
    glibc: str | None = None
    gpu_wheel: str = "tensorflow"


def releases(matrix: Matrix) -> tuple[TensorflowRelease, ...]:
    """Give the minor releases, oldest first."""
    return matrix.rows("tensorflow", "releases", _release)


def release_of(matrix: Matrix, version: str) -> TensorflowRelease | None:
    """Give what a version (2.16.1) needs, or None where the matrix does not know it."""
    return next((one for one in releases(matrix) if one.version == minor(version)), None)


def sonames_of(matrix: Matrix, version: str) -> tuple[str, ...]:
    """Give the names under which a version looks for CUDA's libraries and cuDNN, from CUDA 11 on."""
    release = release_of(matrix, version)
    if release is None:
        return ()
    names = libraries.sonames_of(matrix, release.cuda.major, *_OPENED)
    return (*names, f"libcudnn.so.{numbers(release.cudnn)[0]}") if names else ()


def gpu_on(matrix: Matrix, version: str, platform: str) -> bool | None:
    """Tell whether this version uses a GPU on a platform (windows); None where no row speaks of it."""
    lines = (line for line in matrix.table("tensorflow")["platforms"] if line["platform"] == platform)
    return next((bool(line["gpu"]) for line in lines if within(version, line["versions"])), None)


def _release(line: Line) -> TensorflowRelease:
    text = f"TensorFlow {line['tensorflow']} is made with CUDA {line['cuda']} and cuDNN {line['cudnn']}"
    return TensorflowRelease(
        version=line["tensorflow"],
        pythons=tuple(line["python"]),
        cuda=tables.needed(CudaVersion.parse(line["cuda"])),
        cudnn=line["cudnn"],
        row=tables.row("tensorflow", f"{text}, for Python {line['python'][0]} to {line['python'][-1]}", line),
        archs=tuple(tables.needed(CodeArch.parse(arch)) for arch in line.get("archs", ())),
        glibc=line.get("glibc"),
        gpu_wheel=line.get("gpu_wheel", "tensorflow"),
    )
