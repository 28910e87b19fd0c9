"""ONNX: the opset that each release writes, and the newest that releases of ONNX Runtime read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpustack.matrix.subjects.spans import is_version, minor
from gpustack.matrix.tables import row

if TYPE_CHECKING:
    from gpustack.matrix import Matrix
    from gpustack.matrix.tables import Line
    from gpustack.model.report import Row


@dataclass(frozen=True, slots=True, kw_only=True)
class OnnxRelease:
    """One minor release of ONNX (1.20), or of ONNX Runtime: the newest opset and version of the format."""

    version: str
    opset: int
    ir: int
    row: Row


def releases(matrix: Matrix) -> tuple[OnnxRelease, ...]:
    """Give every release of ONNX, oldest first."""
    return matrix.rows("onnx", "releases", lambda line: _release(line, "onnx", "writes"))


def runtimes(matrix: Matrix) -> tuple[OnnxRelease, ...]:
    """Give every release of ONNX Runtime whose newest opset is stated, oldest first."""
    return matrix.rows("onnx", "runtimes", lambda line: _release(line, "onnxruntime", "reads"))


def release_of(matrix: Matrix, version: str) -> OnnxRelease | None:
    """Give the release of ONNX that a version belongs to, or None where no row states it."""
    return _of(releases(matrix), version)


def runtime_of(matrix: Matrix, version: str) -> OnnxRelease | None:
    """Give what a version of ONNX Runtime reads, or None where no row states it."""
    return _of(runtimes(matrix), version)


def _of(rows: tuple[OnnxRelease, ...], version: str) -> OnnxRelease | None:
    wanted = minor(version) if is_version(version) else ""
    return next((one for one in rows if one.version == wanted), None)


def _release(line: Line, name: str, does: str) -> OnnxRelease:
    text = f"{name} {line[name]} {does} opset {line['opset']} and older, version {line['ir']} of the format"
    return OnnxRelease(version=line[name], opset=int(line["opset"]), ir=int(line["ir"]), row=row("onnx", text, line))
