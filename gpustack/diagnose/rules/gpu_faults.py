"""Faults of a GPU: off the bus, ECC errors, what waits for a reset."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from gpustack.diagnose import fixes
from gpustack.diagnose.machine.described import machine, more, whole, works, xids_named
from gpustack.diagnose.machine.events import asked_for, xids
from gpustack.diagnose.machine.inventory import gpus
from gpustack.diagnose.machine.messages import because_said, grounds, heard, said
from gpustack.diagnose.machine.values import because, because_of, flag, number, text, told
from gpustack.diagnose.rule import rule
from gpustack.diagnose.rules import load
from gpustack.model.command import GPU, REBOOT, Command, sh, step
from gpustack.model.facts import Layer
from gpustack.model.report import Because, Confidence, Finding, Fix, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpustack.diagnose.machine.events import Event
    from gpustack.diagnose.machine.inventory import Gpu
    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts, Message
    from gpustack.model.report import Row


LOST, FELL_OFF = 15, 79
OFF_BUS_SAID = ("fallen-off-bus", "gpu-lost", "pcie-dead")


@rule("gpu-fell-off-bus", layer=Layer.HARDWARE, component="gpu", severity=Severity.ERROR)
def gpu_fell_off_bus(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """A GPU has fallen off the bus: the driver can no longer reach it.

    The PCI Express link to it is gone: power, temperature, seating, a riser, its firmware, or the board itself. Xid 79
    says it in the kernel's log, NVML says that the GPU is lost (error 15). Only a restart, often from power off, brings
    it back. Where it returns, look at power supply and cables, slot and riser, temperature, and the firmware of machine
    and GPU.
    """
    found = tuple(_seen(facts, matrix))
    yield from found
    if not found:
        yield from _told(facts, matrix)


def _told(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Return the finding where a program or a person says that the GPU is gone, without an Xid in the log."""
    gone = (*said(facts, *OFF_BUS_SAID), *xids_named(facts, FELL_OFF))
    if not gone or _refused(facts, gone):
        return
    row = matrix.xids.get(FELL_OFF)
    pci = next((one.values["pci"] for one in gone if one.values.get("pci")), None)
    finding = _off_bus_finding(None, [], row.row if row else None, facts, again=False)
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
    """Return whether it is a container that may not open its GPUs: NVML does not start there, and calls none lost.

    "Unable to determine the device handle …: Unknown Error" is said of both.
    """
    inside = bool(facts.host.container) or heard(facts, "container-told", "docker-run")
    unnamed = all(one.kind == "gpu-lost" and "unknown error" in one.line.lower() for one in gone)
    return inside and heard(facts, "nvml-unknown") and unnamed and not any("lost" in one.line.lower() for one in gone)


def _seen(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Return each GPU that NVML calls lost, and each that the log calls so."""
    logged = {event.pci: event for event in xids(facts, FELL_OFF)}
    lost = [gpu for gpu in gpus(facts) if number(gpu.copy.facts, "code") == LOST]
    row = matrix.xids.get(FELL_OFF) if logged or lost else None
    for gpu in lost:
        event = logged.pop(gpu.mark, None)
        grounds = [because_of(facts, "gpu", gpu.copy, "error"), *([event.because] if event else [])]
        yield _off_bus_finding(gpu.mark, grounds, row.row if row else None, facts, again=False)
    well = {gpu.mark for gpu in gpus(facts)} - {gpu.mark for gpu in lost}
    for pci, event in logged.items():
        yield _off_bus_finding(pci, [event.because], row.row if row else None, facts, again=pci in well)
    if not lost and not logged and number(told(facts, "nvml"), "code") == LOST:
        yield _off_bus_finding(None, [because(facts, "nvml", "code")], row.row if row else None, facts, again=False)


def _off_bus_finding(pci: str | None, grounds: list[Because], row: Row | None, facts: Facts, *, again: bool) -> Finding:
    name = f"The GPU at {pci}" if pci else "A GPU"
    return gpu_fell_off_bus.finding(
        instance=pci,
        severity=Severity.WARNING if again else Severity.ERROR,
        title=f"{name} has fallen off the bus" + (", and answers again" if again else ""),
        because=tuple(grounds),
        row=row,
        fix=Fix(
            text=f"{fixes.place(facts)}Switch the machine off and on. If it happens again: seat the GPU again, look at "
            "power supply and cables, slot and riser, temperature, firmware; then the board.",
            commands=(
                sh("sudo dmesg | grep -iE 'xid|aer'"),
                step("where somebody can switch it on again: `sudo poweroff`"),
            ),
            needs_root=True,
            needs_reboot=True,
            verify=sh("nvidia-smi"),
        ),
    )


ECC_WORDS_SAID = ("ecc-uncorrectable", "ecc-count", "remap-failed", "ras-uncorrectable")
XIDS = (48, 64, 94, 95, 140)
NONE = re.compile(r"\b(?:0|no|zero|without) (?:[a-z]+ )?(?:uncorrectable|uncorrected|double[- ]bit)", re.IGNORECASE)


def told_ecc(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Return the finding where a text has an uncorrectable memory error."""
    counted = (one for one in said(facts, *ECC_WORDS_SAID) if not NONE.search(one.line))
    wrong = (*counted, *xids_named(facts, *XIDS))
    if not wrong or any(True for _ in xids(facts, *XIDS)):
        return  # the log has it by GPU
    code = next((whole(one.values.get("code")) for one in xids_named(facts, *XIDS)), None)
    row = matrix.xids.get(code) if code else matrix.cuda_codes.get(214)
    pci = next((one.values["pci"] for one in wrong if one.values.get("pci")), None)
    amd = any(one.kind == "ras-uncorrectable" for one in wrong)
    asked = sh("nvidia-smi -q -d ECC,ROW_REMAPPER,PAGE_RETIREMENT")
    show = sh("sudo dmesg | grep -i ras") if amd else asked
    yield gpu_ecc_error.finding(
        title=f"{f'The GPU at {pci}' if pci else 'A GPU'} has uncorrectable memory errors (ECC"
        + (f", Xid {code})" if code else ")"),
        detail=machine(facts, matrix, "Its memory is damaged, or a bit was hit once; the program is not at fault."),
        because=(*map(because_said, wrong[:4]), *more(facts)),
        row=row.row if row else None,
        fix=Fix(
            text=f"{fixes.place(facts)}Find the GPU by its counters, stop its programs and reset it, or restart the "
            "machine. If errors come back or remapping failed, have the board exchanged.",
            commands=(
                show,
                *(() if amd else (step("with the INDEX of that list: `sudo nvidia-smi --gpu-reset -i INDEX`"),)),
            ),
            needs_root=True,
            verify=show,
        ),
    )


UNCORRECTED = (95, 64, 140, 48)
CONTAINED = 94  # only the program that met it is harmed
# Limits at which a board is exchanged: remapped rows, retired pages; and double-bit errors that are a sign of wear.
# Source: NVIDIA/DCGM, common/DcgmGPUHardwareLimits.h and nvvs/src/SoftwarePluginFramework.cpp, read 2026-11-21.
MOST_REMAPPED, MOST_RETIRED, MOST_DOUBLE = 512, 63, 15
PENDING = (("remap", "pending"), ("retired", "pending"), ("repair", "channel_pending"), ("repair", "tpc_pending"))


@rule("gpu-ecc-error", layer=Layer.HARDWARE, component="gpu", severity=Severity.ERROR)
def gpu_ecc_error(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """A GPU has had a memory error that ECC could not correct, or has a repair of its memory pending.

    A program that met it has died or computed wrongly. The driver replaces the bad row with a spare one (row
    remapping), or takes the page out of use on older GPUs, at the next reset. Reset the GPU when its programs are done.
    An error that comes back, or a remapping that failed, means that the board must be exchanged.
    """
    yield from told_ecc(facts, matrix)
    yield from load.memory(facts)
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
            found = _ecc_finding(gpu.mark, severity, title, facts)
            yield replace(found, because=tuple(grounds), row=_row(event, matrix))
    for pci, event in logged.items():
        severity = Severity.ERROR if pci in grave else Severity.WARNING
        what = _what(bad=[], event=event, past=pci not in grave, pending=[])
        found = _ecc_finding(pci, severity, f"The GPU at {pci} {what}", facts)
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
    """Return what says that memory is damaged now, or past repair."""
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
    """Return what waits for a reset, or is a sign of wear that does no harm yet."""
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


def _ecc_finding(pci: str, severity: Severity, title: str, facts: Facts) -> Finding:
    return gpu_ecc_error.finding(
        instance=pci,
        severity=severity,
        title=title,
        fix=Fix(
            text=f"{fixes.place(facts)}Stop its programs and reset it. If errors come back or remapping failed, have "
            "the board exchanged.",
            commands=(sh("sudo nvidia-smi --gpu-reset -i {gpu}", gpu=GPU(pci)),),
            needs_root=True,
            verify=sh("nvidia-smi -q -d ECC,ROW_REMAPPER -i {gpu}", gpu=GPU(pci)),
        ),
    )


RESET_REQUIRED = 16
DRAIN_P2P = 3
RESTARTS = frozenset({2, 7})  # node reboot, system reboot


@rule("gpu-recovery-needed", layer=Layer.HARDWARE, component="gpu", severity=Severity.ERROR)
def gpu_recovery_needed(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """The driver says that a GPU needs a recovery: a reset, a drain, or a restart of the machine.

    After certain faults the driver marks the GPU, and says itself what brings it back. Until then programs on it may
    fail or compute wrongly. Do what it says, when the programs on the GPU are done.
    """
    for gpu in gpus(facts):
        action = number(gpu.copy.facts, "recovery_action")
        must_reset = number(gpu.copy.facts, "code") == RESET_REQUIRED
        logged = asked_for(facts, gpu.mark) if action is None else None  # the GPU's own word goes before the log's
        if not action and not must_reset and not logged:
            continue
        restart = action in RESTARTS or "reboot" in (logged or "").lower()
        named = text(gpu.copy.facts, "recovery_action_name") or logged or ("gpu-reset" if must_reset else None)
        named = named or f"action {action}"
        yield gpu_recovery_needed.finding(
            instance=gpu.mark,
            title=f"{gpu.name} at {gpu.mark} needs a recovery: {named.replace('-', ' ').lower()}",
            because=(
                because_of(facts, "gpu", gpu.copy, "recovery_action"),
                because_of(facts, "gpu", gpu.copy, "recovery_action_name"),
                because_of(facts, "gpu", gpu.copy, "code"),
                *([Because(component="kernel-log", fact="xids", value=f"Xid 154: {logged}")] if logged else []),
            ),
            fix=Fix(
                text=f"{fixes.place(facts)}Stop the programs on it, then do what the driver asks for.",
                commands=(_command(gpu.mark, action, restart=restart),),
                needs_root=action != DRAIN_P2P,
                needs_reboot=restart,
                verify=sh("nvidia-smi -q -i {gpu}", gpu=GPU(gpu.mark)),
            ),
        )


def _command(mark: str, action: int | None, *, restart: bool) -> Command:
    """Return the command for what the driver asks for; a drain of peers alone wants no reset."""
    if action == DRAIN_P2P:
        return sh("nvidia-smi --query-compute-apps=gpu_bus_id,pid,name --format=csv")
    return REBOOT if restart else sh("sudo nvidia-smi --gpu-reset -i {gpu}", gpu=GPU(mark))


POWER = "power-blamed-said"
HOST_GPU = ("fallen-off-bus", "gpu-lost", "pcie-dead", "xid")


@rule(
    "host-hardware-fault", layer=Layer.HARDWARE, component="linux-kernel", severity=Severity.ERROR, from_messages=True
)
def host_hardware_fault(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """The machine itself has a fault of its hardware: board, memory, processor or a PCI Express port.

    The kernel reports errors that were not corrected (machine check, AER), or the same GPU works in another machine or
    slot. Nothing that is installed fixes that. Read the machine's own event log, try another slot and riser, bring the
    firmware up to date, and have the part exchanged.
    """
    checked, blamed = heard(facts, "mce"), heard(facts, "board-blamed")
    link = heard(facts, "aer-fatal") and not heard(facts, *HOST_GPU)
    power = heard(facts, POWER) and heard(facts, "machine-gone-said") and not heard(facts, *HOST_GPU, "xid-named")
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
    yield host_hardware_fault.finding(
        title=f"The machine's own {what} has a fault; the GPU's software is not the cause",
        detail=machine(facts, matrix),
        because=(
            *grounds(facts, "board-blamed", "mce", "aer-fatal", *([POWER, "machine-gone-said"] if power else [])),
            *grounds(facts, *HOST_GPU, most=2),
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
