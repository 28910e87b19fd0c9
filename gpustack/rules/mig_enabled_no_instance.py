"""MIG mode is on, and the GPU is divided into no instance.

With MIG on, CUDA offers only the instances that the GPU has been divided into. There is none, so programs see no GPU.
Make instances, or switch MIG off.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.model.facts import Layer
from gpustack.model.report import Finding, Fix, Severity
from gpustack.rules.reading import at, because_of, flag, items, number
from gpustack.rules.seen import gpus

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts


def judge(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """Give each GPU in MIG mode without an instance."""
    for gpu in gpus(facts):
        held = gpu.copy.facts
        none = at(held, "mig", "instances") is not None and not items(held, "mig", "instances")
        if not flag(held, "mig", "enabled") or not none or number(held, "mig", "instances"):
            continue
        yield Finding(
            id="mig-enabled-no-instance",
            instance=gpu.mark,
            severity=Severity.ERROR,
            layer=Layer.ENVIRONMENT,
            component="gpu",
            title=f"MIG is on for {gpu.name} at {gpu.mark}, and it is divided into no instance",
            because=(
                because_of(facts, "gpu", gpu.copy, "mig", "enabled"),
                because_of(facts, "gpu", gpu.copy, "mig", "instances"),
            ),
            fix=Fix(
                text="Divide it (the list shows the profiles), or switch MIG off.",
                commands=(f"sudo nvidia-smi mig -i {gpu.mark} -lgip", f"sudo nvidia-smi -i {gpu.mark} -mig 0"),
                needs_root=True,
                verify="nvidia-smi -L",
            ),
        )
