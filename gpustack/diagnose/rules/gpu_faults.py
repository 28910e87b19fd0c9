"""Faults of a GPU and of the fabric that joins GPUs: off the bus, ECC errors, what waits for a reset or a manager."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from gpustack.diagnose import fixes
from gpustack.diagnose.machine import containers, naming
from gpustack.diagnose.machine.events import asked_for, faults, grounds, heard, said, value
from gpustack.diagnose.machine.inventory import Gpu, driver_release, from_text, gpus, listed, starts, user_release
from gpustack.diagnose.machine.naming import machine, more, works
from gpustack.diagnose.machine.values import because, because_of, flag, number, status, text, told, version
from gpustack.diagnose.requirements.versions import IN_WORDS, WELL
from gpustack.diagnose.rule import rule
from gpustack.diagnose.rules import load
from gpustack.model.command import BRANCH, GPU, REBOOT, Command, sh, step
from gpustack.model.facts import AT_WORK, Facts, Layer, Message, Status
from gpustack.model.report import Because, Confidence, Finding, Fix, Row, Severity
from gpustack.model.versions import DriverRelease

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpustack.matrix import Matrix


LOST, FELL_OFF = 15, 79
OFF_BUS_SAID = ("fallen-off-bus", "gpu-lost", "pcie-dead")
ASLEEP, GONE = "power-state-said", re.compile("inaccessible|D3cold", re.IGNORECASE)  # it no longer wakes up


@rule(
    "gpu-fell-off-bus", Layer.HARDWARE, "gpu", explained_by=("gpu-overheat", "bios-bar-setting", "host-hardware-fault")
)
def gpu_fell_off_bus(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """A GPU has fallen off the bus: the driver can no longer reach it.

    The PCI Express link to it is gone: power, temperature, seating, a riser, its firmware, or the board itself. Xid 79
    says it in the kernel's log, NVML says that the GPU is lost (error 15). Only a restart, often from power off, brings
    it back. If it returns, check the power supply and cables, slot and riser, the temperature, and the firmware of
    machine and GPU.
    """
    written = (*said(facts, *OFF_BUS_SAID), *(one for one in said(facts, ASLEEP) if GONE.search(one.line)))
    logged = {event.pci: event for event in faults(facts, FELL_OFF, spoken=written)}
    lost = [gpu for gpu in gpus(facts) if number(gpu.copy.facts, "code") == LOST]
    row = matrix.xids.get(FELL_OFF) if lost or logged else None
    cause = row.row if row else None
    for gpu in lost:
        event = logged.pop(gpu.mark, None)
        why = (because_of(facts, "gpu", gpu.copy, "error"), *(event.grounds if event else ()))
        yield _off_bus_finding(f"The GPU at {gpu.mark}", gpu.mark, why, cause, facts)
    for event in logged.values():
        if not event.spoken:
            again = listed(facts, event.pci or "")
            yield _off_bus_finding(event.place, event.pci, event.grounds, cause, facts, again=again)
        elif not lost and not _refused(facts, event.spoken):
            why = (*event.grounds, *grounds(facts, "gpu-vanishes", "aer-fatal", most=2), *more(facts))
            found = _off_bus_finding(event.place, None, why, cause, facts)
            handle = all(one.kind == "gpu-lost" for one in event.spoken)
            if handle and heard(facts, "vm-hidden-said"):  # GeForce drivers before 465 refuse to run in a guest
                continue
            sure = Confidence.LIKELY if handle else Confidence.CERTAIN
            yield replace(found, detail=machine(facts, matrix), confidence=sure)
    if not lost and not logged and number(told(facts, "nvml"), "code") == LOST:
        yield _off_bus_finding("A GPU", None, (because(facts, "nvml", "code"),), cause, facts)


def _refused(facts: Facts, gone: Sequence[Message]) -> bool:
    """Return whether it is a container that cannot open its GPUs: NVML does not start there, and calls none lost.

    Both report "Unable to determine the device handle …: Unknown Error".
    """
    inside = containers.mentioned(facts)
    unnamed = all(one.kind == "gpu-lost" and "unknown error" in one.line.lower() for one in gone)
    return inside and heard(facts, "nvml-unknown") and unnamed and not any("lost" in one.line.lower() for one in gone)


def _off_bus_finding(
    place: str, pci: str | None, grounds: tuple[Because, ...], row: Row | None, facts: Facts, *, again: bool = False
) -> Finding:
    return gpu_fell_off_bus.finding(
        instance=pci,
        severity=Severity.WARNING if again else Severity.ERROR,
        title=f"{place} has fallen off the PCI Express bus" + (", and responds again" if again else ""),
        because=grounds,
        row=row,
        fix=fixes.advice(
            f"{fixes.place(facts)}Switch the machine off and on. If it happens again: reseat the GPU; check "
            "power supply and cables, slot and riser, temperature and firmware; then the board.",
            sh("sudo dmesg | grep -iE 'xid|aer'"),
            step("if someone can switch it on again: `sudo poweroff`"),
            reboot=True,
            verify=sh("nvidia-smi"),
        ),
    )


ECC_SAID = ("ecc-uncorrectable", "ecc-count", "remap-failed", "remap-pending", "ras-uncorrectable", "ecc-said")
NONE = re.compile(r"\b(?:0|no|zero|without) (?:[a-z]+ )?(?:uncorrectable|uncorrected|double[- ]bit)", re.IGNORECASE)
UNCORRECTED = (95, 64, 140, 48)
CONTAINED = 94  # only the program that met it is harmed
REPAIRED = 63  # a row of the memory, or a page of an older GPU, is replaced from the next reset on
UNCORRECTABLE = 214  # of CUDA


@rule("gpu-ecc-error", Layer.HARDWARE, "gpu")
def gpu_ecc_error(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """A GPU has had a memory error that ECC could not correct, or has a repair of its memory pending.

    A program that met it has crashed or computed wrong results. The driver replaces the bad row with a spare one (row
    remapping), or takes the page out of use on older GPUs, at the next reset. Reset the GPU when its programs are done.
    An error that comes back, or a remapping that failed, means that the board must be replaced.
    """
    yield from load.memory(facts)
    counted = tuple(one for one in said(facts, *ECC_SAID) if not NONE.search(one.line))
    known = {gpu.mark: number(gpu.copy.facts, "ecc", "uncorrected_volatile") for gpu in gpus(facts)}
    repaired = () if any(one is not None for one in known.values()) else (REPAIRED,)  # the GPU itself tells it better
    for event in (
        () if any(known.values()) and counted else faults(facts, *UNCORRECTED, CONTAINED, *repaired, spoken=counted)
    ):  # counters are compared with the health table
        contained = event.code in {CONTAINED, REPAIRED} and not event.spoken
        had = (
            "had uncorrectable memory errors" if event.code != REPAIRED or event.spoken else "marked memory for repair"
        )
        past = contained or known.get(event.pci or "") == 0
        pci = None if event.spoken else event.pci
        numbered = not event.spoken or event.spoken[-1].kind == "xid-named"
        row = matrix.xids.get(event.code) if numbered else matrix.cuda_codes.get(UNCORRECTABLE)
        amd = heard(facts, "ras-uncorrectable")
        counters = sh("nvidia-smi -q -d ECC,ROW_REMAPPER,PAGE_RETIREMENT")
        show = sh("sudo dmesg | grep -i ras") if amd else counters
        reset = step("with its index in that list: `sudo nvidia-smi --gpu-reset -i INDEX`")
        yield gpu_ecc_error.finding(
            instance=pci,
            severity=Severity.WARNING if past else Severity.ERROR,
            title=f"{event.place} {f'has {had}' if past else 'has uncorrectable memory errors'} (ECC"
            + (f", Xid {event.code})" if numbered else ")"),
            detail=machine(
                facts, matrix, "Its memory is damaged or had a single bit flip; the program is not at fault."
            ),
            because=(*event.grounds, *more(facts)),
            row=row.row if row else None,
            fix=fixes.advice(
                f"{fixes.place(facts)}Stop its programs and reset it, or restart the machine. If errors come back "
                "or remapping failed, have the board replaced.",
                *(
                    (sh("sudo nvidia-smi --gpu-reset -i {gpu}", gpu=GPU(pci)),)
                    if pci
                    else (show, *(() if amd else (reset,)))
                ),
                root=True,
                verify=sh("nvidia-smi -q -d ECC,ROW_REMAPPER -i {gpu}", gpu=GPU(pci)) if pci else show,
            ),
        )


RESET_REQUIRED = 16
DRAIN_P2P = 3
RESTARTS = frozenset({2, 7})  # node reboot, system reboot


@rule("gpu-recovery-needed", Layer.HARDWARE, "gpu", explained_by=("gpu-ecc-error", "gpu-fell-off-bus", "gsp-timeout"))
def gpu_recovery_needed(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """The driver says that a GPU needs a recovery: a reset, a drain, or a restart of the machine.

    After certain faults the driver marks the GPU and states what will recover it. Until then programs on it may fail or
    compute wrong results. Do what it asks for once the programs on the GPU have finished.
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
            title=f"{gpu.name} at {gpu.mark} needs a recovery: {named.replace('-', ' ').lower().replace('gpu', 'GPU')}",
            because=(
                because_of(facts, "gpu", gpu.copy, "recovery_action"),
                because_of(facts, "gpu", gpu.copy, "recovery_action_name"),
                because_of(facts, "gpu", gpu.copy, "code"),
                *([Because(component="kernel-log", fact="xids", value=f"Xid 154: {logged}")] if logged else []),
            ),
            fix=fixes.advice(
                f"{fixes.place(facts)}Stop the programs on it, then do what the driver asks.",
                _command(gpu.mark, action, restart=restart),
                root=action != DRAIN_P2P,
                reboot=restart,
                verify=sh("nvidia-smi -q -i {gpu}", gpu=GPU(gpu.mark)),
            ),
        )


def _command(mark: str, action: int | None, *, restart: bool) -> Command:
    """Return the command for what the driver asks for; a drain of peers alone wants no reset."""
    if action == DRAIN_P2P:
        return sh("nvidia-smi --query-compute-apps=gpu_bus_id,pid,name --format=csv")
    return REBOOT if restart else sh("sudo nvidia-smi --gpu-reset -i {gpu}", gpu=GPU(mark))


POWER, GONE_OFF = "power-blamed-said", "machine-gone-said"
# It goes off or starts again, and leaves no trace: a supply that protects itself.
OFF = re.compile(
    r"\b(?:re(?:start|boot)\w*|shuts? (?:down|off)|(?:powers?|switch\w*|turn\w*|goes|went) off)\b", re.IGNORECASE
)
TRACELESS = re.compile(r"\bno(?:thing in| errors?| logs?| lines?| trace| core ?dump)\b", re.IGNORECASE)
HOST_GPU = ("fallen-off-bus", "gpu-lost", "pcie-dead", "xid")


@rule("host-hardware-fault", Layer.HARDWARE, "linux-kernel", from_messages=True, explained_by=("gpu-ecc-error",))
def host_hardware_fault(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """The machine itself has a hardware fault: board, memory, processor or a PCI Express port.

    The kernel reports errors that were not corrected (machine check, AER), or the same GPU works in another machine or
    slot. No software fixes that. Read the machine's own event log, try another slot and riser, update the firmware, and
    have the part replaced.
    """
    checked, blamed = heard(facts, "mce"), heard(facts, "board-blamed")
    link = heard(facts, "aer-fatal") and not heard(facts, *HOST_GPU)
    silent = any(OFF.search(one.line) and TRACELESS.search(one.line) for one in said(facts, GONE_OFF))
    power = (silent or heard(facts, POWER)) and heard(facts, GONE_OFF) and not heard(facts, *HOST_GPU, "xid-named")
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
            *grounds(facts, "board-blamed", "mce", "aer-fatal", *([POWER, GONE_OFF] if power else [])),
            *grounds(facts, *HOST_GPU, most=2),
            *more(facts),
        ),
        fix=fixes.advice(
            f"{fixes.place(facts)}Read the machine's event log, try another slot, riser, power supply (with a "
            "cable of its own for each socket of the card) or mainboard, update the firmware, and have the faulty "
            "part replaced.",
            sh("sudo dmesg | grep -iE 'hardware error|aer|mce'"),
            sh("sudo ipmitool sel list"),
        ),
        confidence=Confidence.CERTAIN if checked else Confidence.LIKELY,
    )


FABRIC_SAID = ("cuda-802", "fabric-waiting", "fabric-config", "fabric-manager-failed")
MISMATCH = "fabric-manager-mismatch"
# GPUs that sit on NVSwitch boards, by their names. Source: NVIDIA Fabric Manager user guide, "Supported Platforms".
SWITCHED = re.compile(
    r"\b(?:A100|A800|H100|H800)[- ](?:SXM|80GB HBM)|\b(?:H200|H20|H800|B200|B300)\b(?! (?:NVL|PCIe))|\b(?:HGX|DGX)\b"
)
JOINED, MANY = re.compile(r"\b(?:A100|A800|H100|H800)\b(?![- ]PCIe)", re.IGNORECASE), 8
MANAGER, NOT_READY = "nvidia-fabricmanager", 802
WAITING = frozenset({"not-started", "in-progress"})
NO_GPU = ("cuda-available-false", "no-device", "init-error", "cuda-fails-said", "gpu-unused-said")


def _waiting(facts: Facts) -> tuple[Gpu, ...]:
    """Return the GPUs that have not joined the fabric."""
    return tuple(gpu for gpu in gpus(facts) if text(gpu.copy.facts, "fabric", "state") in WAITING)


def _fabric_refused(facts: Facts) -> bool:
    """Return whether CUDA waits for the fabric, or the manager does not run where the GPUs need it and CUDA fails."""
    manager, named = told(facts, MANAGER), gpus(facts)
    runs = from_text(facts) and flag(manager, "running")  # what else keeps a GPU waiting, a text seldom says
    waits = flag(manager, "joined") is False and not runs
    if number(told(facts, "libcuda"), "cu_init") == NOT_READY or (waits and not _stated_alone(facts)):
        return True
    if flag(manager, "running") is not False or heard(facts, "fabric-nothing-to-do"):
        return bool(_waiting(facts)) and starts(facts) is False
    many = len(named) >= MANY and all(JOINED.search(gpu.name) for gpu in named)
    spoken = any(SWITCHED.search(one) for one in (*(gpu.name for gpu in named), *(one.line for one in facts.messages)))
    fails = starts(facts) is False or heard(facts, *NO_GPU)
    return from_text(facts) and (many or spoken or not named) and (many or fails)


def _stated_alone(facts: Facts) -> bool:
    """Return whether a text has the state of a fabric alone: nothing of the manager, and no program that fails."""
    spoken = any("fabric" in one and "manager" in one for one in facts.words)
    return from_text(facts) and not spoken and not heard(facts, *NO_GPU, *FABRIC_SAID[::3])


def _install(facts: Facts) -> Fix:
    """Return how the fabric manager of the driver's release is installed and started."""
    release = user_release(facts) or driver_release(facts)
    exact = f"{release}, exactly the driver's release," if release else "of the driver's release"
    packages = fixes.from_nvidia(facts, MANAGER, fixes.DRIVERS)
    if fixes.ubuntu(facts) and release:
        packages = (sh("sudo apt-get install nvidia-fabricmanager-{branch}", branch=BRANCH(release.branch)),)
    return fixes.advice(
        f"{fixes.place(facts)}Install the fabric manager {exact} and start it.",
        *packages,
        sh("sudo systemctl enable --now nvidia-fabricmanager"),
        verify=sh("systemctl is-active nvidia-fabricmanager"),
    )


def _side_by_side(facts: Facts) -> bool:
    """Return whether a person names the releases of both, and does not say that all is well."""
    parts = [facts.find(MANAGER), facts.find("nvidia-driver")]
    return all(one and one.source.endswith(IN_WORDS) for one in parts) and not heard(facts, *WELL, AT_WORK)


@rule("fabric-manager-version-mismatch", Layer.DRIVER, MANAGER)
def fabric_manager_version_mismatch(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Fabric manager and driver are different releases, so the fabric manager does not start.

    On machines whose GPUs are joined by NVSwitch, the fabric manager must be exactly the driver's release, down to the
    last number. It refuses any other, the fabric stays down, and CUDA reports error 802. That happens when only one of
    the two was updated, or when a new driver is installed and the old module is still in memory. Install the fabric
    manager of the driver's release, and keep both packages at the same release.
    """
    manager = DriverRelease.parse(version(facts, MANAGER))
    driver = driver_release(facts) or DriverRelease.parse(value(facts, "driver-named", "driver"))
    outright, down = heard(facts, MISMATCH), _fabric_refused(facts) or flag(told(facts, MANAGER), "running") is False
    down = down or _side_by_side(facts)
    if not outright and (manager is None or driver is None or manager == driver or not down):
        return
    row = matrix.cuda_codes.get(NOT_READY)
    yield fabric_manager_version_mismatch.finding(
        title=f"The fabric manager is {manager or 'a different release'}, but the driver is "
        + str("another release" if driver in {None, manager} else driver),
        detail="The fabric manager refuses to start with another release of the driver, the NVSwitch fabric stays "
        "down, and CUDA does not start (error 802).",
        confidence=Confidence.CERTAIN if outright else Confidence.LIKELY,
        because=(
            *grounds(facts, MISMATCH, *FABRIC_SAID, "fabric-manager-version"),
            *((because(facts, MANAGER, "version"),) if version(facts, MANAGER) else ()),
            *naming.of_driver(facts),
        ),
        row=row.row if row else None,
        fix=_install(facts),
    )


@rule(
    "fabric-manager-not-running",
    Layer.DRIVER,
    MANAGER,
    explained_by=("driver-library-mismatch", "fabric-manager-version-mismatch"),
)
def fabric_manager_not_running(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """The NVSwitch fabric is not ready, so CUDA refuses to start (error 802).

    On machines whose GPUs are joined by NVSwitch, the fabric manager must set the switches up before any CUDA program
    starts. It is not installed, not running, or not the driver's release. Install the driver's release of it and start
    it.
    """
    if not _fabric_refused(facts):
        return
    row, driver, names = matrix.cuda_codes.get(NOT_READY), naming.driver_name(facts, matrix), naming.gpu_names(facts)
    yield fabric_manager_not_running.finding(
        title=f"The NVSwitch fabric is not ready (CUDA error 802): the fabric manager {_state(facts)}",
        detail="On machines with NVSwitch, CUDA works only after the fabric manager has joined the GPUs."
        + (f" It must be of the driver's release: {driver}." if driver else "")
        + (f" GPU: {names}." if names else ""),
        because=(
            *(grounds(facts, *FABRIC_SAID) or (because(facts, "libcuda", "cu_init"),)),
            *(because_of(facts, "gpu", gpu.copy, "fabric", "state") for gpu in _waiting(facts)[:1]),
            *naming.of_driver(facts),
        ),
        row=row.row if row else None,
        fix=_install(facts),
    )


def _state(facts: Facts) -> str:
    """Return whether the fabric manager runs, in words; if unknown, what is usual on such a machine."""
    runs = flag(told(facts, MANAGER), "running")
    if runs:
        return "runs and has not joined the GPUs"
    if facts.host.container:
        return "must run on the host itself, which is not visible from this container"
    return "is not running" if runs is False or status(facts, MANAGER) is Status.ABSENT else "does not seem to run"
