"""The machine itself has a fault of its hardware: board, memory, processor or a PCI Express port.

The kernel reports errors that were not corrected (machine check, AER), or the same GPU works in another machine or
slot. Nothing that is installed mends that. Read the machine's own event log, try another slot and riser, bring the
firmware up to date, and have the part exchanged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.rules import fixes
from gpustack.diagnose.rules.saying import grounds, heard
from gpustack.diagnose.rules.told_machine import machine, more, works
from gpustack.model.command import sh
from gpustack.model.facts import Layer
from gpustack.model.report import Confidence, Finding, Fix, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts

POWER = "power-blamed-said"
GPU = ("fallen-off-bus", "gpu-lost", "pcie-dead", "xid")


def judge(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Give the finding where the kernel reports an uncorrected error that is not a GPU's, or the board is blamed."""
    checked, blamed = heard(facts, "mce"), heard(facts, "board-blamed")
    link = heard(facts, "aer-fatal") and not heard(facts, *GPU)
    power = heard(facts, POWER) and heard(facts, "machine-gone-said") and not heard(facts, *GPU, "xid-named")
    if works(facts) and not checked:
        return
    if not (checked or blamed or link or power):
        return
    what = (
        "hardware (board, memory or processor)"
        if blamed
        else "hardware (machine check)"
        if checked
        else "PCI Express (uncorrected fatal error)"
        if link
        else "power supply (PSU)"
    )
    yield Finding(
        id="host-hardware-fault",
        severity=Severity.ERROR,
        layer=Layer.HARDWARE,
        component="linux-kernel",
        title=f"The machine's own {what} has a fault; the GPU's software is not the cause",
        detail=machine(facts, matrix),
        because=(
            *grounds(facts, "board-blamed", "mce", "aer-fatal", *([POWER, "machine-gone-said"] if power else [])),
            *grounds(facts, *GPU, most=2),
            *more(facts),
        ),
        fix=Fix(
            text=f"{fixes.place(facts)}Read the machine's event log, try another slot, riser, power supply (with a "
            "cable of its own for each socket of the card) or mainboard, bring the "
            "firmware up to date, and have the faulty part exchanged.",
            commands=(sh("sudo dmesg | grep -iE 'hardware error|aer|mce'"), sh("sudo ipmitool sel list")),
            needs_root=True,
        ),
        confidence=Confidence.CERTAIN if checked else Confidence.LIKELY,
    )
