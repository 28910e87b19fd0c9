"""The GPU's own processor for the driver's work (GSP) stopped answering.

The driver gives much of its work to the GSP firmware on the GPU. Xid 119 or 120 says that it no longer answers:
programs on that GPU hang or die, and often nvidia-smi as well. Reset the GPU or restart the machine, and bring the
driver up to date: many such faults are mended in newer releases.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.model.facts import Layer
from gpustack.model.report import Finding, Fix, Severity
from gpustack.rules import fixes
from gpustack.rules.events import xids
from gpustack.rules.reading import because, number, told
from gpustack.rules.seen import listed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts

TIMEOUT, ERROR = 119, 120


def judge(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Give each GPU whose GSP failed since the start; a warning where NVML lists it again."""
    for event in {event.pci: event for event in xids(facts, TIMEOUT, ERROR)}.values():
        row = matrix.xids.get(event.code)
        again = listed(facts, event.pci) and number(told(facts, "nvml"), "code") == 0
        yield Finding(
            id="gsp-timeout",
            instance=event.pci,
            severity=Severity.WARNING if again else Severity.ERROR,
            layer=Layer.DRIVER,
            component="nvidia-driver",
            title=f"The GSP firmware of the GPU at {event.pci} stopped answering (Xid {event.code})",
            because=(event.because, because(facts, "nvidia-driver", "version")),
            row=row.row if row else None,
            fix=Fix(
                text=f"{fixes.place(facts)}Reset the GPU, or restart the machine; then bring the driver up to date.",
                commands=(f"sudo nvidia-smi --gpu-reset -i {event.pci}", *fixes.driver(facts)),
                needs_root=True,
                needs_reboot=True,
                verify="nvidia-smi",
            ),
        )
