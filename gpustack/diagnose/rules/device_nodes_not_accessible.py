"""This user may not open the GPU's device nodes.

CUDA and NVML open /dev/nvidiactl, /dev/nvidia0 … and /dev/nvidia-uvm for reading and writing. Their modes here do not
let this user. Widen the modes where the driver sets them (NVreg_DeviceFileMode), or put the user into the group that
owns them and log in again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.rules import fixes
from gpustack.diagnose.rules.nodes import refused
from gpustack.diagnose.rules.reading import because, number, told
from gpustack.diagnose.rules.seen import nvidia_here, starts
from gpustack.model.command import PATH, sh
from gpustack.model.facts import Layer
from gpustack.model.report import Finding, Fix, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts


def judge(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """Give the finding where modes refuse this user and NVML or CUDA indeed do not start."""
    paths = [path for path, by_mode in refused(facts) if by_mode]
    fails = bool(number(told(facts, "nvml"), "code")) or starts(facts) is False
    if not paths or not fails or not nvidia_here(facts):
        return
    named = tuple(map(PATH, paths))
    yield Finding(
        id="device-nodes-not-accessible",
        severity=Severity.ERROR,
        layer=Layer.ENVIRONMENT,
        component="nvidia.ko",
        title=f"This user may not open {', '.join(paths)}",
        because=(because(facts, "nvidia.ko", "nodes"), because(facts, "nvidia-uvm.ko", "nodes")),
        fix=Fix(
            text=f"{fixes.place(facts)}Join the group (GROUP) that owns the nodes and log in again; or, where all "
            "users may use the GPU, open the nodes until the next start.",
            commands=(
                sh("ls -l {named}", named=named),
                sh("# sudo usermod -aG GROUP $USER, where that is a group for GPUs and not root"),
                sh("# or: sudo chmod 0666 {named}", named=named),
            ),
            needs_root=True,
            verify=sh("nvidia-smi"),
        ),
    )
