"""What runs on a GPU and what holds it back: processes, heat and power."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpustack.diagnose import fixes
from gpustack.diagnose.machine import amd, processes
from gpustack.diagnose.machine.events import because_said, faults, faults_of_programs, grounds, heard, said
from gpustack.diagnose.machine.inventory import PASSED_ON, gpus, loaded_release, on_bus, user_release
from gpustack.diagnose.machine.naming import machine, more, whole
from gpustack.diagnose.machine.values import at, because_of, flag, items, number, table, text
from gpustack.diagnose.rule import rule
from gpustack.model.command import GPU, PCI, PID, Command, sh, step
from gpustack.model.facts import Facts, Instance, JsonValue, Layer
from gpustack.model.report import Because, Confidence, Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.diagnose.machine.amd import AmdGpu
    from gpustack.matrix import Matrix


WIDTHS = frozenset({1, 2, 4, 8, 12, 16})
FEW = 4  # a link on this many times fewer lanes is no board's design
SERVERS = "Instinct"
SENSORS = ("junction", "memory", "edge")


def memory(facts: Facts) -> Iterator[Finding]:
    """Return each GPU that counts uncorrectable errors, or has taken pages out of use."""
    told: set[str] = set()
    for gpu in amd.gpus(facts):
        grave, pages = (number(gpu.copy.facts, "ras", name) or 0 for name in ("uncorrected", "bad_pages"))
        # Errors are counted for the whole device, not for a partition of it.
        place = str(at(gpu.copy.facts, "pci") or gpu.mark)
        if (not grave and not pages) or place in told:
            continue
        told.add(place)
        yield Finding(
            id="gpu-ecc-error",
            instance=place,
            severity=Severity.ERROR if grave else Severity.WARNING,
            layer=Layer.HARDWARE,
            component="amd-gpu",
            title=f"{gpu.title} at {place} has {grave} uncorrectable errors (RAS)"
            if grave
            else f"{gpu.title} at {place} has taken {pages} pages of its memory out of use",
            detail=_blocks(table(gpu.copy.facts, "ras", "blocks")),
            because=tuple(
                because_of(facts, "amd-gpu", gpu.copy, "ras", name)
                for name, count in (("uncorrected", grave), ("blocks", grave), ("bad_pages", pages))
                if count
            ),
            fix=fixes.advice(
                "Stop its programs and reset it, or restart the machine. If errors come back, have the board replaced.",
                sh("amd-smi list"),
                step("with its index in that list: `sudo amd-smi reset --gpureset --gpu INDEX`"),
                sh("amd-smi bad-pages"),
                verify=sh("amd-smi metric --ecc"),
            ),
        )


def heat(facts: Facts) -> Iterator[Finding]:
    """Return each GPU that is at the limit where it slows itself down."""
    for gpu in amd.gpus(facts):
        for sensor in SENSORS:
            now, most = (_degrees(gpu, sensor + tail) for tail in ("_c", "_limit_c"))
            if now is None or not most or now < most:
                continue
            yield gpu_overheat.finding(
                instance=gpu.mark,
                component="amd-gpu",
                title=f"{gpu.title} at {gpu.mark} is too hot: {sensor} {now:.0f} C, limit {most:.0f} C",
                because=(
                    because_of(facts, "amd-gpu", gpu.copy, "temperature", sensor + "_c"),
                    because_of(facts, "amd-gpu", gpu.copy, "temperature", sensor + "_limit_c"),
                ),
                fix=fixes.advice(
                    "Cool it: check fans, airflow, dust, thermal paste and the room; in a server, the fan profile.",
                    sh("rocm-smi --showtemp --showfan"),
                    verify=sh("rocm-smi --showtemp"),
                ),
            )
            break


def link(facts: Facts) -> Iterator[Finding]:
    """Return each card on fewer lanes than both ends of one stretch of its way to the processor have.

    The speed of an idle link falls on purpose and is not a fault.
    """
    integrated = {gpu.mark for gpu in amd.gpus(facts) if gpu.integrated}
    servers = {gpu.mark for gpu in amd.gpus(facts) if SERVERS in gpu.name}
    for copy in on_bus(facts, "amd"):
        driver = at(copy.facts, "driver")
        found = None if copy.key in integrated or driver is None or driver in PASSED_ON else _narrow(copy)
        if found:
            place, width, most = found
            yield Finding(
                id="pcie-link-degraded",
                instance=copy.key,
                severity=Severity.WARNING if copy.key in servers or width * FEW <= most else Severity.INFO,
                layer=Layer.HARDWARE,
                component="pci-display",
                title=f"The GPU at {copy.key} runs on {width} of {most} PCI Express lanes",
                because=(Because(component="pci-display", fact="link", value=f"{place}: {width}", source="sysfs"),),
                fix=fixes.advice(
                    "Switch the machine off, reseat the card and its riser, and check the slot's setting in "
                    "the firmware.",
                    sh("sudo lspci -vv -s {place} | grep -i lnk", place=PCI(place)),
                    verify=sh("gpustack doctor"),
                ),
            )


def _narrow(copy: Instance) -> tuple[str, int, int] | None:
    """Return place, lanes and most lanes of the first stretch that is narrower than both its ends.

    The way has a stretch for each two devices: the GPU and the port below it, then that port's switch and the next.
    """
    bridges = at(copy.facts, "bridges")
    way: list[tuple[str, JsonValue]] = [(copy.key, at(copy.facts, "link"))]
    way += [(str(at(one, "pci")), one) for one in bridges] if isinstance(bridges, tuple) else []
    for (place, near), (_, far) in zip(way[::2], way[1::2], strict=False):
        width, ends = number(near, "width"), [number(end, "max_width") for end in (near, far)]
        known = [end for end in ends if end in WIDTHS]
        most = min(known) if len(known) == len(ends) else 0
        if width in WIDTHS and width < most:
            return place, width, most
    return None


def _degrees(gpu: AmdGpu, name: str) -> float | None:
    value = at(gpu.copy.facts, "temperature", name)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _blocks(said: object) -> str:
    held = said if isinstance(said, dict) else {}
    named = [f"{block}: {table(counts).get('ue')}" for block, counts in held.items() if table(counts).get("ue")]
    return f"Counted since the driver was loaded, by block: {', '.join(named)}." if named else ""


OFF, OWN_LIMIT = "machine-gone-said", ("running too hot", "limit on gpu")
GONE = ("fallen-off-bus", "gpu-lost", "pcie-dead", "gpu-vanishes")
DENIED = re.compile(
    r"\b(?:no|not|never|isn't|wasn't|aren't|without|rul(?:es?|ed|ing) out|incorrectly|wrongly|falsely)\b[^.;\n]{0,40}"
    r"(?:overheat|hot\b|therm|temperature|throttl)"
    r"|\b(?:if|whenever|should)\b[^.;\n]{0,40}(?:exceed|overheat|throttl|reach|hot\b)",
    re.IGNORECASE,
)
LIMIT = 100  # °C: above what any part of a GPU has in operation
COOL, MILD = 54, 80  # °C: no memory of a GPU is at its limit then, and no part of one, whatever a program's own limit
ADVICE = "Cool it: check fans, airflow, dust, thermal paste and the room; in a server, the fan profile."


@rule("gpu-overheat", Layer.HARDWARE, "gpu", Severity.WARNING)
def gpu_overheat(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """A GPU slows itself down because it is too hot.

    The driver or the hardware holds the clocks back to keep the GPU below its limit, so programs run slower than they
    could. Check fans, airflow, dust and the room temperature; in a server, also the fan profile.
    """
    yield from heat(facts)
    spoken = max((whole(one.values.get("celsius")) for one in said(facts, "degrees-told")), default=0)
    told = [spoken, *(number(gpu.copy.facts, "temperature", "gpu_c") or 0 for gpu in gpus(facts))]
    # When cool, what the driver calls a thermal slowdown is about something else.
    needless = {"slowdown": 0 < max(told) <= COOL, **dict.fromkeys(OWN_LIMIT, 0 < spoken <= MILD)}
    hot = [one for one in said(facts, "overheat") if not DENIED.search(one.line)]
    hot = [one for one in hot if not any(words in one.line.lower() and no for words, no in needless.items())]
    lost = heard(facts, *GONE) or any(event.spoken for event in faults(facts, 79))
    gone, least = lost or heard(facts, OFF), 0 if heard(facts, OFF) else LIMIT
    told_of = [one for one in said(facts, "temperature-told") if gone and whole(one.values.get("celsius")) >= least]
    degrees = (*said(facts, "gpu-hot"), *told_of)
    if not hot and not (degrees and gone):
        return
    most = max((whole(one.values.get("celsius")) for one in degrees), default=0)
    because: list[Because] = [because_said(one) for one in (*hot[:3], *degrees[:2])]
    yield gpu_overheat.finding(
        severity=Severity.ERROR if gone else Severity.WARNING,
        component="gpu",
        title="A GPU is too hot" + (f" ({most} °C)" if most else "") + _end(lost=lost, gone=gone),
        detail=machine(facts, matrix, "At its temperature limit a GPU cuts its clocks, then shuts down."),
        because=(*because, *grounds(facts, *GONE, OFF, most=2), *more(facts)),
        fix=fixes.advice(ADVICE, sh("nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER"), verify=sh("nvidia-smi")),
    )


def _end(*, lost: bool, gone: bool) -> str:
    """Return what came of the heat, in words."""
    if lost:
        return ", and fell off the bus because of it"
    return ", and shut down because of it" if gone else " and throttles itself (thermal)"


ENDED, INIT = "ended", 1
LOG = sh("sudo dmesg | grep -iE 'xid|nvrm|amdgpu|blocked for more'")
NODES = sh("sudo fuser -v /dev/nvidia* /dev/kfd /dev/dri/*")


@rule(
    "gpu-process-stuck",
    Layer.APPLICATION,
    "gpu-processes",
    Severity.WARNING,
    explained_by=("gpu-fell-off-bus", "gsp-timeout", "gpu-ecc-error", "gpu-recovery-needed", "nvlink-error"),
)
def gpu_process_stuck(facts: Facts, matrix: Matrix) -> Iterator[Finding]:  # noqa: ARG001 - every rule is asked alike
    """A process that cannot end is on the GPU: it has ended and its memory is still held, or it waits in the driver.

    A process that has ended keeps its GPU memory as long as something still has its files open: a child process that is
    still running, or a thread that is stuck in the driver. One that waits in the driver (state D) cannot be killed;
    most often the GPU or its firmware has stopped responding. End the child processes, or the parent that does not reap
    it; read the kernel's log; the last resort is a GPU reset or a restart.
    """
    for copy in processes.processes(facts):
        stuck = table(copy.facts, "stuck")
        if text(stuck, "how") == ENDED:
            yield _ended(facts, copy)
        elif stuck:
            yield _waits(facts, copy)


def _ended(facts: Facts, copy: Instance) -> Finding:
    """Return the finding for one that has ended; its memory is lost only where the driver still counts some."""
    used = number(copy.facts, "used_mib")
    heirs = [one for one in items(copy.facts, "stuck", "heirs") if isinstance(one, int)]
    parent = number(copy.facts, "parent")
    held = f" and still holds {used} MiB" if used else ""
    end = [sh("kill {heirs}", heirs=tuple(map(PID, heirs)))] if heirs else []
    if parent and parent != INIT:
        end.append(sh("kill -CHLD {parent}", parent=PID(parent)))
    left = f" Of its group, these still have a GPU's device node open: {', '.join(map(str, heirs))}." if heirs else ""
    return gpu_process_stuck.finding(
        instance=str(processes.pid(copy)),
        severity=Severity.ERROR if used else Severity.WARNING,
        component=processes.PROCESSES,
        title=f"{processes.named(copy)} has ended{held} on the GPU",
        detail=f"It is a zombie (state Z), and the driver still lists it.{left}",
        because=_grounds(facts, copy),
        fix=fixes.advice(
            "End what it left running; if nothing is left and the memory stays in use, end all programs on that "
            "GPU "
            "and reset it, or restart the machine.",
            *end,
            NODES,
            *_reset(copy),
            root=True,
            verify=sh("nvidia-smi"),
        ),
        confidence=Confidence.CERTAIN if used else Confidence.LIKELY,
    )


def _waits(facts: Facts, copy: Instance) -> Finding:
    """Return the finding for one that waits in the driver and got no further meanwhile."""
    where = text(copy.facts, "stuck", "where") or "the driver"
    return gpu_process_stuck.finding(
        instance=str(processes.pid(copy)),
        component=processes.PROCESSES,
        title=f"{processes.named(copy)} waits in the driver ({where}) and cannot be ended",
        detail="A thread of it is in uninterruptible sleep (state D) there, and it used no processor time while we "
        "watched. It may recover; if not, the GPU or its firmware has stopped responding.",
        because=_grounds(facts, copy),
        fix=fixes.advice(
            "Check whether it makes progress, and what the kernel says. If it stays, no signal ends it: "
            "restart the machine.",
            sh("sudo cat /proc/{pid}/stack", pid=PID(processes.pid(copy))),
            LOG,
            step("if it stays: `sudo reboot`"),
            reboot=True,
            verify=sh("nvidia-smi"),
        ),
        confidence=Confidence.POSSIBLE,
    )


def _grounds(facts: Facts, copy: Instance) -> tuple[Because, ...]:
    return tuple(because_of(facts, processes.PROCESSES, copy, name) for name in ("state", "stuck", "used_mib", "gpus"))


def _reset(copy: Instance) -> tuple[Command, ...]:
    """Return the command that resets the GPU it is on, where that is one of NVIDIA's with a known number."""
    rows = items(copy.facts, "gpus")
    indices = [number(row, "index") for row in rows if text(row, "vendor") == "nvidia"]
    known = (GPU(index) for index in dict.fromkeys(indices) if index is not None)
    return tuple(sh("sudo nvidia-smi --gpu-reset -i {gpu}", gpu=gpu) for gpu in known)


MOST_GROUNDS, MOST_COMMANDS = 4, 8


@rule(
    "process-on-deleted-driver",
    Layer.APPLICATION,
    "gpu-processes",
    Severity.WARNING,
    explained_by=("driver-library-mismatch",),
)
def process_on_deleted_driver(facts: Facts, matrix: Matrix) -> Iterator[Finding]:  # noqa: ARG001 - every rule is asked alike
    """A process on the GPU uses a driver library whose file has been deleted: the driver was replaced while it ran.

    A package update replaces the files, and programs that were already running keep using the old ones. That works
    until one of them loads another library of the driver, which then belongs to a different release; and as long as it
    runs, the old kernel module cannot be unloaded. Restart the process.
    """
    found = [copy for copy in processes.processes(facts) if processes.releases(copy)]
    if not found:
        return
    old = " and ".join(dict.fromkeys(release for copy in found for release in processes.releases(copy)))
    installed, loaded = user_release(facts), loaded_release(facts)
    now = f" Installed now is {installed}." if installed else ""
    module = f" The module in memory is {loaded}." if loaded else ""
    many = "A process runs" if len(found) == 1 else f"{len(found)} processes run"
    yield process_on_deleted_driver.finding(
        component=processes.PROCESSES,
        title=f"{many} on deleted files of driver {old}",
        detail=f"{processes.listed(found)}. The driver's files were replaced after the start.{now}{module}",
        because=tuple(because_of(facts, processes.PROCESSES, copy, "gone") for copy in found[:MOST_GROUNDS]),
        fix=fixes.advice(
            "Restart each of them when its work allows it.",
            *tuple(dict.fromkeys(map(processes.restart, found)))[:MOST_COMMANDS],
            verify=sh("gpustack doctor"),
        ),
    )


# What a program says of its own work, by the kind of message.
OWN_FAULTS = {
    "program-out-of-memory": "The program needs more GPU memory than is free; driver and framework are not at fault",
    "program-shapes": "The program combines tensors whose shapes do not fit; driver and framework are not at fault",
    "program-address": "A program used an address on an AMD GPU that is not mapped",
    "program-assert": "A kernel of the program failed an assertion (an index or value out of range)",
    "program-limits": "A kernel of the program asks for more than this GPU has, or ran too long for its display",
    "program-build": "The program's device code calls a function that was not linked into it",
    "program-devices": "The program mixes tensors on different devices; driver and framework are not at fault",
    "program-forks": "The program uses CUDA in a process that was forked after CUDA had started",
}


@rule("application-fault", Layer.APPLICATION, "kernel-log", Severity.INFO)
def application_fault(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """A program on a GPU failed because of its own fault; the stack is fine.

    The driver writes an Xid for faults of programs too: an address that is not mapped (31), an illegal instruction or
    index (13), and what follows when such a program ends (43, 45). Running out of memory, mismatched tensor shapes and
    failed assertions are the program's own faults as well. Neither GPU nor driver is at fault. Run the program under
    compute-sanitizer; test the GPU only if it fails with many programs that work elsewhere.
    """
    for kind, what in OWN_FAULTS.items():
        if heard(facts, kind):
            yield application_fault.finding(instance=kind, title=what, because=grounds(facts, kind, most=2))
    for event in faults_of_programs(facts):
        known = matrix.xids.get(event.code)
        name = f" ({known.name})" if known else ""
        times = f", {event.count} times" if event.count > 1 else ""
        program = f"The program {event.process}" if event.process else "A program"
        yield application_fault.finding(
            instance=event.pci,
            title=f"{program} failed on the GPU at {event.pci}: Xid {event.code}{name}{times}",
            detail=f"{known.meaning}; {known.advice}." if known and known.advice else "",
            because=(event.because,),
            row=known.row if known else None,
        )


STARTS, SLOW = ("nvmlInit", "cuInit"), 2.0  # seconds; with persistence both take less than one


@rule("persistence-mode-off", Layer.DRIVER, "nvidia-driver", Severity.INFO)
def persistence_mode_off(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """The driver releases the GPUs when no program uses them, so every start takes seconds.

    Without persistence the driver initialises each GPU again when the first program starts, and shuts it down after the
    last. It shows here: NVML or CUDA took long to start. On servers, run nvidia-persistenced; on desktops with a screen
    on the GPU nothing needs doing.
    """
    off = [gpu for gpu in gpus(facts) if flag(gpu.copy.facts, "persistence") is False]
    asked = facts.components if off else ()
    calls = [(one.id, call) for one in asked for call in one.calls if call.name.startswith(STARTS)]
    slow = [(component, call) for component, call in calls if call.seconds >= SLOW]
    if not off or not slow:
        return
    component, call = max(slow, key=lambda one: one[1].seconds)
    yield persistence_mode_off.finding(
        title=f"Persistence is off, and starting the driver took {call.seconds:.1f} s",
        because=(
            because_of(facts, "gpu", off[0].copy, "persistence"),
            Because(component=component, fact="calls", value=f"{call.name}: {call.seconds:.1f} s", source=component),
        ),
        fix=fixes.advice(
            f"{fixes.place(facts)}Run nvidia-persistenced.",
            sh("sudo systemctl enable --now nvidia-persistenced"),
            verify=sh("nvidia-smi --query-gpu=persistence_mode --format=csv"),
        ),
    )
