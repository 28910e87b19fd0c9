"""The NVSwitch fabric is not ready, so CUDA refuses to start (error 802).

On machines whose GPUs are joined by NVSwitch, the fabric manager must set the switches up before any CUDA program
starts. It is not installed, not running, or not of the driver's release. Install the one of the driver's release and
start it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.rules import fabric, naming
from gpustack.diagnose.rules.reading import because, because_of, flag, number, status, text, told
from gpustack.diagnose.rules.saying import grounds
from gpustack.diagnose.rules.seen import gpus, nvidia_here, starts
from gpustack.model.facts import Layer, Status
from gpustack.model.report import Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts

NOT_READY = 802
WAITING = frozenset({"not-started", "in-progress"})


def judge(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Give the finding where CUDA says 802, or a GPU waits for its fabric and CUDA does not start."""
    waiting = [gpu for gpu in gpus(facts) if text(gpu.copy.facts, "fabric", "state") in WAITING]
    code, said = number(told(facts, "libcuda"), "cu_init"), fabric.refused(facts)
    seen = nvidia_here(facts) and (code == NOT_READY or bool(waiting and starts(facts) is False))
    if not (seen or said):
        return
    row = matrix.cuda_codes.get(NOT_READY)
    yield Finding(
        id="fabric-manager-not-running",
        severity=Severity.ERROR,
        layer=Layer.DRIVER,
        component="nvidia-fabricmanager",
        title=f"The NVSwitch fabric is not ready (CUDA error 802): the fabric manager {_state(facts)}",
        detail=_detail(facts, matrix) if said else "",
        because=(
            *grounds(facts, *fabric.SAID),
            *((because(facts, "libcuda", "cu_init"),) if not said else ()),
            *(because_of(facts, "gpu", gpu.copy, "fabric", "state") for gpu in waiting[:1]),
            *(naming.of_driver(facts) if said else ()),
        ),
        row=row.row if row else None,
        fix=fabric.install(facts),
    )


def _state(facts: Facts) -> str:
    """Say whether the fabric manager runs; where nobody looked, what such a machine has as a rule."""
    runs = flag(told(facts, fabric.MANAGER), "running")
    if runs:
        return "runs and has not joined the GPUs"
    if facts.host.container:
        return "is to run on the machine itself, which is not seen from this container"
    return (
        "is not running" if runs is False or status(facts, fabric.MANAGER) is Status.ABSENT else "was not seen to run"
    )


def _detail(facts: Facts, matrix: Matrix) -> str:
    driver, names = naming.driver_name(facts, matrix), naming.gpu_names(facts)
    parts = ["CUDA waits until the fabric manager has joined the GPUs, which machines with NVSwitch need."]
    parts += [f"It must be of the driver's release: {driver}."] if driver else []
    parts += [f"GPU: {names}."] if names else []
    return " ".join(parts)
