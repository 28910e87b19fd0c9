"""A GPU has had a memory error that ECC could not correct, or has a repair of its memory pending.

A program that met it has died or computed wrongly. The driver replaces the bad row with a spare one (row remapping), or
takes the page out of use on older GPUs, at the next reset. Reset the GPU when its programs are done. An error that
comes back, or a remapping that failed, means that the board must be exchanged.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gpustack.model.facts import Layer
from gpustack.model.report import Finding, Fix, Severity
from gpustack.rules import fixes
from gpustack.rules.events import xids
from gpustack.rules.reading import because_of, flag, number
from gpustack.rules.seen import gpus

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts
    from gpustack.model.report import Because, Row
    from gpustack.rules.events import Event
    from gpustack.rules.seen import Gpu

UNCORRECTED = (48, 95, 64, 140)


def judge(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Give each GPU with uncorrected errors or a failed repair; what is only pending, or past, is a warning."""
    logged = {event.pci: event for event in xids(facts, *UNCORRECTED)}
    for gpu in gpus(facts):
        event = logged.pop(gpu.mark, None)
        bad, pending = _errors(gpu, facts), _pending(gpu, facts)
        past = event is not None and number(gpu.copy.facts, "ecc", "uncorrected_volatile") == 0
        grounds = [*bad, *([event.because] if event else []), *pending]
        what = "has uncorrectable memory errors"
        if not bad and (past or not event):
            what = "has had uncorrectable memory errors" if past else "has a repair of its memory pending"
        if grounds:
            severity = Severity.ERROR if bad or (event and not past) else Severity.WARNING
            found = _finding(gpu.mark, severity, f"{gpu.name} at {gpu.mark} {what}", facts)
            yield replace(found, because=tuple(grounds), row=_row(event, matrix))
    for pci, event in logged.items():
        title = f"The GPU at {pci} has uncorrectable memory errors"
        found = _finding(pci, Severity.ERROR, title, facts)
        yield replace(found, because=(event.because,), row=_row(event, matrix))


def _errors(gpu: Gpu, facts: Facts) -> list[Because]:
    held = gpu.copy.facts
    wrong = [names for names in (("ecc", "sram_threshold_exceeded"), ("remap", "failed")) if flag(held, *names)]
    if (number(held, "ecc", "uncorrected_volatile") or 0) > 0:
        wrong.insert(0, ("ecc", "uncorrected_volatile"))
    return [because_of(facts, "gpu", gpu.copy, *names) for names in wrong]


def _pending(gpu: Gpu, facts: Facts) -> list[Because]:
    waiting = [names for names in (("remap", "pending"), ("retired", "pending")) if flag(gpu.copy.facts, *names)]
    return [because_of(facts, "gpu", gpu.copy, *names) for names in waiting]


def _row(event: Event | None, matrix: Matrix) -> Row | None:
    found = matrix.xids.get(event.code) if event else None
    return found.row if found else None


def _finding(pci: str, severity: Severity, title: str, facts: Facts) -> Finding:
    return Finding(
        id="gpu-ecc-error",
        instance=pci,
        severity=severity,
        layer=Layer.HARDWARE,
        component="gpu",
        title=title,
        fix=Fix(
            text=f"{fixes.place(facts)}Stop its programs and reset it. If errors come back or remapping failed, have "
            "the board exchanged.",
            commands=(f"sudo nvidia-smi --gpu-reset -i {pci}",),
            needs_root=True,
            verify=f"nvidia-smi -q -d ECC,ROW_REMAPPER -i {pci}",
        ),
    )
