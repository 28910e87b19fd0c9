"""Shared memory that is too small, as NCCL and PyTorch say it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpustack.diagnose.rules.saying import grounds, heard, said, value
from gpustack.model.command import either, sh
from gpustack.model.facts import Layer
from gpustack.model.report import Confidence, Finding, Fix, Severity

if TYPE_CHECKING:
    from gpustack.model.facts import Facts

SAID = ("shm-full", "nccl-shm", "shm-bus-error", "shm-too-small-said")
# What it can look like where the size of the shared memory is told as well.
MAYBE = ("bus-error-plain", "nccl-system-error")
NUMBER = re.compile(r"\d+(?:\.\d+)?", re.ASCII)
MIB = {"K": 1 / 1024, "M": 1, "G": 1024}
SMALL = 256  # MiB: Docker gives 64, and NCCL alone wants some tens for each pair of GPUs


def finding(facts: Facts) -> Finding | None:
    """Give the finding, or None where no program said it."""
    if not heard(facts, *SAID) and not (_small(facts) and heard(facts, *MAYBE)):
        return None
    size, unit = value(facts, "shm-size", "size", "size2", "size3"), value(facts, "shm-size", "unit", "unit2", "unit3")
    return Finding(
        id="container-shm-too-small",
        severity=Severity.ERROR,
        layer=Layer.CONTAINER,
        component="limits",
        title="Shared memory (/dev/shm) is too small: NCCL or a data loader found no room in it",
        detail=f"It has {size} {unit}B. " * bool(size and unit)
        + "A container gets 64 MiB of it unless told otherwise; each GPU's process wants some, and so do data loaders.",
        confidence=Confidence.CERTAIN if heard(facts, "shm-full") else Confidence.LIKELY,
        because=grounds(facts, *SAID, "shm-size", *MAYBE, "docker-run"),
        fix=Fix(
            text="Start the container with more shared memory, or with that of the machine; in Kubernetes mount an "
            "emptyDir of medium Memory on /dev/shm.",
            commands=either(sh("docker run --gpus all --shm-size=8g …"), sh("docker run --gpus all --ipc=host …")),
            verify=sh("df -h /dev/shm"),
        ),
    )


def _small(facts: Facts) -> bool:
    """Tell whether the shared memory is said to be about what a container gets unless told otherwise."""
    for one in said(facts, "shm-size"):
        size = next((one.values[name] for name in ("size", "size2", "size3") if one.values.get(name)), "")
        unit = next((one.values[name] for name in ("unit", "unit2", "unit3") if one.values.get(name)), "")
        if NUMBER.fullmatch(size) and unit.upper() in MIB and float(size) * MIB[unit.upper()] <= SMALL:
            return True
    return False
