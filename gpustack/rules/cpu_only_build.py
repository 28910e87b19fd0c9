"""A framework is installed as a build for the CPU alone, or for another maker's GPUs, beside an NVIDIA GPU.

It works, and never uses the GPU. pip takes a CPU build where the index it was sent to has no other for this platform,
or where a requirement names one; onnxruntime is the CPU build by its name, onnxruntime-gpu the other. Install the build
for the driver's CUDA.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.model.facts import Layer
from gpustack.model.report import Finding, Fix, Severity
from gpustack.rules import fixes
from gpustack.rules.reading import because_of
from gpustack.rules.seen import builds, nvidia_here, on_bus, starts
from gpustack.rules.wheels import wheel_for_driver

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts
    from gpustack.rules.seen import Build


def judge(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Give each CPU build beside a GPU: a remark where CUDA does not start, or for onnxruntime beside another."""
    if not nvidia_here(facts):
        return
    others = {"rocm": on_bus(facts, "amd"), "xpu": on_bus(facts, "intel")}
    for build in builds(facts):
        if build.accelerator == "cpu" or (build.accelerator in others and not others[build.accelerator]):
            yield _finding(build, facts, matrix)


def _finding(build: Build, facts: Facts, matrix: Matrix) -> Finding:
    beside = any(
        other.accelerator == "cuda" and other.copy.environment == build.copy.environment for other in builds(facts)
    )
    remark = starts(facts) is False or (build.component == "onnxruntime" and beside)
    wheel = wheel_for_driver(build, facts, matrix)
    kind = {"rocm": "ROCm", "xpu": "XPU"}.get(build.accelerator or "", "CPU-only")
    where = f" in {build.copy.environment}" if build.copy.environment else ""
    return Finding(
        id="cpu-only-build",
        instance=build.mark,
        severity=Severity.INFO if remark else Severity.WARNING,
        layer=Layer.FRAMEWORK,
        component=build.component,
        title=f"{build.name}{where} is a {kind} build: it does not use the GPU",
        because=(
            because_of(facts, build.component, build.copy, "build"),
            because_of(facts, build.component, build.copy, "version"),
        ),
        row=None,
        fix=Fix(
            text=wheel[0]
            if wheel
            else "No build for the GPU that we know fits this driver: bring it up to date first.",
            commands=wheel[1] if wheel else fixes.driver(facts),
            needs_root=not wheel,
            needs_reboot=not wheel,
            verify=fixes.verify(build),
        ),
    )
