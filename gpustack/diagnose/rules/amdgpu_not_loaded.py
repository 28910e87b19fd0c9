"""An AMD GPU is on the bus, and the kernel's driver amdgpu does not drive it.

Without it there is no /dev/kfd, and ROCm sees no GPU. The module is kept out by a configuration file or the kernel's
command line (nomodeset, blacklist), it is not there for the running kernel, or it gave up on the GPU, mostly for
firmware files that are missing: the kernel's log says which.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.rules import amd
from gpustack.diagnose.rules.reading import because, because_of, flag, texts, told
from gpustack.diagnose.rules.seen import nvidia_here
from gpustack.model.command import sh
from gpustack.model.facts import Layer
from gpustack.model.report import Because, Confidence, Finding, Fix, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts


def judge(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """Give each AMD GPU that no driver has: an error where ROCm is wanted, a remark beside GPUs that compute."""
    module = told(facts, amd.MODULE)
    others = nvidia_here(facts) or bool(amd.computing(facts))
    kept_out, log = texts(module, "blacklisted"), amd.logged(facts)
    for gpu in amd.gpus(facts):
        if gpu.driver is not None or gpu.kfd:
            continue
        loaded = flag(module, "loaded") is True
        why = kept_out if not loaded else ()
        yield Finding(
            id="amdgpu-not-loaded",
            instance=gpu.mark,
            severity=Severity.INFO if others else Severity.ERROR if amd.wanted(facts) else Severity.WARNING,
            layer=Layer.KERNEL_MODULE,
            component=amd.MODULE,
            title=f"The driver amdgpu {'has not taken' if loaded else 'is not loaded for'} the GPU at {gpu.mark}",
            detail=f"It is kept out by {' and '.join(why)}." if why else log[-1] if log else "",
            because=(
                because_of(facts, "amd-gpu", gpu.copy, "driver"),
                because_of(facts, "amd-gpu", gpu.copy, "device_id"),
                *([because(facts, amd.MODULE, "blacklisted")] if why else []),
                *(Because(component="kernel-log", fact="amdgpu", value=line, source="kernel log") for line in log[-3:]),
            ),
            fix=Fix(
                text="Take out what keeps it away, and read in the kernel's log why it gave up; missing firmware is in "
                "the package linux-firmware (firmware-amd-graphics on Debian).",
                commands=(sh("sudo modprobe amdgpu"), sh("sudo dmesg | grep -iE 'amdgpu|firmware'")),
                needs_root=True,
                verify=sh("ls /dev/kfd /dev/dri"),
            ),
            confidence=Confidence.CERTAIN if why else Confidence.LIKELY,
        )
