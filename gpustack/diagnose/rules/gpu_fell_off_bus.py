"""A GPU has fallen off the bus: the driver can no longer reach it.

The PCI Express link to it is gone: power, temperature, seating, a riser, its firmware, or the board itself. Xid 79 says
it in the kernel's log, NVML says that the GPU is lost (error 15). Only a restart, often from power off, brings it back.
Where it returns, look at power supply and cables, slot and riser, temperature, and the firmware of machine and GPU.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gpustack.diagnose.rules import fixes
from gpustack.diagnose.rules.events import xids
from gpustack.diagnose.rules.reading import because, because_of, number, told
from gpustack.diagnose.rules.saying import because_said, grounds, heard, said
from gpustack.diagnose.rules.seen import gpus
from gpustack.diagnose.rules.told_machine import machine, more, xids_named
from gpustack.model.command import sh
from gpustack.model.facts import Layer
from gpustack.model.report import Confidence, Finding, Fix, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts, Message
    from gpustack.model.report import Because, Row

LOST, FELL_OFF = 15, 79
SAID = ("fallen-off-bus", "gpu-lost", "pcie-dead")


def judge(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Give each GPU that NVML calls lost, and each that the log calls so; a warning where it answers again."""
    found = tuple(_seen(facts, matrix))
    yield from found
    if not found:
        yield from _told(facts, matrix)


def _told(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Give the finding where a program or a person says that the GPU is gone, without an Xid in the log."""
    gone = (*said(facts, *SAID), *xids_named(facts, FELL_OFF))
    if not gone or _refused(facts, gone):
        return
    row = matrix.xids.get(FELL_OFF)
    pci = next((one.values["pci"] for one in gone if one.values.get("pci")), None)
    finding = _finding(None, [], row.row if row else None, facts, again=False)
    named = f"The GPU at {pci}" if pci else "A GPU"
    handle = heard(facts, "gpu-lost") and not heard(facts, "fallen-off-bus", "pcie-dead")
    yield replace(
        finding,
        title=f"{named} is lost: it has fallen off the PCI Express bus",
        detail=machine(facts, matrix),
        because=(*map(because_said, gone[:4]), *grounds(facts, "gpu-vanishes", "aer-fatal", most=2), *more(facts)),
        confidence=Confidence.LIKELY if handle else Confidence.CERTAIN,
    )


def _refused(facts: Facts, gone: Sequence[Message]) -> bool:
    """Tell whether it is a container that may not open its GPUs: NVML does not start there, and calls none lost.

    "Unable to determine the device handle …: Unknown Error" is said of both.
    """
    inside = bool(facts.host.container) or heard(facts, "container-told", "docker-run")
    unnamed = all(one.kind == "gpu-lost" and "unknown error" in one.line.lower() for one in gone)
    return inside and heard(facts, "nvml-unknown") and unnamed and not any("lost" in one.line.lower() for one in gone)


def _seen(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Give each GPU that NVML calls lost, and each that the log calls so."""
    logged = {event.pci: event for event in xids(facts, FELL_OFF)}
    lost = [gpu for gpu in gpus(facts) if number(gpu.copy.facts, "code") == LOST]
    row = matrix.xids.get(FELL_OFF) if logged or lost else None
    for gpu in lost:
        event = logged.pop(gpu.mark, None)
        grounds = [because_of(facts, "gpu", gpu.copy, "error"), *([event.because] if event else [])]
        yield _finding(gpu.mark, grounds, row.row if row else None, facts, again=False)
    well = {gpu.mark for gpu in gpus(facts)} - {gpu.mark for gpu in lost}
    for pci, event in logged.items():
        yield _finding(pci, [event.because], row.row if row else None, facts, again=pci in well)
    if not lost and not logged and number(told(facts, "nvml"), "code") == LOST:
        yield _finding(None, [because(facts, "nvml", "code")], row.row if row else None, facts, again=False)


def _finding(pci: str | None, grounds: list[Because], row: Row | None, facts: Facts, *, again: bool) -> Finding:
    name = f"The GPU at {pci}" if pci else "A GPU"
    return Finding(
        id="gpu-fell-off-bus",
        instance=pci,
        severity=Severity.WARNING if again else Severity.ERROR,
        layer=Layer.HARDWARE,
        component="gpu",
        title=f"{name} has fallen off the bus" + (", and answers again" if again else ""),
        because=tuple(grounds),
        row=row,
        fix=Fix(
            text=f"{fixes.place(facts)}Switch the machine off and on. If it happens again: seat the GPU again, look at "
            "power supply and cables, slot and riser, temperature, firmware; then the board.",
            commands=(
                sh("sudo dmesg | grep -iE 'xid|aer'"),
                sh("# sudo poweroff, where somebody can switch it on again"),
            ),
            needs_root=True,
            needs_reboot=True,
            verify=sh("nvidia-smi"),
        ),
    )
