"""Compatibility: the comparisons that requirements and rules share, and the resulting contract."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpustack.diagnose.machine.inventory import DRIVER, Build, driver_cuda, driver_release, on_windows
from gpustack.diagnose.machine.values import copies, text, version
from gpustack.matrix.subjects import drivers, toolkits
from gpustack.matrix.subjects.ranges import is_version
from gpustack.matrix.subjects.ranges import numbers as leading
from gpustack.model import record
from gpustack.model.report import Contract, Kept, Row
from gpustack.model.versions import CodeArch, ComputeCapability, CudaVersion, DriverRelease

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts, Instance


@record
class Fit:
    """The result of one comparison: what is needed, what was found, and the row."""

    kept: Kept
    needs: str
    found: str
    row: Row | None = None


def driver_fit(cuda: CudaVersion, facts: Facts, matrix: Matrix) -> Fit:
    """Return how a build for this CUDA version fits the driver: natively, by minor version with limits, or not.

    A driver unknown to the matrix is never too old: only its own report or a row can say so. Windows' driver releases
    are compared with Windows' own numbers.
    """
    release, highest = driver_release(facts) or windows_release(facts), _highest(facts, matrix)
    names = (f"driver {release}" if release else "", f"CUDA {highest}" if highest else "")
    found = " with ".join(name for name in names if name) or "no driver seen"
    floor, native, row = _drivers(cuda, facts, matrix)
    if highest and highest >= cuda:
        return Fit(kept=Kept.OK, needs=f"a driver for CUDA {cuda}", found=found, row=row)
    known = highest is not None or on_windows(facts)
    if release and native and release >= native and known:
        return Fit(kept=Kept.OK, needs=f"driver {native} or newer", found=found, row=row)
    if floor is None:
        needs = f"driver {native} or newer" if native else f"a driver for CUDA {cuda}"
        old = release < native if release and native else highest is not None and release is None
        return Fit(kept=Kept.BROKEN if old else Kept.UNKNOWN, needs=needs, found=found, row=row)
    if release is not None:
        kept = (Kept.LIMITED if release >= floor else Kept.BROKEN) if known else Kept.UNKNOWN
    elif highest is not None:
        kept = Kept.LIMITED if highest.major == cuda.major else Kept.BROKEN
    else:
        kept = Kept.UNKNOWN
    needs = f"driver {floor} or newer (CUDA {cuda})"
    return Fit(kept=kept, needs=needs, found=found, row=matrix.families[cuda.major].row)


def _drivers(
    cuda: CudaVersion, facts: Facts, matrix: Matrix
) -> tuple[DriverRelease | None, DriverRelease | None, Row | None]:
    """Return the floor of a CUDA family, the oldest driver of the minor version, and its row, on this system."""
    floor, native = toolkits.floor_of(matrix, cuda), matrix.native(cuda)
    row = native.row if native else None
    if not on_windows(facts):
        return (floor.linux if floor else None), (native.driver if native else None), row
    ours = [one.windows or DriverRelease(one.branch) for one in toolkits.releases(matrix) if one.cuda == cuda]
    lowest = (floor.windows or DriverRelease(floor.linux.branch)) if floor else None
    return lowest, min(ours, default=None), row


def windows_release(facts: Facts) -> DriverRelease | None:
    """Return the release of the Windows driver, here or under WSL; None elsewhere."""
    if not on_windows(facts):
        return None
    return DriverRelease.parse(version(facts, "nvml")) or DriverRelease.parse(version(facts, DRIVER))


def _highest(facts: Facts, matrix: Matrix) -> CudaVersion | None:
    """Return the driver's highest CUDA version: by its own report, else by the row of its branch on this system."""
    said, windows = driver_cuda(facts, matrix), windows_release(facts)
    if said or windows is None:
        return said
    branch = drivers.for_windows(matrix, windows.branch)
    return branch.cuda if branch else None


def arch_fit(build: Build, gpu: ComputeCapability, facts: Facts, matrix: Matrix) -> Fit:
    """Return how the GPU code of a build fits a GPU: machine code, PTX that the driver can compile, or none."""
    found = f"code for {' '.join(_name(arch) for arch in build.archs)}" if build.archs else "code list not seen"
    row = architecture.row if (architecture := matrix.arch(gpu)) else None
    fitting = {arch.kind for arch in build.archs if arch.runs_on(gpu)}
    if not build.archs:
        kept = Kept.UNKNOWN
    elif "sm" in fitting:
        kept = Kept.OK
    elif "compute" in fitting:
        kept = Kept.BROKEN if ptx_too_new(build, facts, matrix) else Kept.LIMITED
    else:
        kept = Kept.BROKEN
    return Fit(kept=kept, needs=f"code for {gpu.sm}", found=found, row=row)


def ptx_too_new(build: Build, facts: Facts, matrix: Matrix) -> bool:
    """Return whether the build's PTX is from a newer CUDA version than the driver's, which it cannot compile."""
    highest = driver_cuda(facts, matrix)
    return bool(build.cuda and highest and highest < build.cuda)


def by_ptx(build: Build, gpu: ComputeCapability) -> bool:
    """Return whether the build has PTX but no machine code for a GPU."""
    fitting = {arch.kind for arch in build.archs if arch.runs_on(gpu)}
    return "compute" in fitting and "sm" not in fitting


def _name(arch: CodeArch) -> str:
    return f"{arch.kind}_{arch.capability.major}{arch.capability.minor}{arch.suffix}"


GIVEN = "given"
STARTS = re.compile("[0-9]")


def edge(from_: str, to: str, kind: str, fit: Fit, environment: str | None = None) -> Contract:
    """Return this result as a contract."""
    return Contract(
        from_=from_,
        to=to,
        kind=kind,
        needs=fit.needs,
        found=fit.found,
        status=fit.kept,
        row=fit.row,
        environment=environment,
    )


def asked(copy: Instance) -> bool:
    """Return whether a copy is hypothetical: it would be installed from its own wheels."""
    return copy.facts.get(GIVEN) is True


LOADED = "loaded"  # the copy of a library that a message names as the one that a program loaded


def spoken(facts: Facts, component: str) -> Iterator[str]:
    """Return the versions that somebody reports to be in use, for a component with possibly many copies."""
    for copy in copies(facts, component):
        if copy.version and STARTS.match(copy.version) and (asked(copy) or copy.key == LOADED):
            yield copy.version


def release(copy: Instance) -> str | None:
    """Return the version of a copy where it starts like that of a release, with major and minor; else None."""
    return copy.version if copy.version and is_version(copy.version) else None


def floor_fit(gpu: ComputeCapability, floor: ComputeCapability, row: Row | None, kept: Kept = Kept.BROKEN) -> Fit:
    """Return how a GPU fits a minimum compute capability; ``kept`` is the status below it."""
    needs = f"compute capability {floor} or newer"
    return Fit(kept=Kept.OK if gpu >= floor else kept, needs=needs, found=f"a GPU of {gpu.sm}", row=row)


def same_major(name: str, wanted: str, found: str, row: Row | None) -> Fit:
    """Return how a library fits its build: the same major and no older minor; a major alone may be given."""
    needed, there = leading(wanted), leading(found)
    fits = there[:1] == needed[:1] and (len(there) == 1 or there[:2] >= needed[:2])
    least = ".".join(str(number) for number in needed[:2])
    needs = f"{name} {least}" + (" or newer of that major" if len(needed) > 1 else "")
    return Fit(kept=Kept.OK if fits else Kept.BROKEN, needs=needs, found=f"{name} {found}", row=row)


def loaded(facts: Facts, module: str) -> bool:
    """Return whether a kernel module is in memory, so that it was evidently built for this kernel."""
    return any(text(copy.facts, "version_loaded") for copy in copies(facts, module))


def kernel_of(facts: Facts) -> str | None:
    """Return the release of the running kernel."""
    return version(facts, "linux-kernel")
