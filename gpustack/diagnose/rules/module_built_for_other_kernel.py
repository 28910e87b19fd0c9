"""NVIDIA's kernel module was built for another kernel than the one that runs.

A module carries the name of the kernel that it was made for (its vermagic), and the kernel refuses one that names
another. Build the module for this kernel, or start the kernel that it was made for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.rules import fixes
from gpustack.diagnose.rules.nvidia_module_not_loaded import out
from gpustack.diagnose.rules.reading import because, text, texts, told, version
from gpustack.diagnose.rules.seen import nvidia_here
from gpustack.model.command import sh
from gpustack.model.facts import Layer
from gpustack.model.report import Because, Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts


def judge(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """Give the finding where the module on disk names another kernel, or the log says that it does."""
    if not nvidia_here(facts) or not out(facts):
        return
    made_for = (text(told(facts, "nvidia.ko"), "vermagic") or "").partition(" ")[0]
    running = version(facts, "linux-kernel")
    log = [
        line
        for line in texts(told(facts, "kernel-log"), "module_errors")
        if "version magic" in line and "nvidia" in line
    ]
    differs = bool(made_for and running and made_for != running)
    if not differs and not log:
        return
    logged = [
        Because(component="kernel-log", fact="module_errors", value=line, source="kernel log") for line in log[-1:]
    ]
    yield Finding(
        id="module-built-for-other-kernel",
        severity=Severity.ERROR,
        layer=Layer.KERNEL_MODULE,
        component="nvidia.ko",
        title=f"NVIDIA's module was built for kernel {made_for or 'another'}, and {running or 'another'} runs",
        because=(because(facts, "nvidia.ko", "vermagic"), because(facts, "linux-kernel", "version"), *logged),
        fix=fixes.rebuild(
            facts,
            "Build the module for this kernel, or start the kernel that it was built for.",
            fixes.headers(facts),
            sh("sudo dkms autoinstall -k {kernel}", kernel=fixes.kernel(facts)),
        ),
    )
