"""The shared memory of this container (/dev/shm) is too small for several GPUs.

Docker gives a container 64 MB of it unless told otherwise. NCCL passes data between the processes of several GPUs
through it, and PyTorch's data loaders give batches through it: both die with "No space left on device" or a bus error.
Start the container with more of it, or with that of the machine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.rules import shm_said
from gpustack.diagnose.rules.reading import because, number, told
from gpustack.diagnose.rules.seen import builds, gpus
from gpustack.model.command import either, sh
from gpustack.model.facts import Layer
from gpustack.model.report import Confidence, Finding, Fix, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts

MIB = 1 << 20
# Below this DeepSpeed's ds_report warns. NCCL was seen to die in ncclShmOpen with Docker's 64 MiB: pytorch/tutorials,
# commit 0ba3e39. Both read 2026-11-21.
LEAST = 512 * MIB
SEVERAL = 2


def judge(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """Give the finding in a container with a framework: a warning with several GPUs, else only told."""
    told_ = shm_said.finding(facts)
    if told_:
        yield told_
        return
    size = number(told(facts, "limits"), "shm_bytes")
    if not facts.host.container or size is None or size >= LEAST or not gpus(facts):
        return
    several = len(gpus(facts)) >= SEVERAL
    if not several and not any(builds(facts)):
        return
    yield Finding(
        id="container-shm-too-small",
        severity=Severity.WARNING if several else Severity.INFO,
        layer=Layer.CONTAINER,
        component="limits",
        title=f"Shared memory in this container (/dev/shm) has {size // MIB} MiB, too little for "
        + (f"NCCL on {len(gpus(facts))} GPUs" if several else "data loaders with many workers"),
        confidence=Confidence.LIKELY if several else Confidence.POSSIBLE,
        because=(because(facts, "limits", "shm_bytes"),),
        fix=Fix(
            text="Start the container with more shared memory, or with that of the machine.",
            commands=either(sh("docker run --gpus all --shm-size=8g …"), sh("docker run --gpus all --ipc=host …")),
            verify=sh("df -h /dev/shm"),
        ),
    )
