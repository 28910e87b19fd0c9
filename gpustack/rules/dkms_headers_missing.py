"""The headers of the running kernel are missing, so DKMS could not build NVIDIA's module for it.

DKMS compiles the module for each kernel, and for that needs the kernel's headers. A kernel update brought a new kernel
without them, and the module stayed behind. Install the headers and let DKMS build.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.model.facts import Layer, Status
from gpustack.model.report import Finding, Severity
from gpustack.rules import fixes
from gpustack.rules.nvidia_module_not_loaded import on_disk, out
from gpustack.rules.reading import because, because_of, copies, status, text
from gpustack.rules.seen import nvidia_here

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts, Instance


def judge(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """Give the finding where DKMS has the module, this kernel has not, and its headers are absent."""
    mine = dkms_modules(facts)
    if not nvidia_here(facts) or not out(facts) or not mine or on_disk(facts):
        return
    if status(facts, "kernel-headers") is not Status.ABSENT:
        return
    yield Finding(
        id="dkms-headers-missing",
        severity=Severity.ERROR,
        layer=Layer.KERNEL,
        component="dkms",
        title=f"DKMS could not build NVIDIA's module: the headers of kernel {fixes.kernel(facts)} are missing",
        because=(
            because(facts, "kernel-headers", "path"),
            because_of(facts, "dkms", mine[0], "state"),
            because(facts, "linux-kernel", "release"),
        ),
        fix=fixes.rebuild(
            facts,
            "Install the headers, build the module, and restart.",
            fixes.headers(facts),
            f"sudo dkms autoinstall -k {fixes.kernel(facts)}",
        ),
    )


def dkms_modules(facts: Facts) -> tuple[Instance, ...]:
    """Give what DKMS has of NVIDIA's driver, those for the running kernel first."""
    return tuple(copy for copy in copies(facts, "dkms") if (text(copy.facts, "module") or "").startswith("nvidia"))
