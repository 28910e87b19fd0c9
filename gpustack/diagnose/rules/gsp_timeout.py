"""The GPU's own processor for the driver's work (GSP) stopped answering.

The driver gives much of its work to the GSP firmware on the GPU. Xid 119 or 120 says that it no longer answers:
programs on that GPU hang or die, and often nvidia-smi as well. Reset the GPU or restart the machine, and bring the
driver up to date: many such faults are mended in newer releases.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.rules import fixes
from gpustack.diagnose.rules.events import xids
from gpustack.diagnose.rules.reading import because, number, told
from gpustack.diagnose.rules.saying import because_said, heard, said
from gpustack.diagnose.rules.seen import listed
from gpustack.diagnose.rules.told_machine import machine, more, whole, xids_named
from gpustack.model.command import GPU, sh
from gpustack.model.facts import Layer
from gpustack.model.report import Finding, Fix, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts

TIMEOUT, ERROR = 119, 120
RAN = "gsp-heartbeat"  # it had started, whatever failed after it
ADVICE = (
    "Reset the GPU, or switch the machine off and on; then bring the driver up to date. Before Blackwell, the "
    "proprietary module can do without GSP (NVreg_EnableGpuFirmware=0)."
)


def judge(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Give each GPU whose GSP failed since the start; a warning where NVML lists it again."""
    found = tuple(_seen(facts, matrix))
    yield from found
    if not found:
        yield from _told(facts, matrix)


def _told(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Give the finding where a text tells it without the kernel's own line."""
    numbered = xids_named(facts, TIMEOUT, ERROR)
    stopped = said(facts, RAN)
    timeouts = said(facts, "gsp-rpc-timeout") if stopped or not heard(facts, "gsp-boot-failed") else ()
    if not (numbered or stopped or timeouts):
        return
    code = whole(numbered[0].values.get("code")) if numbered else TIMEOUT
    row = matrix.xids.get(code)
    yield Finding(
        id="gsp-timeout",
        severity=Severity.ERROR,
        layer=Layer.DRIVER,
        component="nvidia-driver",
        title=f"The GSP firmware of a GPU stopped answering (Xid {code})",
        detail=machine(facts, matrix),
        because=(*map(because_said, (*numbered, *stopped, *timeouts)[:4]), *more(facts)),
        row=row.row if row else None,
        fix=Fix(
            text=f"{fixes.place(facts)}{ADVICE}",
            commands=(sh("sudo nvidia-smi --gpu-reset"), *fixes.driver(facts, matrix)),
            needs_root=True,
            needs_reboot=True,
            verify=sh("nvidia-smi"),
        ),
    )


def _seen(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Give each GPU whose log has it."""
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
                text=f"{fixes.place(facts)}{ADVICE}",
                commands=(sh("sudo nvidia-smi --gpu-reset -i {gpu}", gpu=GPU(event.pci)), *fixes.driver(facts, matrix)),
                needs_root=True,
                needs_reboot=True,
                verify=sh("nvidia-smi"),
            ),
        )
