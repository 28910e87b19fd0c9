"""A compat libcuda of a newer CUDA is loaded on a GPU that cannot use it (CUDA error 804).

Forward compatibility, a newer libcuda on an older kernel driver, is for data-centre GPUs. On GeForce and most
workstation cards CUDA refuses it. Take the compat folder off the library path and use a build for this driver, or bring
the driver up to date.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpustack.diagnose.rules import compat_said
from gpustack.diagnose.rules.compat import asked, refused, winner
from gpustack.diagnose.rules.seen import driver_release, gpus

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts
    from gpustack.model.report import Finding

NOT_ON_THIS_GPU = 804
# Product lines for consumers. Forward compatibility is for data-centre GPUs and chosen workstation cards alone.
# Source: NVIDIA CUDA Compatibility guide, "Forward Compatibility" (read 2026-11-21).
CONSUMER = re.compile(r"\bGeForce\b|\bTITAN\b")


def judge(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Give the finding where cuInit says 804, or where nobody asked it and only consumer GPUs are here."""
    told = compat_said.finding("forward-compat-804", NOT_ON_THIS_GPU, facts, matrix)
    if told:
        yield told
        return
    found, driver = winner(facts), driver_release(facts)
    newer = found and driver and found.release and found.release.branch > driver.branch
    consumer = bool(gpus(facts)) and all(CONSUMER.search(gpu.name) for gpu in gpus(facts))
    if asked(facts) == NOT_ON_THIS_GPU or (asked(facts) is None and newer and consumer):
        yield refused("forward-compat-804", NOT_ON_THIS_GPU, "cannot be used on this GPU", facts, matrix)
