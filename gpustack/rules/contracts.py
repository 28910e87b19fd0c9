"""The contracts between the layers of the stack: what each thing needs of another, and whether it has it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gpustack.model.facts import Status
from gpustack.model.report import Contract, Kept
from gpustack.model.versions import CudaVersion, DriverRelease
from gpustack.rules.compatibility import Fit, arch_fit, driver_fit, minor
from gpustack.rules.libraries import copy_at, pinned, used
from gpustack.rules.reading import copies, flag, number, numbers, status, text, told, version
from gpustack.rules.seen import arch_on_bus, builds, capabilities, loaded_release, nvidia_here, ours

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts
    from gpustack.rules.seen import Build

MODULES = ("nvidia-uvm.ko", "nvidia-modeset.ko", "nvidia-drm.ko", "nvidia-peermem.ko")
LIBRARIES = (
    ("libcudnn", "cudnn", "nvidia-cudnn"),
    ("libnccl", "nccl", "nvidia-nccl"),
    ("libcublas", "cublas", "nvidia-cublas"),
)


def draw(facts: Facts, matrix: Matrix) -> tuple[Contract, ...]:
    """Give every contract whose two ends were seen, bottom layer first."""
    return (*_kernel(facts), *_driver(facts), *_gpus(facts, matrix), *_runtime(facts, matrix), *_builds(facts, matrix))


def _kernel(facts: Facts) -> Iterator[Contract]:
    running = version(facts, "linux-kernel")
    headers = status(facts, "kernel-headers")
    if running and headers in {Status.PRESENT, Status.ABSENT} and copies(facts, "dkms"):
        found = (version(facts, "kernel-headers") if headers is Status.PRESENT else None) or "none"
        kept = Kept.OK if found == running else Kept.BROKEN
        yield _fitted("dkms", "kernel-headers", "headers", Fit(kept=kept, needs=running, found=found))
    made_for = (text(told(facts, "nvidia.ko"), "vermagic") or "").partition(" ")[0]
    if running and made_for:
        kept = Kept.OK if made_for == running else Kept.BROKEN
        yield _fitted("nvidia.ko", "linux-kernel", "vermagic", Fit(kept=kept, needs=made_for, found=running))


def _driver(facts: Facts) -> Iterator[Contract]:
    loaded = loaded_release(facts)
    for module in MODULES:
        release = DriverRelease.parse(text(told(facts, module), "version_loaded"))
        if loaded and release:
            yield _fitted(module, "nvidia.ko", "release", _same(release, loaded))
    driver = told(facts, "nvidia-driver")
    works = number(told(facts, "nvml"), "code") == 0
    for library, name in (("libcuda", "libcuda"), ("libnvidia-ml", "libnvidia_ml")):
        release = DriverRelease.parse(text(driver, name))
        if loaded and release and not facts.host.wsl:
            same = _same(release, loaded)
            yield _fitted(library, "nvidia.ko", "release", replace(same, kept=Kept.OK) if works else same)


def _gpus(facts: Facts, matrix: Matrix) -> Iterator[Contract]:
    """Give how the GPUs on the bus go with the driver's branch and the module's flavour, one contract a kind."""
    loaded, is_open = loaded_release(facts), text(told(facts, "nvidia.ko"), "flavour")
    for arch in dict.fromkeys(arch_on_bus(copy, matrix) for copy in ours(facts)):
        span, flavour = (matrix.span(arch), matrix.flavour(arch)) if arch else (None, None)
        if span and loaded:
            ends = (f"from {span.first}" if span.first else "", f"up to {span.last}" if span.last else "")
            inside = (span.first or 0) <= loaded.branch <= (span.last or loaded.branch)
            needs = f"a driver branch {' '.join(end for end in ends if end)}"
            fit = Fit(
                kept=Kept.OK if inside else Kept.BROKEN, needs=needs, found=f"branch {loaded.branch}", row=span.row
            )
            yield _fitted("gpu", "nvidia-driver", "branch", fit)
        if flavour and is_open in {"open", "proprietary"}:
            allowed = flavour.open if is_open == "open" else flavour.closed
            kept = Kept.BROKEN if allowed == "impossible" else Kept.OK
            needs = f"a kernel module for {arch}: open {flavour.open}, proprietary {flavour.closed}"
            yield _fitted("gpu", "nvidia.ko", "flavour", Fit(kept=kept, needs=needs, found=is_open, row=flavour.row))


def _runtime(facts: Facts, matrix: Matrix) -> Iterator[Contract]:
    """Give how toolkit and cuda-python go with the driver."""
    if not nvidia_here(facts):
        return
    for copy in copies(facts, "cuda-toolkit"):
        cuda = CudaVersion.parse(copy.version)
        if cuda and flag(copy.facts, "in_use"):
            yield _fitted("cuda-toolkit", "nvidia-driver", "cuda", driver_fit(cuda, facts, matrix))
    for bindings in copies(facts, "cuda-bindings"):
        major = numbers(bindings.version)[:1]
        if major:
            fit = driver_fit(CudaVersion(major[0]), facts, matrix)
            kept = Kept.LIMITED if fit.kept is Kept.BROKEN else fit.kept
            yield _fitted("cuda-bindings", "nvidia-driver", "cuda", replace(fit, kept=kept), bindings.environment)


def _builds(facts: Facts, matrix: Matrix) -> Iterator[Contract]:
    gpu_here = nvidia_here(facts)
    for build in builds(facts):
        where = build.copy.environment
        if build.cuda and gpu_here:
            yield _fitted(build.component, "nvidia-driver", "cuda", driver_fit(build.cuda, facts, matrix), where)
        if build.accelerator == "cuda" and build.component == "pytorch":
            for gpu in capabilities(facts):
                yield _fitted(build.component, "gpu", "architecture", arch_fit(build, gpu, facts, matrix), where)
        yield from _libraries(build, facts)
        yield from _python(build, facts, matrix)


def _libraries(build: Build, facts: Facts) -> Iterator[Contract]:
    """Give how the libraries that a framework uses go with those it was built with: the same minor or newer."""
    for library, component, wheel in LIBRARIES:
        one, wanted = used(build, library, component, facts), pinned(build, wheel)
        copy = copy_at(one.path, component, facts) if one else None
        if not wanted or not copy or not copy.version:
            continue
        found, needs = numbers(copy.version), numbers(wanted)
        kept = Kept.OK if found[:1] == needs[:1] and found[:2] >= needs[:2] else Kept.BROKEN
        least = ".".join(str(number) for number in needs[:2])
        fit = Fit(kept=kept, needs=f"{component} {least} or newer", found=f"{component} {copy.version}")
        yield _fitted(build.component, component, "library", fit, build.copy.environment)


def _python(build: Build, facts: Facts, matrix: Matrix) -> Iterator[Contract]:
    """Give how PyTorch goes with its Python; another than its own wheels were made for may come from elsewhere."""
    release = matrix.torch_releases.get(minor(build.copy.version)) if build.component == "pytorch" else None
    python = next((copy for copy in copies(facts, "python") if copy.environment == build.copy.environment), None)
    if release is None or python is None or not python.version:
        return
    kept = Kept.OK if minor(python.version) in release.pythons else Kept.UNKNOWN
    fit = Fit(
        kept=kept,
        needs=f"Python {release.pythons[0]} to {release.pythons[-1]}",
        found=f"Python {python.version}",
        row=release.row,
    )
    yield _fitted("pytorch", "python", "python", fit, build.copy.environment)
    glibc = text(python.facts, "glibc")
    if glibc:
        kept = Kept.OK if numbers(glibc) >= numbers(release.glibc) else Kept.BROKEN
        fit = Fit(kept=kept, needs=f"glibc {release.glibc} or newer", found=f"glibc {glibc}", row=release.row)
        yield _fitted("pytorch", "python", "glibc", fit, build.copy.environment)


def _same(needs: DriverRelease, found: DriverRelease) -> Fit:
    return Fit(kept=Kept.OK if needs == found else Kept.BROKEN, needs=str(needs), found=str(found))


def _fitted(from_: str, to: str, kind: str, fit: Fit, environment: str | None = None) -> Contract:
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
