"""NCCL: its releases, the CUDA that its wheels were built with, the GPUs in them, and what its answers mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpustack.matrix import tables
from gpustack.matrix.subjects.spans import numbers
from gpustack.model.versions import CodeArch, CudaVersion, DriverRelease

if TYPE_CHECKING:
    from gpustack.matrix import Matrix
    from gpustack.model.report import Row

    Line = Mapping[str, Any]

_MAJORS = (12, 13)
_NEW_CODE = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class NcclRelease:
    """One release: the CUDA version inside its wheel and the code in it, by CUDA major, empty where nobody looked."""

    version: str
    built: Mapping[int, CudaVersion]
    archs: Mapping[int, tuple[CodeArch, ...]]
    row: Row
    date: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NcclWheel:
    """The wheel for one CUDA major, its first and last release, and the oldest Linux driver."""

    wheel: str
    cuda: int
    driver: DriverRelease
    row: Row
    first: str | None = None
    last: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A number that NCCL answers with, its name and its meaning."""

    number: int
    name: str
    meaning: str
    row: Row


def releases(matrix: Matrix) -> tuple[NcclRelease, ...]:
    """Give every release that is known, oldest first."""
    return matrix.rows("nccl", "releases", _release)


def release_of(matrix: Matrix, version: str) -> NcclRelease | None:
    """Give one release (2.27.5), or None."""
    wanted = numbers(version)[:3]
    return next((one for one in releases(matrix) if numbers(one.version) == wanted), None)


def wheel_for(matrix: Matrix, cuda: int) -> NcclWheel | None:
    """Give the wheel for a CUDA major, or None."""
    return next((one for one in matrix.rows("nccl", "wheels", _wheel) if one.cuda == cuda), None)


def decode(number: int) -> str:
    """Give the version that ``ncclGetVersion`` answers with: 22705 is 2.27.5, and 2804 is 2.8.4."""
    major, rest = divmod(number, _NEW_CODE if number >= _NEW_CODE else 1_000)
    return f"{major}.{rest // 100}.{rest % 100}"


def results(matrix: Matrix) -> Mapping[int, Result]:
    """Give what NCCL's functions answer with, by number."""
    return {one.number: one for one in matrix.rows("nccl", "results", _result)}


def _release(line: Line) -> NcclRelease:
    built = {major: line[f"cuda{major}"] for major in _MAJORS if f"cuda{major}" in line}
    made = f" was built with CUDA {' and '.join(built.values())}" if built else f" is of {line.get('date')}"
    return NcclRelease(
        version=line["nccl"],
        built={major: tables.needed(CudaVersion.parse(cuda)) for major, cuda in built.items()},
        archs={
            major: tuple(tables.needed(CodeArch.parse(arch)) for arch in line[f"archs{major}"])
            for major in _MAJORS
            if f"archs{major}" in line
        },
        row=tables.row("nccl", f"NCCL {line['nccl']}{made}", line),
        date=line.get("date"),
    )


def _wheel(line: Line) -> NcclWheel:
    return NcclWheel(
        wheel=line["wheel"],
        cuda=line["cuda"],
        driver=tables.needed(DriverRelease.parse(line["driver"])),
        row=tables.row("nccl", f"{line['wheel']} needs driver {line['driver']} or newer", line),
        first=line.get("first"),
        last=line.get("last"),
    )


def _result(line: Line) -> Result:
    text = f"{line['result']} ({line['name']}): {line['meaning']}"
    return Result(number=line["result"], name=line["name"], meaning=line["meaning"], row=tables.row("nccl", text, line))
