"""A process that cannot end is on the GPU: it has ended and its memory is still held, or it waits in the driver.

A process that has ended keeps its GPU memory as long as anybody holds what it had open: a child of it that lives on, or
a thread of it that is stuck in the driver. One that waits in the driver (state D) cannot be killed; most often the GPU
or its firmware has stopped to answer. End the children, or the parent that does not collect it; look at the kernel's
log; the last resort is a reset of the GPU or a restart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.rules import on_gpu
from gpustack.diagnose.rules.reading import because_of, items, number, table, text
from gpustack.model.command import GPU, PID, Command, sh
from gpustack.model.facts import Layer
from gpustack.model.report import Confidence, Finding, Fix, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts, Instance
    from gpustack.model.report import Because

ENDED, INIT = "ended", 1
LOG = sh("sudo dmesg | grep -iE 'xid|nvrm|amdgpu|blocked for more'")
NODES = sh("sudo fuser -v /dev/nvidia* /dev/kfd /dev/dri/*")


def judge(facts: Facts, matrix: Matrix) -> Iterator[Finding]:  # noqa: ARG001 - every rule is asked alike
    """Give a finding for each process that stayed so while it was looked at several times."""
    for copy in on_gpu.processes(facts):
        stuck = table(copy.facts, "stuck")
        if text(stuck, "how") == ENDED:
            yield _ended(facts, copy)
        elif stuck:
            yield _waits(facts, copy)


def _ended(facts: Facts, copy: Instance) -> Finding:
    """Give the finding for one that has ended; its memory is lost only where the driver still counts some."""
    used = number(copy.facts, "used_mib")
    heirs = [one for one in items(copy.facts, "stuck", "heirs") if isinstance(one, int)]
    parent = number(copy.facts, "parent")
    held = f" and still holds {used} MiB" if used else ""
    end = [sh("kill {heirs}", heirs=tuple(map(PID, heirs)))] if heirs else []
    if parent and parent != INIT:
        end.append(sh("kill -CHLD {parent}  # asks its parent to collect it", parent=PID(parent)))
    left = f" Of its group, these still hold a GPU's node open: {', '.join(map(str, heirs))}." if heirs else ""
    return Finding(
        id="gpu-process-stuck",
        instance=str(on_gpu.pid(copy)),
        severity=Severity.ERROR if used else Severity.WARNING,
        layer=Layer.APPLICATION,
        component=on_gpu.PROCESSES,
        title=f"{on_gpu.named(copy)} has ended{held} on the GPU",
        detail=f"It is a zombie (state Z), and the driver still lists it.{left}",
        because=_grounds(facts, copy),
        fix=Fix(
            text="End what it left behind; where nothing is left and the memory stays, end all programs on that GPU "
            "and reset it, or restart the machine.",
            commands=(*end, NODES, *_reset(copy)),
            needs_root=True,
            verify=sh("nvidia-smi"),
        ),
        confidence=Confidence.CERTAIN if used else Confidence.LIKELY,
    )


def _waits(facts: Facts, copy: Instance) -> Finding:
    """Give the finding for one that waits in the driver and got no further meanwhile."""
    where = text(copy.facts, "stuck", "where") or "the driver"
    return Finding(
        id="gpu-process-stuck",
        instance=str(on_gpu.pid(copy)),
        severity=Severity.WARNING,
        layer=Layer.APPLICATION,
        component=on_gpu.PROCESSES,
        title=f"{on_gpu.named(copy)} waits in the driver ({where}) and cannot be ended",
        detail="A thread of it is in uninterruptible sleep (state D) there, and it used no processor time while we "
        "looked. It may go on; if not, the GPU or its firmware has stopped to answer.",
        because=_grounds(facts, copy),
        fix=Fix(
            text="See whether it moves, and what the kernel says. If it stays, no signal ends it: restart the machine.",
            commands=(
                sh("sudo cat /proc/{pid}/stack", pid=PID(on_gpu.pid(copy))),
                LOG,
                sh("# sudo reboot, if it stays"),
            ),
            needs_root=True,
            needs_reboot=True,
            verify=sh("nvidia-smi"),
        ),
        confidence=Confidence.POSSIBLE,
    )


def _grounds(facts: Facts, copy: Instance) -> tuple[Because, ...]:
    return tuple(because_of(facts, on_gpu.PROCESSES, copy, name) for name in ("state", "stuck", "used_mib", "gpus"))


def _reset(copy: Instance) -> tuple[Command, ...]:
    """Give the command that resets the GPU it is on, where that is one of NVIDIA's with a known number."""
    rows = items(copy.facts, "gpus")
    indices = [number(row, "index") for row in rows if text(row, "vendor") == "nvidia"]
    known = (GPU(index) for index in dict.fromkeys(indices) if index is not None)
    return tuple(sh("sudo nvidia-smi --gpu-reset -i {gpu}", gpu=gpu) for gpu in known)
