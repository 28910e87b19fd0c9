"""Fabric manager and driver are of two releases, so the fabric manager does not start.

On machines whose GPUs are joined by NVSwitch, the fabric manager must be of exactly the driver's release, down to the
last number. It refuses any other, the fabric stays down, and CUDA says 802. That happens when only one of the two was
updated, or when a new driver is installed and the old module is still in memory. Install the fabric manager of the
driver's release, and hold both packages together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.rules import fabric, naming
from gpustack.diagnose.rules.reading import because, number, told, version
from gpustack.diagnose.rules.saying import grounds, heard, value
from gpustack.diagnose.rules.seen import driver_release
from gpustack.model.facts import Layer
from gpustack.model.report import Confidence, Finding, Severity
from gpustack.model.versions import DriverRelease

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts

NOT_READY = 802
SAID = ("fabric-manager-mismatch", "cuda-802", "fabric-manager-failed", "fabric-manager-version")


def judge(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Give the finding where the fabric manager says so, or where the releases differ and CUDA waits for it."""
    outright, manager, driver = heard(facts, SAID[0]), fabric.manager_release(facts), _driver(facts)
    differ = manager is not None and driver is not None and manager != driver
    refused = fabric.refused(facts) or number(told(facts, "libcuda"), "cu_init") == NOT_READY
    differ = differ and (refused or heard(facts, "fabric-manager-failed"))
    if not (outright or differ):
        return
    row = matrix.cuda_codes.get(NOT_READY)
    seen = (because(facts, fabric.MANAGER, "version"),) if version(facts, fabric.MANAGER) else ()
    yield Finding(
        id="fabric-manager-version-mismatch",
        severity=Severity.ERROR,
        layer=Layer.DRIVER,
        component="nvidia-fabricmanager",
        title=f"The fabric manager is {manager or 'of another release'}, the driver is {driver or 'of another'}",
        detail="The fabric manager refuses to start with another release of the driver, the NVSwitch fabric stays "
        "down, and CUDA does not start (error 802).",
        confidence=Confidence.CERTAIN if outright else Confidence.LIKELY,
        because=(*grounds(facts, *SAID), *seen, *naming.of_driver(facts)),
        row=row.row if row else None,
        fix=fabric.install(facts),
    )


def _driver(facts: Facts) -> DriverRelease | None:
    """Give the driver's release, at the last as somebody names it."""
    return driver_release(facts) or DriverRelease.parse(value(facts, "driver-named", "driver"))
