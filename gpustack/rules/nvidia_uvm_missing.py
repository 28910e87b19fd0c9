"""nvidia-uvm, the module for unified memory, is not there, and CUDA cannot start without it.

NVML and nvidia-smi work without it, so the driver looks well. It is loaded by the first CUDA program of root, or at the
start of the machine; in a container its device node must be passed in. Load it and make its node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.model.facts import Layer, Status
from gpustack.model.report import Finding, Fix, Severity
from gpustack.rules import fixes
from gpustack.rules.reading import because, flag, items, status, text, told
from gpustack.rules.seen import nvidia_here, starts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts

NODE = "/dev/nvidia-uvm"
MODULE = "nvidia-uvm.ko"


def judge(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """Give the finding where CUDA does not start, nvidia.ko is loaded, and nvidia-uvm or its node is not there."""
    uvm = told(facts, MODULE)
    nodes = [node for node in items(uvm, "nodes") if text(node, "path") == NODE]
    out = status(facts, MODULE) is Status.ABSENT or flag(uvm, "loaded") is False
    no_node = any(flag(node, "exists") is False for node in nodes)
    if not nvidia_here(facts) or starts(facts) is not False or not flag(told(facts, "nvidia.ko"), "loaded"):
        return
    if out or no_node:
        yield Finding(
            id="nvidia-uvm-missing",
            severity=Severity.ERROR,
            layer=Layer.KERNEL_MODULE,
            component=MODULE,
            title="nvidia-uvm is not loaded, and CUDA cannot start without it" if out else f"{NODE} does not exist",
            because=(
                because(facts, MODULE, "loaded"),
                because(facts, MODULE, "nodes"),
                because(facts, "libcuda", "cu_init"),
            ),
            fix=Fix(
                text=f"{fixes.place(facts)}Load the module and make its device node.",
                commands=("sudo modprobe nvidia_uvm", "sudo nvidia-modprobe -c 0 -u"),
                needs_root=True,
                verify="gpustack doctor",
            ),
        )
