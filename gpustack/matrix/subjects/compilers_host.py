"""Host compilers that nvcc accepts, by CUDA version."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpustack.matrix.subjects.spans import numbers
from gpustack.matrix.tables import row

if TYPE_CHECKING:
    from gpustack.matrix import Matrix
    from gpustack.matrix.tables import Line
    from gpustack.model.report import Row


@dataclass(frozen=True, slots=True, kw_only=True)
class HostCompilers:
    """What nvcc of one CUDA version accepts: the newest its header lets pass, the oldest its guide asks."""

    cuda: tuple[int, ...]
    gcc_max: int
    clang_max: int
    row: Row
    gcc_min: int | None = None
    clang_min: str | None = None
    msc: tuple[int, int] | None = None

    def takes_gcc(self, major: int) -> bool:
        """Tell whether nvcc compiles with this major of GCC without -allow-unsupported-compiler."""
        return (self.gcc_min or 0) <= major <= self.gcc_max


def compilers(matrix: Matrix) -> tuple[HostCompilers, ...]:
    """Give what every CUDA version accepts, oldest first."""
    return matrix.rows("host_compiler", "compilers", _compilers)


def compilers_of(matrix: Matrix, cuda: str) -> HostCompilers | None:
    """Give what a CUDA version (12.8 or 12.8.93) accepts; None where the matrix knows no row of its minor."""
    wanted = numbers(cuda)[:3]
    same = [one for one in compilers(matrix) if one.cuda[:2] == wanted[:2]]
    older = [one for one in same if wanted == one.cuda[:2] or one.cuda <= wanted]
    return max(older, key=lambda one: one.cuda, default=None)


def first_cuda(matrix: Matrix, gcc: int) -> HostCompilers | None:
    """Give the oldest CUDA version that accepts this major of GCC, or None where none does."""
    return next((one for one in compilers(matrix) if one.takes_gcc(gcc)), None)


def _compilers(line: Line) -> HostCompilers:
    text = f"CUDA {line['cuda']} compiles with GCC up to {line['gcc_max']} and Clang up to {line['clang_max']}"
    return HostCompilers(
        cuda=numbers(line["cuda"]),
        gcc_max=int(line["gcc_max"]),
        gcc_min=line.get("gcc_min"),
        clang_max=int(line["clang_max"].partition(".")[0]),
        clang_min=line.get("clang_min"),
        msc=(line["msc_min"], line["msc_max"]) if "msc_max" in line else None,
        row=row("host_compiler", text, line),
    )
