"""The installed driver no longer runs this GPU.

Each driver branch leaves old architectures behind: Kepler ended with branch 470, Maxwell, Pascal and Volta with 580.
The driver here is of a later branch, loads, and passes the GPU over. Install the last branch that runs it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.model.facts import Layer, Status
from gpustack.model.report import Finding, Severity
from gpustack.rules import fixes
from gpustack.rules.reading import because, because_of, number, status, told
from gpustack.rules.seen import arch_on_bus, disk_release, driver_release, listed, ours

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts


def judge(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Give each GPU whose last branch is older than the driver and that the driver does not list."""
    release = driver_release(facts) or disk_release(facts)
    if number(told(facts, "nvml"), "code") is None and status(facts, "nvml") is not Status.ABSENT:
        return
    for copy in ours(facts):
        arch = arch_on_bus(copy, matrix)
        span = matrix.span(arch) if arch else None
        if not (release and span and span.last and span.last < release.branch) or listed(facts, copy.key):
            continue
        yield Finding(
            id="legacy-gpu-needs-older-branch",
            instance=copy.key,
            severity=Severity.ERROR,
            layer=Layer.DRIVER,
            component="nvidia-driver",
            title=f"Driver {release} no longer runs the {arch} GPU at {copy.key}; branch {span.last} is its last",
            because=(because_of(facts, "pci-display", copy, "device_id"), because(facts, "nvidia-driver", "version")),
            row=span.row,
            fix=fixes.rebuild(facts, f"Install branch {span.last} of the driver.", *fixes.driver(facts, span.last)),
        )
