"""A framework is installed as a build for the CPU alone, or for another maker's GPUs, beside a GPU.

It works, and never uses the GPU. pip takes a CPU build where the index it was sent to has no other for this platform
(Windows, most ARM machines), or where a requirement names one; onnxruntime is the CPU build by its name,
onnxruntime-gpu the other. "Torch not compiled with CUDA enabled" says the same. Install the build for the driver's
CUDA; on a Jetson, NVIDIA's build for its JetPack.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.rules import fixes
from gpustack.diagnose.rules.amd import cards as amd_cards
from gpustack.diagnose.rules.completing import BY_PLATFORM
from gpustack.diagnose.rules.cpu_only_heard import heard_builds
from gpustack.diagnose.rules.frameworks import embedded, gpu_unused, gpu_used
from gpustack.diagnose.rules.intel import discrete
from gpustack.diagnose.rules.meant import on_cpu
from gpustack.diagnose.rules.reading import because_of, copies, flag, text, told
from gpustack.diagnose.rules.saying import grounds, heard
from gpustack.diagnose.rules.seen import builds, from_text, nvidia_here, on_bus, starts
from gpustack.diagnose.rules.wheels import wheel_for_driver
from gpustack.model.facts import Layer
from gpustack.model.report import Finding, Fix, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.diagnose.rules.seen import Build
    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts

COMPLAINTS = ("torch-not-compiled-cuda", "torch-cpu-only", "xformers-built-for", "cuda-available-false")
FAILS, TOOLKIT = "cuda-fails-said", "cuda-toolkit"
KINDS = {"rocm": "ROCm", "xpu": "XPU", "cuda": "CUDA"}


def judge(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Give each CPU build beside a GPU: a remark where CUDA does not start, or for onnxruntime beside another."""
    if on_cpu(facts):
        return
    by_build = False
    for build in builds(facts):
        if _unfit(build, facts) and not _works_all_the_same(build, facts):
            by_build = by_build or build.component == "pytorch"
            yield _finding(build, facts, matrix)
    yield from (one for one in heard_builds(facts, matrix) if not (by_build and one.component == "pytorch"))


def _unfit(build: Build, facts: Facts) -> bool:
    """Tell whether a build is for no GPU that is here."""
    amd, intel = _of(facts, "amd"), _of(facts, "intel")
    if not nvidia_here(facts):
        if (facts.host.os or "").startswith("macOS"):
            return False  # no build for it has CUDA, and its own GPU needs none
        missed = heard(facts, *COMPLAINTS) or (heard(facts, FAILS) and bool(flag(told(facts, TOOLKIT), "in_use")))
        complained = build.component == "pytorch" and missed and not (amd or intel)
        unused = from_text(facts) and (amd or intel) and flag(build.copy.facts, "available") is False
        complained = complained or (_asked_in_vain(build) and not (amd or intel)) or _other_than_asked(build)
        if build.component == "pytorch" and build.accelerator in {"cpu", "cuda"} and _cards(facts):
            return True
        wrong = {"cpu"} if intel or amd else set()
        wrong |= {"cuda"} if build.component == "pytorch" and not text(build.copy.facts, "build_from") else set()
        return (complained and build.accelerator == "cpu") or bool(unused and build.accelerator in wrong)
    others = {"rocm": amd, "xpu": intel}
    return build.accelerator == "cpu" or (build.accelerator in others and not others[build.accelerator])


def _cards(facts: Facts) -> bool:
    """Tell whether a card of AMD's or Intel's is here that computes; those in a processor are no reason for a build."""
    return bool(amd_cards(facts) or discrete(facts))


def _asked_in_vain(build: Build) -> bool:
    """Tell whether somebody asked PyTorch after its GPU and its CUDA, and it had neither."""
    held = build.copy.facts
    return flag(held, "asked") is True and flag(held, "available") is False and not text(held, "build_from")


def _other_than_asked(build: Build) -> bool:
    """Tell whether somebody asked the installer for a build with CUDA, and this came of it."""
    return build.accelerator == "cpu" and text(build.copy.facts, "asked_cuda") is not None


def _of(facts: Facts, maker: str) -> bool:
    return bool(on_bus(facts, maker) or copies(facts, f"{maker}-gpu"))


def _works_all_the_same(build: Build, facts: Facts) -> bool:
    """Tell whether the build was only guessed from the platform, and nobody complains of it."""
    if not from_text(facts) or build.component != "pytorch":
        return False
    guessed = text(build.copy.facts, "build_from") == BY_PLATFORM
    return gpu_used(facts) or (guessed and not gpu_unused(facts))


def _finding(build: Build, facts: Facts, matrix: Matrix) -> Finding:
    beside = any(
        other.accelerator == "cuda" and other.copy.environment == build.copy.environment for other in builds(facts)
    )
    remark = (starts(facts) is False and not gpu_unused(facts) and not _cards(facts)) or (
        build.component == "onnxruntime" and beside
    )
    complained = from_text(facts) and build.component == "pytorch" and (gpu_unused(facts) or _other_than_asked(build))
    kind = KINDS.get(build.accelerator or "", "CPU-only")
    where = f" in {build.copy.environment}" if build.copy.environment else ""
    return Finding(
        id="cpu-only-build",
        instance=build.mark,
        severity=Severity.INFO if remark else Severity.ERROR if complained else Severity.WARNING,
        layer=Layer.FRAMEWORK,
        component=build.component,
        title=f"{build.name}{where} is a {kind} build: it does not use the GPU",
        detail=_why(build, facts),
        because=(
            *(grounds(facts, *COMPLAINTS) if build.component == "pytorch" else ()),
            because_of(facts, build.component, build.copy, "build"),
            because_of(facts, build.component, build.copy, "version"),
        ),
        row=None,
        fix=fix_of(build, facts, matrix),
    )


def _why(build: Build, facts: Facts) -> str:
    if text(build.copy.facts, "build_from") == BY_PLATFORM:
        return "The package index serves builds without CUDA for this platform, and no other build is named."
    asked = text(build.copy.facts, "asked_cuda")
    if asked and build.accelerator == "cpu":
        return f"A build with CUDA {asked} was asked for, and the installer took one without CUDA."
    said = text(build.copy.facts, "cuda_used")
    if said and build.component == "pytorch" and from_text(facts):
        return f"Its report gives the CUDA used to build it as {said}: it has no CUDA inside."
    return ""


def fix_of(build: Build, facts: Facts, matrix: Matrix) -> Fix:
    """Give the build to install instead."""
    if embedded(facts):
        return fixes.jetson(build)
    if build.component == "pytorch" and not nvidia_here(facts):
        return fixes.any_torch(build, matrix, "rocm" if _of(facts, "amd") else "xpu" if _of(facts, "intel") else "cuda")
    wheel = wheel_for_driver(build, facts, matrix)
    if wheel is None and from_text(facts):
        return fixes.any_torch(build, matrix)
    return Fix(
        text=wheel[0] if wheel else "No build for the GPU that we know fits this driver: bring it up to date first.",
        commands=wheel[1] if wheel else fixes.driver(facts, matrix),
        needs_root=not wheel,
        needs_reboot=not wheel,
        verify=fixes.verify(build),
    )
