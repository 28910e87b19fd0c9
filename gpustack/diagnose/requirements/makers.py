"""What AMD's and Intel's stacks require: GPU, kernel and runtime of each other, frameworks of the runtime."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.machine import amd
from gpustack.diagnose.machine.intel import (
    INTEL_GPU,
    LEVEL_ZERO,
    MODULES,
    RUNTIME,
    cards,
    device_of,
    listed,
    starts,
    xpu_builds,
)
from gpustack.diagnose.machine.inventory import Build, builds, from_text
from gpustack.diagnose.machine.values import copies, flag, items, number, table, text, told
from gpustack.diagnose.requirements.fits import Fit, asked, edge, release
from gpustack.matrix.subjects import amd_intel
from gpustack.matrix.subjects.ranges import numbers
from gpustack.model.report import Contract, Kept, Row

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.matrix.subjects.amd_intel import IntelPlatform
    from gpustack.model.facts import Facts, Instance

GOOD = frozenset({"supported", "release-ready"})


def amd_draw(facts: Facts, matrix: Matrix) -> Iterator[Contract]:
    """Return the requirements on a machine that was probed or asked about; frameworks cover those of texts."""
    if from_text(facts) and not any(map(asked, copies(facts, "rocm"))):
        return
    for gpu in amd.gpus(facts):
        if gpu.driver == "amdgpu" and not (gpu.integrated and not gpu.kfd):
            hidden = number(gpu.copy.facts, "hidden_nodes")  # from this container: nobody can tell
            kept = Kept.OK if gpu.kfd else Kept.UNKNOWN if hidden else Kept.BROKEN
            found = "listed by KFD" if gpu.kfd else "not listed by KFD"
            yield edge("amd-gpu", amd.MODULE, "compute", Fit(kept=kept, needs=f"{gpu.title} in KFD", found=found))
    for copy in copies(facts, "rocm"):
        if (release(copy) or asked(copy)) and not flag(copy.facts, "placeholder"):
            yield from _targets(copy, facts, matrix)
            yield from _driver(copy, facts, matrix)
    yield from _hip(facts)


def _targets(copy: Instance, facts: Facts, matrix: Matrix) -> Iterator[Contract]:
    """Return whether AMD supports each target here with a ROCm release; without a statement it may work."""
    rows = amd_intel.support_of(matrix, copy.version or "")
    named = (text(one.facts, "gfx") for one in copies(facts, "amd-gpu") if asked(one))
    for gfx in dict.fromkeys(one for one in (*(gpu.gfx for gpu in amd.computing(facts)), *named) if one):
        stated = next((row for row in rows if gfx in row.gfx), None)
        kept = Kept.UNKNOWN if stated is None else Kept.OK if stated.level in GOOD else Kept.LIMITED
        found = f"{gfx}: {stated.level}" if stated else f"{gfx}: no statement known"
        fit = Fit(kept=kept, needs=f"ROCm {copy.version} for {gfx}", found=found, row=stated.row if stated else None)
        yield edge("amd-gpu", "rocm", "target", fit, copy.environment)


def _driver(copy: Instance, facts: Facts, matrix: Matrix) -> Iterator[Contract]:
    """Return whether a ROCm fits AMD's own kernel driver; the kernel's own amdgpu has no stated range."""
    module = text(told(facts, amd.MODULE), "version_loaded")
    known = next(
        (row for row in amd_intel.driver_modules(matrix) if module and numbers(row.module) == numbers(module)), None
    )
    window = amd_intel.driver_window_of(matrix, known.driver) if known else None
    if known and window:
        kept = Kept.OK if window.rocm.holds(copy.version or "") else Kept.LIMITED
        fit = Fit(kept=kept, needs=f"ROCm {window.rocm}", found=f"ROCm {copy.version}", row=window.row)
        yield edge("rocm", amd.MODULE, "driver", fit, copy.environment)


def _hip(facts: Facts) -> Iterator[Contract]:
    """Return whether a PyTorch for ROCm fits the HIP in its own Python: built for the same major and minor."""
    for build in builds(facts):
        wanted = numbers((text(build.copy.facts, "hip") or "").partition("-")[0])[:2]
        found = next((one for one in copies(facts, "hip") if one.environment == build.copy.environment), None)
        there = numbers(found.version)[:2] if found else ()
        if build.accelerator != "rocm" or not wanted or not there or not found:
            continue
        kept = Kept.OK if there == wanted else Kept.LIMITED if there[:1] == wanted[:1] else Kept.BROKEN
        fit = Fit(kept=kept, needs=f"HIP {'.'.join(map(str, wanted))}", found=f"HIP {found.version}")
        yield edge(build.component, "hip", "library", fit, build.copy.environment)


GIB = 1 << 30
SYCL = "libsycl.so."


def intel_draw(facts: Facts, matrix: Matrix) -> Iterator[Contract]:
    """Return whether each GPU fits its module and runtime, and each build its GPU and SYCL runtime."""
    for copy in copies(facts, INTEL_GPU):
        platform = _platform(copy, matrix)
        if platform:
            yield from _module(copy, platform)
        yield from _window(copy, matrix)
    for platform in {one.name: one for copy in cards(facts) if (one := _platform(copy, matrix))}.values():
        yield from _runtime(platform, facts)
    for build in xpu_builds(facts):
        yield from _sycl(build, matrix)
        yield from _reached(build, facts, matrix)


def _platform(copy: Instance, matrix: Matrix) -> IntelPlatform | None:
    device = device_of(copy)
    return amd_intel.platform_of(matrix, device) if device is not None else None


def _module(copy: Instance, platform: IntelPlatform) -> Iterator[Contract]:
    """Return whether the right module drives the GPU: xe owns some, the others belong to i915 unless forced."""
    driver = text(copy.facts, "driver")
    if driver not in MODULES:
        return
    kept = Kept.BROKEN if platform.xe and driver == "i915" else Kept.OK
    needs = f"{'xe' if platform.xe else 'i915, or xe by force_probe'} for {platform.name}"
    yield edge(INTEL_GPU, f"{driver}.ko", "module", Fit(kept=kept, needs=needs, found=driver, row=platform.row))


def _window(copy: Instance, matrix: Matrix) -> Iterator[Contract]:
    """Return whether the memory window of a card is as large as its memory (Resizable BAR), which xe needs."""
    memory, window = number(copy.facts, "memory_bytes"), number(copy.facts, "memory_window_bytes")
    driver = text(copy.facts, "driver")
    if not memory or not window or flag(copy.facts, "integrated") or driver not in MODULES:
        return
    whole = window >= memory // 2  # a few hundred MiB are the card's own, and the window is a power of two
    small = Kept.BROKEN if driver == "xe" else Kept.LIMITED
    fit = Fit(
        kept=Kept.OK if whole else small,
        needs=f"Resizable BAR: a window onto all of {memory / GIB:.0f} GiB",
        found=f"a window of {window / GIB:.2f} GiB",
        row=amd_intel.window_rule(matrix),
    )
    yield edge(INTEL_GPU, f"{driver}.ko", "window", fit)


def _runtime(platform: IntelPlatform, facts: Facts) -> Iterator[Contract]:
    """Return whether the compute runtime for this platform is installed; old platforms have their own packages."""
    halves = [copy for copy in copies(facts, RUNTIME) if text(copy.facts, "kind") == "level-zero"]
    if not halves or platform.level_zero is None:
        return
    fitting = [copy for copy in halves if flag(copy.facts, "legacy") is platform.legacy]
    which = "the legacy1 packages" if platform.legacy else "the regular packages"
    found = ", ".join(copy.version or f"build {copy.build or 'unknown'}" for copy in fitting or halves)
    fit = Fit(
        kept=Kept.OK if fitting else Kept.BROKEN,
        needs=f"the compute runtime of {which} for {platform.name}",
        found=f"compute runtime {found}",
        row=platform.row,
    )
    yield edge(RUNTIME, INTEL_GPU, "platform", fit)


def _sycl(build: Build, matrix: Matrix) -> Iterator[Contract]:
    """Return whether the SYCL runtime that a build would load is the one that it pins."""
    held = build.copy
    known = amd_intel.xpu_build_of(matrix, held.version or "") if build.component == "pytorch" else None
    pinned = text(held.facts, "pins", "intel-sycl-rt") or (known.runtime if known else None)
    found = text(held.facts, "installed", "intel-sycl-rt")
    row: Row | None = known.row if known else None
    if pinned and found:
        fits = numbers(pinned)[:2] == numbers(found)[:2]
        fit = Fit(
            kept=Kept.OK if fits else Kept.BROKEN,
            needs=f"oneAPI runtime {pinned}",
            found=f"intel-sycl-rt {found}",
            row=row,
        )
        yield edge(build.component, "sycl", "library", fit, held.environment)
    search = table(held.facts, "search")
    for name in (one for one in search if one.startswith(SYCL)):
        first = next(iter(items(search, name)), None)
        fit = Fit(
            kept=Kept.OK if first else Kept.BROKEN, needs=name, found=text(first, "path") or "no such file", row=row
        )
        yield edge(build.component, "sycl", "loader", fit, held.environment)


def _reached(build: Build, facts: Facts, matrix: Matrix) -> Iterator[Contract]:
    """Return whether Level Zero lists the build's GPUs, since torch reaches them in no other way."""
    if starts(facts) is None:
        return
    names = [text(device, "name") or "a GPU without a name" for device in listed(facts)]
    platforms = [one for copy in cards(facts) if (one := _platform(copy, matrix))]
    row = next((one.row for one in platforms), None)
    kept = Kept.OK if names else Kept.BROKEN
    found = ", ".join(names) or "no GPU that Level Zero lists"
    fit = Fit(kept=kept, needs="an Intel GPU that Level Zero lists", found=found, row=row)
    yield edge(build.component, LEVEL_ZERO, "architecture", fit, build.copy.environment)
