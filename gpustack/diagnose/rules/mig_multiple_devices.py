"""One process was given several MIG instances, and CUDA uses only one.

A CUDA process sees a single MIG instance: of several in CUDA_VISIBLE_DEVICES it takes the first, so that it counts one
device and refuses cuda:1. Instances cannot be joined, and NCCL does not reach from one to another. Start one process
for each instance, each with its own in CUDA_VISIBLE_DEVICES; or switch MIG off where one process needs the whole GPU.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.rules import mig_said, naming
from gpustack.diagnose.rules.saying import grounds
from gpustack.model.command import sh
from gpustack.model.facts import Layer
from gpustack.model.report import Confidence, Finding, Fix, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts


def judge(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """Give the finding where several instances are there and a program found only one device."""
    if not mig_said.too_many(facts):
        return
    names = naming.gpu_names(facts)
    yield Finding(
        id="mig-multiple-devices",
        severity=Severity.ERROR,
        layer=Layer.ENVIRONMENT,
        component="gpu",
        title=f"One process was given several MIG instances{f' of {names}' if names else ''}, and CUDA uses only one",
        detail="A CUDA process sees the first MIG instance as cuda:0 and no other.",
        confidence=Confidence.LIKELY,
        because=(*grounds(facts, *mig_said.BEYOND, *mig_said.MADE, most=6), *naming.of_driver(facts)),
        fix=Fix(
            text="Start one process for each instance, each with one MIG UUID of nvidia-smi -L; or switch MIG off.",
            commands=(sh("nvidia-smi -L"), sh("CUDA_VISIBLE_DEVICES=MIG-<uuid> python …")),
            verify=sh('python -c "import torch; print(torch.cuda.device_count())"'),
        ),
    )
