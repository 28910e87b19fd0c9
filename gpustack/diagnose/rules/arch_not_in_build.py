"""A build has no code for this GPU.

Machine code runs on its own architecture generation alone, and a build carries code for some of them: a GPU that is
newer than the build, or one that the build has dropped, gets "no kernel image is available" (error 209) or "not
compatible with the current PyTorch installation". Take a build that lists the GPU's architecture.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.rules import arch_heard, fixes
from gpustack.diagnose.rules.compatibility import arch_fit, by_ptx
from gpustack.diagnose.rules.reading import because, because_of, items, number, text, told
from gpustack.diagnose.rules.saying import heard
from gpustack.diagnose.rules.seen import builds, capabilities, from_text, gpus
from gpustack.model.command import ARCH, GPU, either, sh
from gpustack.model.facts import Layer
from gpustack.model.report import Finding, Fix, Severity
from gpustack.model.versions import ComputeCapability

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.diagnose.rules.seen import Build
    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts
    from gpustack.model.report import Because


def judge(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Give each build without code for a GPU: an error where it has none for any GPU that programs see."""
    complaint = arch_heard.finding(facts, matrix)
    if complaint:
        yield complaint
        return
    here = capabilities(facts)
    for build in builds(facts):
        if from_text(facts) and (heard(facts, "ran-on-gpu") or build.accelerator != "cuda" or _guessed(build)):
            continue  # it was seen at work, or nobody knows what it is
        without = [gpu for gpu in here if not any(arch.runs_on(gpu) for arch in build.archs)]
        if build.archs and without and not any(by_ptx(build, gpu) for gpu in without):
            yield _finding(build, without, facts, matrix, some=len(without) < len(here))


def _guessed(build: Build) -> bool:
    return text(build.copy.facts, "build_from") is not None


def _finding(build: Build, without: list[ComputeCapability], facts: Facts, matrix: Matrix, *, some: bool) -> Finding:
    fit = arch_fit(build, without[0], facts, matrix)
    known = matrix.arch(without[0])
    name = f"{without[0].sm} ({known.name})" if known else without[0].sm
    since = (
        f" CUDA {known.first_toolkit} is the first that can compile for it." if known and known.first_toolkit else ""
    )
    return Finding(
        id="arch-not-in-build",
        instance=build.mark,
        severity=Severity.WARNING if some else Severity.ERROR,
        layer=Layer.FRAMEWORK,
        component=build.component,
        title=f"{build.name} has no code for {_product(facts, without[0])}, {name}",
        detail=f"The build has {fit.found}.{since}",
        because=(
            because_of(facts, build.component, build.copy, "version"),
            because_of(facts, build.component, build.copy, "archs"),
            *_gpu(facts, without[0]),
        ),
        row=fit.row,
        fix=_fix(build, without, facts, matrix),
    )


def _fix(build: Build, without: list[ComputeCapability], facts: Facts, matrix: Matrix) -> Fix:
    """Give how to get code for the GPUs; where there is code for some, how to use those alone."""
    wheel = fixes.torch_wheel(build, facts, matrix)
    text_ = wheel[0] if wheel else "No build of PyTorch's own that we know has code for it: build it from source."
    commands = wheel[1] if wheel else (sh("export TORCH_CUDA_ARCH_LIST={arch}", arch=ARCH(without[0])),)
    devices = items(told(facts, "libcuda"), "devices")
    fit = [
        str(number(one, "ordinal"))
        for one in devices
        if ComputeCapability.parse(text(one, "cc")) not in {None, *without}
    ]
    if fit and len(fit) < len(devices):
        text_ = f"Show programs only the GPUs that it has code for. Or for all: {text_}"
        commands = either(sh("export CUDA_VISIBLE_DEVICES={gpus}", gpus=GPU(",".join(fit))), *commands)
    return Fix(text=text_, commands=commands, verify=fixes.verify(build))


def _product(facts: Facts, wanted: ComputeCapability) -> str:
    """Give the GPU's name as texts tell it; on a live machine its architecture is enough."""
    return next((gpu.name for gpu in gpus(facts) if from_text(facts) and gpu.capability == wanted), "this GPU")


def _gpu(facts: Facts, wanted: ComputeCapability) -> Iterator[Because]:
    """Give the GPU that the code is missing for, as the driver names it."""
    for gpu in gpus(facts):
        if gpu.capability == wanted:
            yield because_of(facts, "gpu", gpu.copy, "name")
            yield because_of(facts, "gpu", gpu.copy, "cc")
            return
    yield because(facts, "libcuda", "devices")
