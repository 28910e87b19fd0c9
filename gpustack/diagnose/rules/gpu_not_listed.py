"""The driver is loaded and lists no GPU, although one is on the bus.

The driver could not bring the GPU up: its firmware did not start, the machine's firmware gave it no room in the address
space (Above 4G Decoding), the flavour of the module is wrong for it, or it is broken; the kernel's log says which
(RmInitAdapter failed). Where a scheduler keeps GPUs from jobs that did not ask for one, this is as it should be, and
only told: ask for a GPU.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.rules.nodes import withheld
from gpustack.diagnose.rules.reading import because, because_of, number, texts, told
from gpustack.diagnose.rules.seen import ours
from gpustack.model.command import sh
from gpustack.model.facts import Layer
from gpustack.model.report import Because, Confidence, Finding, Fix, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts

WORDS = ("RmInitAdapter", "rm_init_adapter", "failed to initialize", "cannot be used", "BAR")


def judge(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """Give the finding where NVML starts and counts none, and a GPU is on the bus."""
    here = ours(facts)
    if not here or number(told(facts, "nvml"), "gpu_count") != 0:
        return
    if withheld(facts):
        yield _withheld(facts)
        return
    said = [line for line in texts(told(facts, "kernel-log"), "nvrm") if any(word in line for word in WORDS)]
    yield Finding(
        id="gpu-not-listed",
        severity=Severity.ERROR,
        layer=Layer.DRIVER,
        component="nvml",
        title=f"The driver is loaded and lists no GPU, although one is at {', '.join(copy.key for copy in here)}",
        detail=said[-1] if said else "",
        because=(
            because(facts, "nvml", "gpu_count"),
            because_of(facts, "pci-display", here[0], "driver"),
            *(Because(component="kernel-log", fact="nvrm", value=line, source="kernel log") for line in said[-1:]),
        ),
        fix=Fix(
            text="Read why the driver could not bring it up. Where the log speaks of BAR, switch Above 4G Decoding on "
            "in the machine's firmware; otherwise switch the machine off and on.",
            commands=(sh("sudo dmesg | grep -iE 'nvrm|nvidia'"),),
            needs_root=True,
            verify=sh("nvidia-smi -L"),
        ),
        confidence=Confidence.CERTAIN if said else Confidence.LIKELY,
    )


def _withheld(facts: Facts) -> Finding:
    """Give that the GPUs are the machine's and not this job's."""
    return Finding(
        id="gpu-not-listed",
        severity=Severity.INFO,
        layer=Layer.DRIVER,
        component="nvml",
        title="This job was given no GPU: the machine has some, and their device nodes are shut to it",
        because=(
            because(facts, "nvml", "gpu_count"),
            because(facts, "nvidia.ko", "nodes"),
            because(facts, "libcuda", "visible"),
        ),
        fix=Fix(
            text="Ask the scheduler for a GPU.",
            commands=(sh("srun --gres=gpu:1 nvidia-smi -L"),),
            verify=sh("nvidia-smi -L"),
        ),
        confidence=Confidence.LIKELY,
    )
