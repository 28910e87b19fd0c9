"""Programs here may lock little memory, and RDMA network cards need it locked.

InfiniBand and RoCE cards read and write memory directly, so NCCL locks what they use. With a small limit it fails once
a second machine takes part (ibv_reg_mr: Cannot allocate memory). On one machine it does not matter. Raise the limit
where the jobs are started: in limits.conf, in the unit of the service, or for the container.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.rules.reading import because, flag, number, texts, told
from gpustack.diagnose.rules.seen import gpus
from gpustack.model.command import sh
from gpustack.model.facts import Layer
from gpustack.model.report import Finding, Fix, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts

GIB = 1 << 30


def judge(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """Give the finding, which is no fault by itself, where RDMA cards are here and the limit holds for this user."""
    limits = told(facts, "limits")
    memlock = number(limits, "memlock_bytes")
    if memlock is None or memlock >= GIB or flag(limits, "may_lock") is not False or not texts(limits, "rdma"):
        return
    if gpus(facts):
        container = bool(facts.host.container)
        yield Finding(
            id="memlock-too-small",
            severity=Severity.INFO,
            layer=Layer.CONTAINER if container else Layer.ENVIRONMENT,
            component="limits",
            title=f"Programs may lock {memlock >> 10} KiB of memory, which is too little for RDMA between machines",
            because=(because(facts, "limits", "memlock_bytes"), because(facts, "limits", "rdma")),
            fix=Fix(
                text="Raise the limit where the jobs are started.",
                commands=(sh("docker run --ulimit memlock=-1 …") if container else sh("ulimit -l unlimited"),),
                verify=sh("ulimit -l"),
            ),
        )
