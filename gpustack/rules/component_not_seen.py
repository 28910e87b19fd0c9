"""Something that a verdict rests on could not be looked at.

The probe crashed, was ended because its time was up, or could not run. A driver that does not answer is mostly stuck in
the kernel: look at the kernel's log, and at processes in state D. What was not seen is neither well nor ill, so the
verdict is unknown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.model.facts import Status
from gpustack.model.report import Because, Finding, Fix, Severity
from gpustack.rules.reading import number, status, text
from gpustack.rules.seen import any_gpu, nvidia_here

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Component, Facts

ALWAYS = ("pci-display",)
WITH_NVIDIA = ("nvml", "libcuda", "nvidia.ko", "nvidia-driver")
SPOKEN_OF = frozenset({15, 16})  # lost, reset required: the rules about faults of a GPU have them


def judge(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """Give each component that had to be seen, failed without an error number of its own, and so says nothing."""
    wanted = ALWAYS + (WITH_NVIDIA if nvidia_here(facts) or any_gpu(facts) is None else ())
    if nvidia_here(facts) and status(facts, "nvml") is not Status.FAILED:  # else the list of GPUs fails with NVML
        wanted += ("gpu",)
    for seen in facts.components:
        if seen.id in wanted and seen.status in {Status.FAILED, Status.UNKNOWN} and not _explained(seen):
            yield _finding(seen, seen.id, seen.reason or "no reason was given")
    gpu = facts.find("gpu")
    for copy in gpu.instances if gpu else ():
        if gpu and copy.status is Status.FAILED and number(copy.facts, "code") not in SPOKEN_OF:
            yield _finding(gpu, f"gpu {copy.key}", text(copy.facts, "error") or "no reason was given")


def _finding(seen: Component, name: str, why: str) -> Finding:
    return Finding(
        id="component-not-seen",
        instance=name,
        severity=Severity.UNKNOWN,
        layer=seen.layer,
        component=seen.id,
        title=f"{name} could not be looked at: {why}",
        because=(Because(component=seen.id, fact="status", value=seen.status.value, source=seen.source),),
        fix=Fix(
            text="Look at what the kernel says, and at processes that wait in it.",
            commands=(
                "sudo dmesg | grep -iE 'nvrm|xid|hung task'",
                "ps -eo pid,stat,wchan:30,comm | awk '$2 ~ /D/'",
            ),
            needs_root=True,
            verify="gpustack doctor",
        ),
    )


def _explained(seen: Component) -> bool:
    """Tell whether it failed in words or a number of its own, which other rules speak of."""
    return any(copy.facts.get(name) for copy in seen.instances for name in ("code", "cu_init", "error"))
