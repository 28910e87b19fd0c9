"""ONNX Runtime: Python, CUDA, cuDNN and TensorRT of each onnxruntime-gpu, builds on other feeds, and opsets of ONNX."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpustack import tables
from gpustack.subjects.spans import minor, within

if TYPE_CHECKING:
    from gpustack.matrix import Matrix
    from gpustack.model.report import Row

    Line = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class OrtRelease:
    """One minor release of onnxruntime-gpu on the package index, made for one CUDA major and one cuDNN major.

    ``sonames`` are what its TensorRT provider links, ``tensorrt`` the release that this provider wants.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Feed:
    """A build of a minor release (or of some of its patch releases ``only``) for another CUDA, on a feed of its own."""

    version: str
    cuda: int
    cudnn: int
    only: str
    row: Row


@dataclass(frozen=True, slots=True, kw_only=True)
class Opset:
    """The newest opset and IR version that a release of ONNX or of onnxruntime has."""

    version: str
    opset: int
    ir: int
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


def newest_for_cuda(matrix: Matrix, cuda: int) -> OrtRelease | None:
    """Give the newest release on the package index for a CUDA major, or None."""
    return next((one for one in reversed(releases(matrix)) if one.cuda == cuda), None)


def modules(matrix: Matrix) -> tuple[str, ...]:
    """Give the distributions that bring the module onnxruntime; one alone may be installed."""
    lines = matrix.table("onnxruntime")["packages"]
    return tuple(line["package"] for line in lines if line.get("same_module"))


def opset_of(matrix: Matrix, version: str) -> Opset | None:
    """Give the newest opset that a release of onnxruntime reads, or None where nobody says; all read down to 7."""
    return next((one for one in matrix.rows("onnx", "runtimes", _runtime) if one.version == minor(version)), None)


def opset_of_onnx(matrix: Matrix, version: str) -> Opset | None:
    """Give the opset of a release of onnx, or None."""
    return next((one for one in matrix.rows("onnx", "releases", _onnx) if one.version == minor(version)), None)


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


def _runtime(line: Line) -> Opset:
    text = f"onnxruntime {line['onnxruntime']} reads opsets up to {line['opset']}"
    return Opset(version=line["onnxruntime"], opset=line["opset"], ir=line["ir"], row=tables.row("onnx", text, line))


def _onnx(line: Line) -> Opset:
    text = f"onnx {line['onnx']} has opset {line['opset']} and IR {line['ir']}"
    return Opset(version=line["onnx"], opset=line["opset"], ir=line["ir"], row=tables.row("onnx", text, line))
