"""DKMS failed to build NVIDIA's kernel module for the running kernel.

The headers are there, but the module's source does not compile: the kernel is newer than this driver release knows, a
distribution has changed it, or the compiler differs from the kernel's. Install a newer release of the driver's branch,
or start an older kernel. The build's log names the line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.model.facts import Layer
from gpustack.model.report import Because, Finding, Severity
from gpustack.rules import fixes
from gpustack.rules.dkms_headers_missing import dkms_modules
from gpustack.rules.nvidia_module_not_loaded import on_disk, out
from gpustack.rules.reading import because, because_of, flag, text
from gpustack.rules.seen import nvidia_here

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts


def judge(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """Give the finding where a build for this kernel failed and the module is therefore neither here nor loaded."""
    failed = [copy for copy in dkms_modules(facts) if text(copy.facts, "state") == "failed"]
    failed = [copy for copy in failed if flag(copy.facts, "for_running_kernel") is not False]
    if not failed or not nvidia_here(facts) or not out(facts) or on_disk(facts):
        return
    copy = failed[0]
    end = (text(copy.facts, "log_tail") or "").strip().splitlines()
    wrong = next((line for line in end if "error" in line.lower()), end[-1] if end else None)
    name = f"nvidia {text(copy.facts, 'module_version') or copy.version or ''}".strip()
    yield Finding(
        id="dkms-build-failed",
        severity=Severity.ERROR,
        layer=Layer.KERNEL_MODULE,
        component="dkms",
        title=f"DKMS failed to build {name} for kernel {fixes.kernel(facts)}",
        detail=wrong or "",
        because=(
            because_of(facts, "dkms", copy, "state"),
            Because(component="dkms", fact="log_tail", value=wrong, source="make.log"),
            because(facts, "linux-kernel", "release"),
        ),
        fix=fixes.rebuild(
            facts,
            "Install a newer release of the driver, which knows this kernel, or start an older kernel.",
            *fixes.driver(facts),
            f"sudo dkms autoinstall -k {fixes.kernel(facts)}",
        ),
    )
