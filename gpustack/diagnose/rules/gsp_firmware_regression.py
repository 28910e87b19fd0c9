"""This release of the driver cannot start the GPU's GSP firmware.

The driver hands much of its work to a processor on the GPU (GSP), whose firmware comes with the driver. Where it does
not start, the module loads and nvidia-smi lists no device. Often it is one release of the driver on one kind of GPU:
another release works. A state that an earlier driver left behind (WPR2 already up) goes when the machine is switched
off.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.rules import fixes
from gpustack.diagnose.rules.gsp_timeout import RAN
from gpustack.diagnose.rules.saying import because_said, grounds, heard, said
from gpustack.diagnose.rules.told_machine import branch_of, machine, more, release, whole, works
from gpustack.matrix.subjects.ranges import numbers
from gpustack.model.facts import Layer
from gpustack.model.report import Confidence, Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts, Message

# Initialisation stopped at the firmware: RM_INIT_FIRMWARE_INIT_FAILED, whose number has grown by one in some releases.
# Source: open-gpu-kernel-modules src/nvidia/arch/nvalloc/unix/src/osinit.c.
FIRMWARE = frozenset({0x62, 0x63})


def judge(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Give the finding where the log says that GSP did not start; likely where another release is said to work."""
    failed = (*said(facts, "gsp-boot-failed"), *(one for one in said(facts, "rminit-failed") if _at_firmware(one)))
    if not failed or works(facts) or heard(facts, RAN):
        return
    driver = release(facts)
    works_ = (found for one in said(facts, "release-works") if (found := one.values.get("driver")) and found != driver)
    well = max(works_, key=numbers, default=None)
    wanted = f"release {well}, which works" if well else "another release of the driver, the one before or a newer one"
    yield Finding(
        id="gsp-firmware-regression",
        severity=Severity.ERROR,
        layer=Layer.DRIVER,
        component="nvidia-driver",
        title=f"{f'Driver {driver}' if driver else 'The driver'} cannot start the GPU's GSP firmware"
        + (f"; {well} can" if well else ""),
        detail=machine(facts, matrix, "The GPU is on the bus, and its own processor does not come up."),
        because=(
            *map(because_said, failed[:4]),
            *grounds(facts, "release-works", "release-fails", most=2),
            *more(facts),
        ),
        fix=fixes.rebuild(
            facts,
            f"Switch the machine off and on once; if that does not help, install {wanted}.",
            *fixes.driver(facts, matrix, branch=branch_of(well)),
        ),
        confidence=Confidence.LIKELY if well else Confidence.POSSIBLE,
    )


def _at_firmware(one: Message) -> bool:
    return whole(one.values.get("status"), 16) in FIRMWARE
