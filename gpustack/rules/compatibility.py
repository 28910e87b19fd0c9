"""Whether a build fits this driver and these GPUs: what the contracts and the rules about builds have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpustack.model.report import Kept
from gpustack.rules.reading import numbers
from gpustack.rules.seen import capabilities, driver_cuda, driver_release

if TYPE_CHECKING:
    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts
    from gpustack.model.report import Row
    from gpustack.model.versions import CodeArch, ComputeCapability, CudaVersion
    from gpustack.rules.seen import Build


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """How one thing fits another: what it needs, what it found, and the row that says so."""

    kept: Kept
    needs: str
    found: str
    row: Row | None = None


def driver_fit(cuda: CudaVersion, facts: Facts, matrix: Matrix) -> Fit:
    """Tell how a build for this CUDA version fits the driver: natively, by minor version with limits, or not.

    A driver that the matrix does not know is never too old: only its own word or a row can say so.
    """
    release, highest = driver_release(facts), driver_cuda(facts, matrix)
    names = (f"driver {release}" if release else "", f"CUDA {highest}" if highest else "")
    found = " with ".join(name for name in names if name) or "no driver seen"
    family, native = matrix.families.get(cuda.major), matrix.native(cuda)
    row = native.row if native else None
    if highest and highest >= cuda:
        return Fit(kept=Kept.OK, needs=f"a driver of CUDA {cuda}", found=found, row=row)
    if family is None:
        needs = f"driver {native.driver} or newer" if native else f"a driver of CUDA {cuda}"
        old = release is not None and native is not None and release < native.driver
        return Fit(kept=Kept.BROKEN if old else Kept.UNKNOWN, needs=needs, found=found, row=row)
    same_major = highest is not None and highest.major == cuda.major
    if release is not None and highest is not None:
        kept = Kept.LIMITED if release >= family.floor else Kept.BROKEN
    elif highest is not None:
        kept = Kept.LIMITED if same_major else Kept.BROKEN
    else:
        kept = Kept.UNKNOWN
    return Fit(kept=kept, needs=f"driver {family.floor} or newer (CUDA {cuda})", found=found, row=family.row)


def arch_fit(build: Build, gpu: ComputeCapability, facts: Facts, matrix: Matrix) -> Fit:
    """Tell how the GPU code of a build fits a GPU: machine code, PTX that the driver can compile, or none."""
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
    """Tell whether the build's PTX is of a CUDA version above the driver's, which its compiler cannot read."""
    highest = driver_cuda(facts, matrix)
    return bool(build.cuda and highest and highest < build.cuda)


def by_ptx(build: Build, gpu: ComputeCapability) -> bool:
    """Tell whether the build has PTX for a GPU and no machine code."""
    fitting = {arch.kind for arch in build.archs if arch.runs_on(gpu)}
    return "compute" in fitting and "sm" not in fitting


def usable_tags(torch: str, facts: Facts, matrix: Matrix, *kept: Kept) -> tuple[str, ...]:
    """Give the builds of this minor release of PyTorch that have code for these GPUs and fit the driver like this.

    Newest CUDA first for builds that fit natively; where a driver runs them with limits, oldest first.
    """
    here = capabilities(facts)
    fitting = [
        (build, driver_fit(build.cuda, facts, matrix).kept)
        for build in matrix.torch_builds
        if build.torch == torch and all(_has_code(build.archs, gpu) for gpu in here)
    ]
    native = [build.tag for build, how in fitting if how is Kept.OK and how in kept]
    limited = [build.tag for build, how in fitting if how is Kept.LIMITED and how in kept]
    return (*reversed(native), *limited)


def newest_torch(facts: Facts, matrix: Matrix, python: str | None) -> tuple[str, str] | None:
    """Give minor release and tag of the newest PyTorch for these GPUs and this Python, native on the driver if any."""
    releases = sorted(matrix.torch_releases.values(), key=lambda one: numbers(one.torch), reverse=True)
    for kept in (Kept.OK, Kept.LIMITED):
        for release in releases:
            tags = usable_tags(release.torch, facts, matrix, kept)
            if tags and (python is None or python in release.pythons):
                return release.torch, tags[0]
    return None


def minor(version: str | None) -> str:
    """Give major and minor of a version: 2.11.0+cu130 is 2.11."""
    return ".".join((version or "").split("+")[0].split(".")[:2])


def _has_code(archs: tuple[CodeArch, ...], gpu: ComputeCapability) -> bool:
    return any(arch.kind == "sm" and arch.runs_on(gpu) for arch in archs)


def _name(arch: CodeArch) -> str:
    return f"{arch.kind}_{arch.capability.major}{arch.capability.minor}{arch.suffix}"
