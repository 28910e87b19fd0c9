"""The driver lets go of the GPUs when no program uses them, so that every start takes seconds.

Without persistence the driver initialises each GPU anew whenever the first program comes, and switches it off after the
last. It was seen here: NVML or CUDA took long to start. On servers, run nvidia-persistenced; on desktops with a screen
on the GPU nothing needs doing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.rules import fixes
from gpustack.diagnose.rules.reading import because_of, flag
from gpustack.diagnose.rules.seen import gpus
from gpustack.model.command import sh
from gpustack.model.facts import Layer
from gpustack.model.report import Because, Finding, Fix, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts

STARTS = ("nvmlInit", "cuInit")
SLOW = 2.0  # seconds; with persistence both take less than one


def judge(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """Give the finding, which is no fault, where persistence is off and starting the driver was seen to be slow."""
    off = [gpu for gpu in gpus(facts) if flag(gpu.copy.facts, "persistence") is False]
    calls = [(one.id, call) for one in facts.components for call in one.calls if call.name.startswith(STARTS)]
    slow = [(component, call) for component, call in calls if call.seconds >= SLOW]
    if not off or not slow:
        return
    component, call = max(slow, key=lambda one: one[1].seconds)
    yield Finding(
        id="persistence-mode-off",
        severity=Severity.INFO,
        layer=Layer.DRIVER,
        component="nvidia-driver",
        title=f"Persistence is off, and starting the driver took {call.seconds:.1f} s",
        because=(
            because_of(facts, "gpu", off[0].copy, "persistence"),
            Because(component=component, fact="calls", value=f"{call.name}: {call.seconds:.1f} s", source=component),
        ),
        fix=Fix(
            text=f"{fixes.place(facts)}Run nvidia-persistenced.",
            commands=(sh("sudo systemctl enable --now nvidia-persistenced"),),
            needs_root=True,
            verify=sh("nvidia-smi --query-gpu=persistence_mode --format=csv"),
        ),
    )
