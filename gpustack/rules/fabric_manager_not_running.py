"""The NVSwitch fabric is not ready, so CUDA refuses to start (error 802).

On machines whose GPUs are joined by NVSwitch, the fabric manager must set the switches up before any CUDA program
starts. It is not installed, not running, or not of the driver's release. Install the one of the driver's release and
start it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.model.facts import Layer
from gpustack.model.report import Finding, Fix, Severity
from gpustack.rules import fixes
from gpustack.rules.reading import because, because_of, number, text, told
from gpustack.rules.seen import gpus, nvidia_here, starts, user_release

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts

NOT_READY = 802
WAITING = frozenset({"not-started", "in-progress"})


def judge(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Give the finding where cuInit says 802, or a GPU waits for its fabric and CUDA does not start."""
    waiting = [gpu for gpu in gpus(facts) if text(gpu.copy.facts, "fabric", "state") in WAITING]
    code = number(told(facts, "libcuda"), "cu_init")
    if not nvidia_here(facts) or (code != NOT_READY and not (waiting and starts(facts) is False)):
        return
    release = user_release(facts)
    row = matrix.cuda_codes.get(NOT_READY)
    package = f"nvidia-fabricmanager-{release.branch}" if release else "nvidia-fabricmanager"
    install = {"apt": f"sudo apt-get install {package}", "dnf": "sudo dnf install nvidia-fabricmanager"}
    command = install.get(fixes.manager(facts) or "", "# install the nvidia-fabricmanager of the driver's release")
    yield Finding(
        id="fabric-manager-not-running",
        severity=Severity.ERROR,
        layer=Layer.DRIVER,
        component="nvidia-fabricmanager",
        title="The NVSwitch fabric is not ready (CUDA error 802): the fabric manager is not running",
        because=(
            because(facts, "libcuda", "cu_init"),
            *(because_of(facts, "gpu", gpu.copy, "fabric", "state") for gpu in waiting[:1]),
        ),
        row=row.row if row else None,
        fix=Fix(
            text=f"{fixes.place(facts)}Install the fabric manager of the driver's release and start it.",
            commands=(command, "sudo systemctl enable --now nvidia-fabricmanager"),
            needs_root=True,
            verify="systemctl is-active nvidia-fabricmanager",
        ),
    )
