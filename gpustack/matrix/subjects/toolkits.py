"""CUDA toolkits: their drivers on Linux and Windows, what they compile for, and which compat packages carry them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpustack.matrix.subjects.spans import numbers
from gpustack.matrix.tables import needed, row
from gpustack.model.versions import CodeArch, ComputeCapability, CudaVersion, DriverRelease

if TYPE_CHECKING:
    from gpustack.matrix import Matrix
    from gpustack.matrix.tables import Line
    from gpustack.model.report import Row
    from gpustack.model.rows import CompatPackage


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """One release of the toolkit; ``driver`` is None where only the ``branch`` of the driver is published."""

    version: str
    cuda: CudaVersion
    branch: int
    row: Row
    driver: DriverRelease | None = None
    windows: DriverRelease | None = None
    released: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Floor:
    """The oldest driver that runs every build of a CUDA major, on Linux and, where published, on Windows."""

    major: int
    linux: DriverRelease
    row: Row
    windows: DriverRelease | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What a minor version of the toolkit compiles for (empty: not measured) and the newest PTX that it writes."""

    cuda: CudaVersion
    ptx: tuple[int, int]
    capabilities: tuple[ComputeCapability, ...]
    row: Row


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """A target with a suffix, such as sm_90a, and the first toolkit that has it."""

    arch: CodeArch
    first: CudaVersion
    row: Row


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What one way of compatibility allows, and the CUDA errors that break it."""

    id: str
    text: str
    codes: tuple[int, ...]
    row: Row


def releases(matrix: Matrix) -> tuple[Release, ...]:
    """Give every release of the toolkit, those without a published driver too, oldest first."""
    made = matrix.rows("cuda_driver", "toolkits", _release) + matrix.rows("cuda_driver", "unpublished", _unpublished)
    return tuple(sorted(made, key=lambda one: numbers(one.version)))


def release_of(matrix: Matrix, version: str) -> Release | None:
    """Give one release by its full version (12.8.1), or None where the matrix does not know it."""
    return next((one for one in releases(matrix) if one.version == version), None)


def floors(matrix: Matrix) -> tuple[Floor, ...]:
    """Give the floor of every CUDA major that has minor-version compatibility, newest first."""
    return matrix.rows("cuda_driver", "families", _floor)


def floor_of(matrix: Matrix, cuda: CudaVersion) -> Floor | None:
    """Give the floor of a CUDA version's family; None before CUDA 11, where each minor needs its own driver."""
    return next((one for one in floors(matrix) if one.major == cuda.major), None)


def targets(matrix: Matrix) -> tuple[Target, ...]:
    """Give what every minor version of the toolkit compiles for, oldest first."""
    return matrix.rows("arch", "targets", _target)


def target_of(matrix: Matrix, cuda: CudaVersion) -> Target | None:
    """Give what a minor version of the toolkit compiles for, or None where the matrix does not know it."""
    return next((one for one in targets(matrix) if one.cuda == cuda), None)


def variants(matrix: Matrix) -> tuple[Variant, ...]:
    """Give the targets with a suffix, oldest architecture first."""
    return matrix.rows("arch", "variants", _variant)


def first_for(matrix: Matrix, arch: CodeArch) -> CudaVersion | None:
    """Give the first toolkit that makes code for a target such as sm_90a or sm_120, or None where nobody knows."""
    if arch.suffix:
        found = (one for one in variants(matrix) if one.arch.capability == arch.capability)
        return next((one.first for one in found if one.arch.suffix == arch.suffix), None)
    known = matrix.arch(arch.capability)
    return known.first_toolkit if known else None


def compats_for(matrix: Matrix, cuda: CudaVersion, branch: int) -> tuple[CompatPackage, ...]:
    """Give the compat packages that run this CUDA version on a kernel driver of this branch, smallest step first."""
    fitting = (one for one in matrix.compats if one.cuda.major == cuda.major and one.cuda >= cuda)
    return tuple(sorted((one for one in fitting if branch in one.bases), key=lambda one: one.cuda))


def rules(matrix: Matrix) -> tuple[Rule, ...]:
    """Give what each way of compatibility between toolkit and driver allows."""
    return matrix.rows("cuda_driver", "rules", lambda line: _rule("cuda_driver", line))


def _release(line: Line) -> Release:
    driver = line["driver"]
    parsed = DriverRelease(int(driver)) if driver.isdecimal() else needed(DriverRelease.parse(driver))
    return Release(
        version=line["cuda"],
        cuda=needed(CudaVersion.parse(line["cuda"])),
        branch=parsed.branch,
        driver=parsed,
        windows=needed(DriverRelease.parse(line["windows"])) if "windows" in line else None,
        released=line.get("released"),
        row=row("cuda_driver", f"CUDA {line['cuda']} comes with driver {driver}", line),
    )


def _unpublished(line: Line) -> Release:
    return Release(
        version=line["cuda"],
        cuda=needed(CudaVersion.parse(line["cuda"])),
        branch=int(line["branch"]),
        released=line.get("released"),
        row=row("cuda_driver", f"CUDA {line['cuda']} is of driver branch {line['branch']}: {line['what']}", line),
    )


def _floor(line: Line) -> Floor:
    return Floor(
        major=int(line["major"]),
        linux=needed(DriverRelease.parse(line["driver"])),
        windows=needed(DriverRelease.parse(line["windows"])) if "windows" in line else None,
        row=row("cuda_driver", f"CUDA {line['major']}.x needs driver {line['driver']} or newer", line),
    )


def _target(line: Line) -> Target:
    major, minor = line["ptx"].split(".")
    return Target(
        cuda=needed(CudaVersion.parse(line["cuda"])),
        ptx=(int(major), int(minor)),
        capabilities=tuple(needed(ComputeCapability.parse(f"sm_{number}")) for number in line.get("sm", ())),
        row=row("arch", f"CUDA {line['cuda']} writes PTX up to {line['ptx']}", line),
    )


def _variant(line: Line) -> Variant:
    return Variant(
        arch=needed(CodeArch.parse(line["target"])),
        first=needed(CudaVersion.parse(line["first_toolkit"])),
        row=row("arch", f"{line['target']} can be compiled from CUDA {line['first_toolkit']} on", line),
    )


def _rule(table: str, line: Line) -> Rule:
    return Rule(
        id=line["rule"], text=line["text"], codes=tuple(line.get("codes", ())), row=row(table, line["text"], line)
    )
