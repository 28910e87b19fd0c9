"""The contracts of AMD's stack: GPU with kernel and ROCm, ROCm with the kernel's driver, PyTorch with HIP."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.machine import amd
from gpustack.diagnose.machine.inventory import builds, from_text
from gpustack.diagnose.machine.values import copies, flag, number, text, told
from gpustack.diagnose.requirements.edges import asked, edge, release
from gpustack.diagnose.requirements.fits import Fit
from gpustack.matrix.subjects import amd_intel
from gpustack.matrix.subjects.ranges import numbers
from gpustack.model.report import Kept

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts, Instance
    from gpustack.model.report import Contract


GOOD = frozenset({"supported", "release-ready"})


def draw(facts: Facts, matrix: Matrix) -> Iterator[Contract]:
    """Return the contracts of a machine that was probed, or asked about; a text's are drawn with the frameworks."""
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
    """Return how a ROCm goes with each target here, by what its makers state; what no row states may work."""
    rows = amd_intel.support_of(matrix, copy.version or "")
    named = (text(one.facts, "gfx") for one in copies(facts, "amd-gpu") if asked(one))
    for gfx in dict.fromkeys(one for one in (*(gpu.gfx for gpu in amd.computing(facts)), *named) if one):
        stated = next((row for row in rows if gfx in row.gfx), None)
        kept = Kept.UNKNOWN if stated is None else Kept.OK if stated.level in GOOD else Kept.LIMITED
        found = f"{gfx}: {stated.level}" if stated else f"{gfx}: no statement known"
        fit = Fit(kept=kept, needs=f"ROCm {copy.version} for {gfx}", found=found, row=stated.row if stated else None)
        yield edge("amd-gpu", "rocm", "target", fit, copy.environment)


def _driver(copy: Instance, facts: Facts, matrix: Matrix) -> Iterator[Contract]:
    """Return how a ROCm goes with AMD's own kernel driver; for the kernel's own amdgpu no window is stated."""
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
    """Give how a PyTorch for ROCm goes with the HIP that lies in its own Python: built for the same major and minor."""
    for build in builds(facts):
        wanted = numbers((text(build.copy.facts, "hip") or "").partition("-")[0])[:2]
        found = next((one for one in copies(facts, "hip") if one.environment == build.copy.environment), None)
        there = numbers(found.version)[:2] if found else ()
        if build.accelerator != "rocm" or not wanted or not there or not found:
            continue
        kept = Kept.OK if there == wanted else Kept.LIMITED if there[:1] == wanted[:1] else Kept.BROKEN
        fit = Fit(kept=kept, needs=f"HIP {'.'.join(map(str, wanted))}", found=f"HIP {found.version}")
        yield edge(build.component, "hip", "library", fit, build.copy.environment)
