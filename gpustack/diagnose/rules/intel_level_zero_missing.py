"""The GPU half of Intel's Level Zero is not installed, so SYCL and PyTorch see no Intel GPU.

Level Zero comes in two halves: the loader (libze_loader.so.1) that programs link, and the driver for GPUs
(libze_intel_gpu.so.1), a part of Intel's compute runtime. With the loader alone, zeInit finds nothing, while OpenCL may
well list the GPU. Install the GPU half of your distribution or of Intel's repository.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpustack.diagnose.rules import fixes, intel
from gpustack.diagnose.rules.reading import because_of, copies, status, table, text, told
from gpustack.diagnose.rules.saying import grounds, heard, value
from gpustack.diagnose.rules.seen import nvidia_here, on_bus
from gpustack.model.command import sh
from gpustack.model.facts import Layer, Status
from gpustack.model.report import Because, Confidence, Finding, Fix, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts

LIBRARY, LOADER = "libze_intel_gpu.so.1", "libze_loader.so.1"
MISSING, NONE, EMPTY, DEAD = "ze-library-missing", "ze-version-missing", "ze-no-gpu", "ze-uninitialized"
WEAK = ("xpu-no-devices", "ze-no-devices", "sycl-no-devices", "sycl-no-gpu-listed")
OPENCL = ("intel-opencl-icd", "intel-opencl")  # the OpenCL half of the runtime, in packages of its own
HALVES = re.compile(r"level[-_]zero|libze[-_]?intel|libze1")
INSTALL = {
    "apt": sh("sudo apt-get install libze1 libze-intel-gpu1  # older releases: level-zero intel-level-zero-gpu"),
    "dnf": sh("sudo dnf install oneapi-level-zero intel-compute-runtime"),
    "zypper": sh("sudo zypper install level-zero intel-compute-runtime"),
    "pacman": sh("sudo pacman -S level-zero-loader intel-compute-runtime"),
}


def judge(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """Give the finding where the library is missing, or where an Intel GPU is not found through Level Zero."""
    yield from _seen(facts)
    opencl = _opencl_alone(facts)
    here = bool(copies(facts, "intel-gpu") or on_bus(facts, "intel") or opencl) or heard(facts, "sycl-opencl-gpu")
    weak = heard(facts, *WEAK) and not heard(facts, "sycl-listed") and not heard(facts, "oneapi-library")
    only_opencl = heard(facts, "sycl-opencl-gpu") and not heard(facts, "sycl-listed", "oneapi-library")
    if not heard(facts, MISSING, NONE, EMPTY, DEAD) and not ((weak and here) or only_opencl):
        return
    name = value(facts, MISSING, "soname", "package") or LIBRARY
    loader = "loader" in name or name == "libze1"
    yield Finding(
        id="intel-level-zero-missing",
        severity=Severity.ERROR,
        layer=Layer.DRIVER,
        component="level-zero",
        title=f"Intel's Level Zero {'loader' if loader else 'driver for GPUs'} ({name}) is not installed",
        detail="The loader (libze1) alone finds no GPU: the GPU half comes with Intel's compute runtime."
        + (" OpenCL lists the GPU, so the kernel's driver works." if heard(facts, "sycl-opencl-gpu") else "")
        + (f" Installed is {opencl}, the OpenCL half, and no package of level-zero." if opencl else ""),
        confidence=_sure(facts),
        because=grounds(facts, MISSING, NONE, EMPTY, DEAD, *WEAK, "sycl-opencl-gpu", most=6),
        fix=_install(facts),
    )


def _seen(facts: Facts) -> Iterator[Finding]:
    """Give the finding where half of Level Zero was looked for in vain, and a GPU here is meant for computing.

    That is a card of its own, or any Intel GPU where a framework is built for it; beside an NVIDIA GPU nobody waits
    for the GPU in the processor. Nothing says so while the GPU's nodes are shut: that is another matter.
    """
    builds = intel.xpu_builds(facts)
    gpus = intel.cards(facts) if builds and not nvidia_here(facts) else intel.discrete(facts)
    absent = status(facts, intel.LEVEL_ZERO) is Status.ABSENT
    half = not any(text(copy.facts, "kind") == "level-zero" for copy in copies(facts, intel.RUNTIME))
    looked = status(facts, intel.RUNTIME) in {Status.ABSENT, Status.PRESENT}
    if not gpus or facts.host.wsl or not looked or not (absent or half) or intel.starts(facts):
        return
    name = LIBRARY if half else LOADER
    yield Finding(
        id="intel-level-zero-missing",
        severity=Severity.ERROR if builds else Severity.WARNING,
        layer=Layer.DRIVER,
        component="level-zero",
        title=f"Intel's Level Zero {'driver for GPUs' if half else 'loader'} ({name}) is not installed: nothing can "
        f"compute on the {intel.name_of(gpus[0])}",
        detail="".join(f"{one.name} is built for it. " for one in builds[:1])
        + f"The kernel's driver {text(gpus[0].facts, 'driver')} works; PyTorch and SYCL need Level Zero besides.",
        because=(
            because_of(facts, intel.GPU, gpus[0], "driver"),
            _looked_for(facts, intel.RUNTIME if half else intel.LEVEL_ZERO),
            *(because_of(facts, one.component, one.copy, "build") for one in builds[:1]),
        ),
        fix=_install(facts),
    )


def _looked_for(facts: Facts, component: str) -> Because:
    seen = facts.find(component)
    return Because(
        component=component,
        fact="status",
        value=seen.status.value if seen else None,
        source=seen.source if seen else "",
    )


def _install(facts: Facts) -> Fix:
    return Fix(
        text="Install the GPU half of Level Zero.",
        commands=(INSTALL.get(fixes.manager(facts) or "") or sh("# install level-zero and Intel's compute runtime"),),
        needs_root=True,
        verify=sh("sycl-ls"),
    )


def _opencl_alone(facts: Facts) -> str | None:
    """Give the package of OpenCL for Intel's GPUs, where packages were listed and none of Level Zero is among them."""
    packages = table(told(facts, "system-packages"), "packages")
    found = next((f"{name} {packages[name]}" for name in OPENCL if name in packages), None)
    return None if any(HALVES.search(name) for name in packages) else found


def _sure(facts: Facts) -> Confidence:
    if heard(facts, MISSING):
        return Confidence.CERTAIN
    return Confidence.LIKELY if heard(facts, NONE, DEAD, "sycl-opencl-gpu") else Confidence.POSSIBLE
