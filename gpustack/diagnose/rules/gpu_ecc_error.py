"""A GPU has had a memory error that ECC could not correct, or has a repair of its memory pending.

A program that met it has died or computed wrongly. The driver replaces the bad row with a spare one (row remapping), or
takes the page out of use on older GPUs, at the next reset. Reset the GPU when its programs are done. An error that
comes back, or a remapping that failed, means that the board must be exchanged.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gpustack.diagnose.rules import amd_faults, fixes
from gpustack.diagnose.rules.events import xids
from gpustack.diagnose.rules.reading import because_of, flag, number
from gpustack.diagnose.rules.seen import gpus
from gpustack.diagnose.rules.told_ecc import told_ecc
from gpustack.model.command import GPU, sh
from gpustack.model.facts import Layer
from gpustack.model.report import Finding, Fix, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.diagnose.rules.events import Event
    from gpustack.diagnose.rules.seen import Gpu
    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts
    from gpustack.model.report import Because, Row

UNCORRECTED = (95, 64, 140, 48)
CONTAINED = 94  # only the program that met it is harmed
# Limits at which a board is exchanged: remapped rows, retired pages; and double-bit errors that are a sign of wear.
# Source: NVIDIA/DCGM, common/DcgmGPUHardwareLimits.h and nvvs/src/SoftwarePluginFramework.cpp, read 2026-11-21.
MOST_REMAPPED, MOST_RETIRED, MOST_DOUBLE = 512, 63, 15
PENDING = (("remap", "pending"), ("retired", "pending"), ("repair", "channel_pending"), ("repair", "tpc_pending"))


def judge(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Give each GPU with uncorrected errors or a failed repair; what is only pending, or past, is a warning."""
    yield from told_ecc(facts, matrix)
    yield from amd_faults.memory(facts)
    contained = {event.pci: event for event in xids(facts, CONTAINED)}
    grave = {event.pci: event for event in xids(facts, *UNCORRECTED)}
    logged = {**contained, **grave}
    for gpu in gpus(facts):
        event = logged.pop(gpu.mark, None)
        bad, pending = _worn(gpu, facts), _pending(gpu, facts)
        past = number(gpu.copy.facts, "ecc", "uncorrected_volatile") == 0 or gpu.mark not in grave
        grounds = [*bad, *([event.because] if event else []), *pending]
        if grounds:
            severity = Severity.ERROR if bad or (event and not past) else Severity.WARNING
            title = f"{gpu.name} at {gpu.mark} {_what(bad=bad, event=event, past=past, pending=pending)}"
            found = _finding(gpu.mark, severity, title, facts)
            yield replace(found, because=tuple(grounds), row=_row(event, matrix))
    for pci, event in logged.items():
        severity = Severity.ERROR if pci in grave else Severity.WARNING
        what = _what(bad=[], event=event, past=pci not in grave, pending=[])
        found = _finding(pci, severity, f"The GPU at {pci} {what}", facts)
        yield replace(found, because=(event.because,), row=_row(event, matrix))


def _what(*, bad: list[Because], event: Event | None, past: bool, pending: list[Because]) -> str:
    if (bad and any(ground.fact.startswith("ecc") for ground in bad)) or (event and not past):
        return "has uncorrectable memory errors"
    if bad:
        return "has no repair left for its memory"
    if event:
        return "has had uncorrectable memory errors"
    waits = any(ground.fact.endswith("pending") for ground in pending)
    return "has a repair of its memory pending" if waits else "shows wear of its memory"


def _worn(gpu: Gpu, facts: Facts) -> list[Because]:
    """Give what says that memory is damaged now, or past repair."""
    held, wrong = gpu.copy.facts, list[tuple[str, ...]]()
    if (number(held, "ecc", "uncorrected_volatile") or 0) > 0:
        wrong.append(("ecc", "uncorrected_volatile"))
    if flag(held, "remap", "failed"):
        wrong.append(("remap", "failed"))
    if (number(held, "remap", "uncorrectable") or 0) >= MOST_REMAPPED:
        wrong.append(("remap", "uncorrectable"))
    if (number(held, "retired", "single_bit") or 0) + (number(held, "retired", "double_bit") or 0) >= MOST_RETIRED:
        wrong += [("retired", "single_bit"), ("retired", "double_bit")]
    return [because_of(facts, "gpu", gpu.copy, *names) for names in wrong]


def _pending(gpu: Gpu, facts: Facts) -> list[Because]:
    """Give what waits for a reset, or is a sign of wear that does no harm yet."""
    held = gpu.copy.facts
    found: list[tuple[str, ...]] = [names for names in PENDING if flag(held, *names)]
    if flag(held, "ecc", "sram_threshold_exceeded"):
        found.append(("ecc", "sram_threshold_exceeded"))
    if (number(held, "remap", "banks", "none") or 0) > 0:
        found.append(("remap", "banks", "none"))
    if (number(held, "retired", "double_bit") or 0) >= MOST_DOUBLE:
        found.append(("retired", "double_bit"))
    return [because_of(facts, "gpu", gpu.copy, *names) for names in found]


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
            commands=(sh("sudo nvidia-smi --gpu-reset -i {gpu}", gpu=GPU(pci)),),
            needs_root=True,
            verify=sh("nvidia-smi -q -d ECC,ROW_REMAPPER -i {gpu}", gpu=GPU(pci)),
        ),
    )
