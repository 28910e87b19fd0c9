"""Something that a verdict rests on could not be looked at.

The probe crashed, was ended because its time was up, or could not run. A driver that does not answer is mostly stuck in
the kernel: look at the kernel's log, and at processes in state D. A probe that failed by itself met a file that it
cannot read, or is at fault: report it. What was not seen is neither well nor ill, so the verdict is unknown.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpustack.diagnose.rules.reading import copies, status, text
from gpustack.diagnose.rules.seen import (
    FRAMEWORKS,
    MAKERS,
    any_gpu,
    from_text,
    gpus,
    nvidia_here,
    on_bus,
    starts,
    unasked,
)
from gpustack.model.command import sh
from gpustack.model.facts import Layer, Status
from gpustack.model.report import Because, Finding, Fix, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Component, Facts

ALWAYS = ("pci-display",)
WITH_NVIDIA = ("nvml", "libcuda", "libnvidia-ml", "nvidia.ko", "nvidia-driver")
ABOVE = frozenset({Layer.RUNTIME, Layer.LIBRARY, Layer.FRAMEWORK})
AROUND = frozenset({"linux-kernel", "kernel-log", "python", "packages"})  # what the rules ask of besides
NEEDED = AROUND | {*FRAMEWORKS, "tensorflow"}  # of no maker of GPUs
# How a process ends that asks a library which is sick, and what the loader says of a file that is none.
DIED = re.compile(
    r"(?:was )?killed by |(?:gave )?no answer in |ended with (?:exit )?code |printed |closed its output"
    r"|still there after|the time was up|it was interrupted|.*could (?:not )?be started"
    r"|.*(?:invalid ELF header|file too short|wrong ELF class|undefined symbol|Is a directory"
    r"|cannot read file data|cannot open shared object file: Too many|ELF load command)"
)
UNTOLD = "no reason was given"


def judge(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """Give each component that had to be seen, failed without an error number of its own, and so says nothing."""
    wanted = ALWAYS + (WITH_NVIDIA if nvidia_here(facts) or any_gpu(facts) is None else ())
    if nvidia_here(facts) and status(facts, "nvml") is not Status.FAILED:  # else the list of GPUs fails with NVML
        several = gpus(facts)[1:] and status(facts, "gpu") is Status.PRESENT  # else the links fail with the GPUs
        wanted += ("gpu", "nvlink") if several else ("gpu",)
    wanted += ("nvidia-uvm.ko",) if nvidia_here(facts) and starts(facts) is None else ()
    wanted += tuple(one.id for one in facts.components if one.id in WITH_NVIDIA and DIED.match(one.reason or ""))
    for seen in facts.components:
        if seen.id in wanted and seen.status in {Status.FAILED, Status.UNKNOWN} and not _explained(seen):
            errors = (text(copy.facts, "error") for copy in seen.instances)
            yield _finding(seen, seen.id, seen.reason or next(filter(None, errors), None) or UNTOLD)
    gpu = facts.find("gpu")
    for copy in gpu.instances if gpu else ():
        if gpu and copy.status is Status.FAILED and unasked(copy):
            yield _finding(gpu, f"gpu {copy.key}", text(copy.facts, "error") or UNTOLD)
    if any_gpu(facts) and not from_text(facts):
        yield from _above(facts)


def _above(facts: Facts) -> Iterator[Finding]:
    """Give what stands on the driver and could not be asked: one finding for all that failed in the same words."""
    makers = {maker for maker in MAKERS if on_bus(facts, maker) or copies(facts, f"{maker}-gpu")}
    makers |= {"any", *(("nvidia",) if nvidia_here(facts) else ())}
    alike: dict[str, list[Component]] = {}
    for seen in facts.components:
        if not _around(seen) or seen.vendor not in makers:
            continue
        for copy in seen.instances:
            error = text(copy.facts, "error") or ""
            if copy.status is Status.FAILED and copy.environment is None and DIED.match(error):
                yield _finding(seen, copy.path or copy.key, error)
            elif copy.status is Status.UNKNOWN and _lost(seen, text(copy.facts, "answer"), error):
                yield _finding(seen, f"{seen.id} in {copy.environment}", error or UNTOLD)
        if not seen.instances and _lost(seen, seen.status, seen.reason):
            alike.setdefault(seen.reason or UNTOLD, []).append(seen)
    for reason, group in alike.items():
        more = f" and {len(group) - 1} more" if group[1:] else ""
        yield _finding(group[0], group[0].id + more, reason)


def _around(seen: Component) -> bool:
    return seen.layer in ABOVE or seen.id in AROUND


def _lost(seen: Component, answer: str | None, reason: str | None) -> bool:
    """Tell whether nothing was learnt of something that the verdict rests on; files alone need not tell all."""
    failed, unknown = answer == Status.FAILED, answer == Status.UNKNOWN
    needed = seen.vendor != "any" or seen.id in NEEDED
    died = bool(DIED.match(reason or ""))
    return (failed and (needed or died)) or (unknown and (died or (needed and not reason)))


def _finding(seen: Component, name: str, why: str) -> Finding:
    return Finding(
        id="component-not-seen",
        instance=name,
        severity=Severity.UNKNOWN,
        layer=seen.layer,
        component=seen.id,
        title=f"{name} could not be looked at: {why}",
        because=(Because(component=seen.id, fact="status", value=seen.status.value, source=seen.source),),
        fix=_stuck() if DIED.match(why) or not _around(seen) else _at_fault(),
    )


def _explained(seen: Component) -> bool:
    """Tell whether it failed in words or a number of its own, which other rules speak of: of links none does."""
    told = (copy.facts.get(name) for copy in seen.instances for name in ("code", "cu_init", "error"))
    return seen.id != "nvlink" and any(told)


def _stuck() -> Fix:
    return Fix(
        text="Look at what the kernel says, and at processes that wait in it.",
        commands=(
            sh("sudo dmesg | grep -iE 'nvrm|xid|hung task'"),
            sh("ps -eo pid,stat,wchan:30,comm | awk '$2 ~ /D/'"),
        ),
        needs_root=True,
        verify=sh("gpustack doctor"),
    )


def _at_fault() -> Fix:
    return Fix(
        text="Its probe met what it cannot read. If it is damaged, install it again; else report this with a snapshot.",
        commands=(sh("gpustack snapshot"),),
        verify=sh("gpustack doctor"),
    )
