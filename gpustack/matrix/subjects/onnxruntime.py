"""ONNX Runtime: Python, CUDA, cuDNN and TensorRT of each onnxruntime-gpu, and builds on other feeds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpustack.matrix import tables
from gpustack.matrix.subjects.spans import minor, within
from gpustack.model.versions import CodeArch

if TYPE_CHECKING:
    from gpustack.matrix import Matrix
    from gpustack.model.report import Row

    Line = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class OrtRelease:
    """One minor release of onnxruntime-gpu on the package index, made for one CUDA major and one cuDNN major.

    ``sonames`` are what its TensorRT provider links, ``tensorrt`` the release that this provider wants; ``archs`` the
    code in its CUDA provider, empty where nobody looked.
    """

    version: str
    cuda: int
    cudnn: int
    row: Row
    pythons: tuple[str, ...] = ()
    built_cuda: str | None = None
    sonames: tuple[str, ...] = ()
    tensorrt: str | None = None
    glibc: str | None = None
    archs: tuple[CodeArch, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Feed:
    """A build of a minor release (or of some of its patch releases ``only``) for another CUDA, on a feed of its own."""

    version: str
    cuda: int
    cudnn: int
    only: str
    row: Row


def releases(matrix: Matrix) -> tuple[OrtRelease, ...]:
    """Give the minor releases, oldest first."""
    return matrix.rows("onnxruntime", "releases", _release)


def release_of(matrix: Matrix, version: str) -> OrtRelease | None:
    """Give what a version (1.22.0) from the package index needs, or None."""
    return next((one for one in releases(matrix) if one.version == minor(version)), None)


def feeds_of(matrix: Matrix, version: str) -> tuple[Feed, ...]:
    """Give the builds of this version for another CUDA."""
    feeds = matrix.rows("onnxruntime", "feeds", _feed)
    return tuple(one for one in feeds if one.version == minor(version) and within(version, one.only))


def modules(matrix: Matrix) -> tuple[str, ...]:
    """Give the distributions that bring the module onnxruntime; one alone may be installed."""
    lines = matrix.table("onnxruntime")["packages"]
    return tuple(line["package"] for line in lines if line.get("same_module"))


def _release(line: Line) -> OrtRelease:
    trt = f", TensorRT {line['tensorrt']} for its provider" if "tensorrt" in line else ""
    text = f"onnxruntime-gpu {line['onnxruntime']} is made for CUDA {line['cuda']} and cuDNN {line['cudnn']}{trt}"
    return OrtRelease(
        version=line["onnxruntime"],
        cuda=line["cuda"],
        cudnn=line["cudnn"],
        row=tables.row("onnxruntime", text, line),
        pythons=tuple(line.get("python", ())),
        built_cuda=line.get("built_cuda"),
        sonames=tuple(line.get("sonames", ())),
        tensorrt=line.get("tensorrt"),
        glibc=line.get("glibc"),
        archs=tuple(tables.needed(CodeArch.parse(arch)) for arch in line.get("archs", ())),
    )


def _feed(line: Line) -> Feed:
    which = f"onnxruntime-gpu {line['onnxruntime']}{line.get('only', '')}"
    text = f"{which} for CUDA {line['cuda']} and cuDNN {line['cudnn']} is on a feed of its own"
    return Feed(
        version=line["onnxruntime"],
        cuda=line["cuda"],
        cudnn=line["cudnn"],
        only=line.get("only", ""),
        row=tables.row("onnxruntime", text, line),
    )
