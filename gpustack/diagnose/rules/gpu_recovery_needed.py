"""The driver says that a GPU needs a recovery: a reset, a drain, or a restart of the machine.

After certain faults the driver marks the GPU, and says itself what brings it back. Until then programs on it may fail
or compute wrongly. Do what it says, when the programs on the GPU are done.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.rules import fixes
from gpustack.diagnose.rules.events import asked_for
from gpustack.diagnose.rules.reading import because_of, number, text
from gpustack.diagnose.rules.seen import gpus
from gpustack.model.command import GPU, Command, sh
from gpustack.model.facts import Layer
from gpustack.model.report import Because, Finding, Fix, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts

RESET_REQUIRED = 16
DRAIN_P2P = 3
RESTARTS = frozenset({2, 7})  # node reboot, system reboot


def judge(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """Give each GPU whose recovery action is not none, by NVML or else by the log, or that NVML says must be reset."""
    for gpu in gpus(facts):
        action = number(gpu.copy.facts, "recovery_action")
        must_reset = number(gpu.copy.facts, "code") == RESET_REQUIRED
        logged = asked_for(facts, gpu.mark) if action is None else None  # the GPU's own word goes before the log's
        if not action and not must_reset and not logged:
            continue
        restart = action in RESTARTS or "reboot" in (logged or "").lower()
        named = text(gpu.copy.facts, "recovery_action_name") or logged or ("gpu-reset" if must_reset else None)
        named = named or f"action {action}"
        yield Finding(
            id="gpu-recovery-needed",
            instance=gpu.mark,
            severity=Severity.ERROR,
            layer=Layer.HARDWARE,
            component="gpu",
            title=f"{gpu.name} at {gpu.mark} needs a recovery: {named.replace('-', ' ').lower()}",
            because=(
                because_of(facts, "gpu", gpu.copy, "recovery_action"),
                because_of(facts, "gpu", gpu.copy, "recovery_action_name"),
                because_of(facts, "gpu", gpu.copy, "code"),
                *([Because(component="kernel-log", fact="xids", value=f"Xid 154: {logged}")] if logged else []),
            ),
            fix=Fix(
                text=f"{fixes.place(facts)}Stop the programs on it, then do what the driver asks for.",
                commands=(_command(gpu.mark, action, restart=restart),),
                needs_root=action != DRAIN_P2P,
                needs_reboot=restart,
                verify=sh("nvidia-smi -q -i {gpu}", gpu=GPU(gpu.mark)),
            ),
        )


def _command(mark: str, action: int | None, *, restart: bool) -> Command:
    """Give the command for what the driver asks for; a drain of peers alone wants no reset."""
    if action == DRAIN_P2P:
        return sh("nvidia-smi --query-compute-apps=gpu_bus_id,pid,name --format=csv")
    return fixes.REBOOT if restart else sh("sudo nvidia-smi --gpu-reset -i {gpu}", gpu=GPU(mark))
