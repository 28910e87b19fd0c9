"""Firmware: the GSP's, the board's and the BIOS's."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from gpustack.diagnose import fixes
from gpustack.diagnose.machine.events import because_said, faults, grounds, heard, said, value
from gpustack.diagnose.machine.intel import INTEL_GPU, name_of
from gpustack.diagnose.machine.inventory import (
    arch_on_bus,
    disk_release,
    driver_release,
    gpus,
    listed,
    on_windows,
    ours,
)
from gpustack.diagnose.machine.naming import (
    architecture,
    branch_of,
    cards,
    device,
    machine,
    more,
    release,
    whole,
    works,
)
from gpustack.diagnose.machine.values import because, because_of, copies, number, status, table, text, told
from gpustack.diagnose.rule import rule
from gpustack.matrix.subjects import drivers
from gpustack.matrix.subjects import gpus as products
from gpustack.matrix.subjects.ranges import numbers
from gpustack.model.command import GPU, NAME, PCI, sh
from gpustack.model.facts import Facts, Layer, Message, Status
from gpustack.model.report import Confidence, Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix


TIMEOUT, ERROR = 119, 120
RAN = "gsp-heartbeat"  # it had started, whatever failed after it
ADVICE = (
    "Reset the GPU, or switch the machine off and on; then update the driver. Before Blackwell, the "
    "proprietary module can do without GSP (NVreg_EnableGpuFirmware=0)."
)


@rule("gsp-timeout", Layer.DRIVER, "nvidia-driver", explained_by=("gpu-fell-off-bus",))
def gsp_timeout(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """The GPU's own processor for the driver's work (GSP) stopped answering.

    The driver gives much of its work to the GSP firmware on the GPU. Xid 119 or 120 says that it no longer answers:
    programs on that GPU hang or die, and often nvidia-smi as well. Reset the GPU or restart the machine, and update the
    driver: many such faults are fixed in newer releases.
    """
    stopped = said(facts, RAN)
    timeouts = said(facts, "gsp-rpc-timeout") if stopped or not heard(facts, "gsp-boot-failed") else ()
    for event in faults(facts, TIMEOUT, ERROR, spoken=(*stopped, *timeouts)):
        row, pci = matrix.xids.get(event.code), None if event.spoken else event.pci
        again = pci and listed(facts, pci) and number(told(facts, "nvml"), "code") == 0
        reset = sh("sudo nvidia-smi --gpu-reset -i {gpu}", gpu=GPU(pci)) if pci else sh("sudo nvidia-smi --gpu-reset")
        which = f"the GPU at {pci}" if pci else "a GPU"
        yield gsp_timeout.finding(
            instance=pci,
            severity=Severity.WARNING if again else Severity.ERROR,
            title=f"The GSP firmware of {which} stopped answering (Xid {event.code})",
            detail=machine(facts, matrix),
            because=(*event.grounds, *more(facts)),
            row=row.row if row else None,
            fix=fixes.advice(
                f"{fixes.place(facts)}{ADVICE}",
                reset,
                *fixes.driver(facts, matrix),
                root=True,
                reboot=True,
                verify=sh("nvidia-smi"),
            ),
        )


# Initialisation stopped at the firmware: RM_INIT_FIRMWARE_INIT_FAILED, whose number has grown by one in some releases.
# Source: open-gpu-kernel-modules src/nvidia/arch/nvalloc/unix/src/osinit.c.
FIRMWARE = frozenset({0x62, 0x63})


@rule(
    "gsp-firmware-regression",
    Layer.DRIVER,
    "nvidia-driver",
    from_messages=True,
    explained_by=(
        *("gpu-fell-off-bus", "gsp-timeout", "bios-bar-setting"),
        *("open-module-unsupported-gpu", "closed-module-unsupported-gpu"),
    ),
)
def gsp_firmware_regression(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """This release of the driver cannot start the GPU's GSP firmware.

    The driver hands much of its work to a processor on the GPU (GSP), whose firmware comes with the driver. If it does
    not start, the module loads and nvidia-smi lists no device. Often one driver release fails on one kind of GPU, and
    another release works. A state that an earlier driver left behind (WPR2 already up) goes when the machine is
    switched off.
    """
    failed = (
        *said(facts, "gsp-boot-failed"),
        *(one for one in said(facts, "rminit-failed") if (whole(one.values.get("status"), 16) in FIRMWARE)),
    )
    if not failed or works(facts) or heard(facts, RAN):
        return
    driver = release(facts)
    works_ = (found for one in said(facts, "release-works") if (found := one.values.get("driver")) and found != driver)
    well = max(works_, key=numbers, default=None)
    wanted = f"release {well}, which works" if well else "another release of the driver, the one before or a newer one"
    yield gsp_firmware_regression.finding(
        title=f"{f'Driver {driver}' if driver else 'The driver'} cannot start the GPU's GSP firmware"
        + (f"; {well} can" if well else ""),
        detail=machine(facts, matrix, "The GPU is on the bus, but its own processor does not start."),
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


@rule("xe-survivability-mode", Layer.HARDWARE, "intel-gpu")
def xe_survivability_mode(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """An Intel GPU is in survivability mode: its firmware did not start, and the kernel keeps it for repair only.

    The module xe enters this mode where the card says that it could not boot, or after an error of its firmware at run
    time. There is no display, no render node and nothing to compute on; the card responds just enough for its firmware
    to be rewritten. Flash the firmware with fwupd or the card maker's tool, and power-cycle the machine. If the mode
    was requested through configfs, undo that to leave it.
    """
    for copy in copies(facts, INTEL_GPU):
        held = table(copy.facts, "survivability")
        if not held:
            continue
        kind, words = text(held, "kind"), text(held, "words")
        when = {"boot": " since its start", "runtime": " since an error of its firmware"}.get(kind or "", "")
        yield xe_survivability_mode.finding(
            instance=copy.key,
            component=INTEL_GPU,
            title=f"{name_of(copy)} is in survivability mode{when}: its firmware must be rewritten",
            detail=f"The kernel says: {'; '.join(words.splitlines()[:4])}." if words else "Only root may read why.",
            because=(because_of(facts, INTEL_GPU, copy, "survivability"), because_of(facts, INTEL_GPU, copy, "driver")),
            fix=fixes.advice(
                "Rewrite the card's firmware, then switch the machine off and on.",
                sh("sudo cat /sys/bus/pci/devices/{gpu}/survivability_mode", gpu=PCI(copy.key)),
                sh("sudo fwupdmgr refresh && sudo fwupdmgr update"),
                reboot=True,
                verify=sh("ls /sys/bus/pci/devices/{gpu}/survivability_mode", gpu=PCI(copy.key)),
            ),
        )


SMALLEST = 0x1000_0000  # a GPU's window: 256 MiB and more; bridges and other devices ask for less
BAR_FAILS = (
    *("smi-no-devices", "nvml-not-loaded", "rminit-failed", "no-device", "no-nvidia-gpu", "gpu-lost"),
    *("module-out-said", "ze-no-devices", "rocm-tool-fails", "opencl-no-platform", "gpu-unused-said"),
)
HELPED = re.compile(
    r"4G[^.;]{0,40}\b(?:fix|solv|help|work)\w*|4G[^.]{0,40}\b(?:enabl|turn|switch)\w+[^.]{0,24}\b(?:works?|worked|fixe[sd]|helps|helped|solve[sd])\b|\b(?:fix|solv|help)\w*[^.;]{0,40}4G",
    re.IGNORECASE,
)
OFF = ("disabled", "off", "not", "missing")


@rule("bios-bar-setting", Layer.HARDWARE, "pci-display", from_messages=True)
def bios_bar_setting(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """The machine's firmware assigned no address space to the GPU's memory window (BAR).

    The driver reaches a GPU through windows in the machine's address space. Large ones lie above 4 GB, which the
    firmware must allow: "Above 4G Decoding", on many boards with "Resizable BAR". Without it the window stays
    unassigned (BAR1 is 0M) and the driver cannot start the GPU. Switch both on and CSM off; if the firmware has no such
    setting, pci=realloc may help.
    """
    invalid = said(facts, "bar-invalid")
    large = tuple(one for one in said(facts, "bar-no-space") if _large(one))
    setting = (*(one for one in said(facts, "bios-above-4g") if _decides(one)), *said(facts, "bar-small-said"))
    settled = setting if heard(facts, *BAR_FAILS) else tuple(one for one in setting if HELPED.search(one.line))
    settled = settled or (said(facts, "bios-above-4g") if heard(facts, "ailing-said") else ())
    if works(facts) or not (invalid or large or settled):
        return
    named = next(
        (f"{one.values['bar']} is {one.values.get('size', '0')}M" for one in invalid if "bar" in one.values), ""
    )
    sizes = next((f"{whole(one.values['size'], 16) >> 20} MiB" for one in large if one.values.get("size")), "")
    amd = any("amdgpu" in one.line for one in large)
    shown = named or (f"a window of {sizes} found no space" if sizes else "")
    yield bios_bar_setting.finding(
        title="The firmware has no room for the GPU's memory window (BAR)"
        + (f": {shown}" if shown else "")
        + "; Above 4G Decoding or Resizable BAR is off",
        detail=machine(facts, matrix),
        because=(
            *map(because_said, (*invalid, *large, *(settled or setting))[:5]),
            *grounds(facts, *BAR_FAILS, most=2),
            *more(facts),
        ),
        fix=fixes.advice(
            f"{fixes.place(facts)}In the machine's firmware (BIOS), turn on Above 4G Decoding and Resizable BAR "
            "and CSM off; update the firmware. If there is no such setting, boot the kernel with pci=realloc.",
            sh("sudo dmesg | grep -iE 'BAR|amdgpu'") if amd else sh("sudo dmesg | grep -iE 'BAR|nvrm'"),
            sh("lspci -vv -d {maker}: | grep -i region", maker=NAME("1002" if amd else "10de")),
            reboot=True,
            verify=sh("rocm-smi") if amd else sh("nvidia-smi"),
        ),
        confidence=Confidence.CERTAIN if invalid else Confidence.LIKELY,
    )


def _large(one: Message) -> bool:
    size = one.values.get("size")
    return size is None or whole(size, 16) >= SMALLEST


def _decides(one: Message) -> bool:
    """Return whether a line says that the setting is off, or that switching it on helped."""
    state = one.values.get("state", "").lower()
    return "setting" in one.values or state.startswith(OFF) or state.startswith(("enabling", "fix", "solv"))


SAID = ("legacy-gpu", "driver-ignores-gpu")
QUIET = frozenset({"driver-named", "driver-branch-named"})
LEGACY_FAILS = (
    *("smi-no-devices", "nvml-not-loaded", "no-device", "no-nvidia-gpu", "no-driver-found"),
    *("module-out-said", "legacy-gpu-said", "gpu-unused-said", "cuda-fails-said", "insufficient-driver"),
    *("module-no-device", "rminit-failed"),
)


@rule(
    "legacy-gpu-needs-older-branch",
    Layer.DRIVER,
    "nvidia-driver",
    explained_by=("open-module-unsupported-gpu", "compat-libs-803"),
)
def legacy_gpu_needs_older_branch(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """The installed driver no longer supports this GPU.

    Driver branches drop old architectures: Kepler ended with branch 470, Maxwell, Pascal and Volta with 580. The driver
    here is from a later branch: it loads and ignores the GPU. Install the last branch that supports it.
    """
    driver = driver_release(facts) or disk_release(facts)
    asked = number(told(facts, "nvml"), "code") is not None or status(facts, "nvml") is Status.ABSENT
    left = [copy for copy in ours(facts) if asked and driver and not listed(facts, copy.key)]
    seen = False
    for copy in left:
        arch = arch_on_bus(copy, matrix)
        span = matrix.span(arch) if arch else None
        if driver and span and span.last and span.last < driver.branch:
            seen = True
            why = (because_of(facts, "pci-display", copy, "device_id"), because(facts, "nvidia-driver", "version"))
            found = _legacy(f"{arch} GPU at {copy.key}", str(driver), span.last, facts, matrix)
            yield replace(found, instance=copy.key, because=(*why, *grounds(facts, *SAID)), row=span.row)
    if not seen and not works(facts):
        yield from _legacy_told(facts, matrix)


def _legacy(gpu: str, driver: str | None, last: int | None, facts: Facts, matrix: Matrix) -> Finding:
    return legacy_gpu_needs_older_branch.finding(
        title=f"{f'Driver {driver}' if driver else 'This driver'} no longer supports the {gpu}"
        + (f"; branch {last} (the {last}.xx legacy driver) is its last" if last else ""),
        detail=machine(facts, matrix),
        fix=fixes.change_driver(
            facts,
            matrix,
            f"Install branch {last} of the driver." if last else "Install the branch that the kernel's log names.",
            last,
        ),
    )


def _legacy_told(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Return the finding where the kernel says it, or a GPU is named that this branch has left and that fails."""
    driver, refused = release(facts), said(facts, "gpu-not-in-release")
    arch = (device(refused[0], matrix)[1] if refused else None) or architecture(facts, matrix)
    span = matrix.span(arch) if arch else None
    branches = (value(facts, kind, "branch", "branch2") for kind in ("legacy-gpu", "legacy-gpu-said"))
    last = next(filter(None, map(branch_of, branches)), None) or (span.last if span else _last_of_either(facts, matrix))
    left = last is not None and drivers.series_of(matrix, branch_of(driver) or 0) > last and not on_windows(facts)
    suspect = left and (heard(facts, *LEGACY_FAILS, "gpu-not-in-release") or _alone(facts, matrix))
    if not (heard(facts, *SAID) or suspect):
        return
    gpu = value(facts, "legacy-gpu", "gpu") or ", ".join(cards(facts, matrix)) or (f"{arch} GPU" if arch else "GPU")
    yield replace(
        _legacy(gpu, driver, last, facts, matrix),
        because=(
            *grounds(facts, *SAID),
            *map(because_said, refused[:1]),
            *grounds(facts, *LEGACY_FAILS, most=2),
            *more(facts),
        ),
        row=span.row if span and span.last == last else None,
        confidence=Confidence.CERTAIN if heard(facts, *SAID) else Confidence.LIKELY,
    )


def _alone(facts: Facts, matrix: Matrix) -> bool:
    """Return whether all that is known is one NVIDIA GPU and a driver: nothing else then is asked about."""
    others = facts.messages and any(one.kind not in QUIET for one in facts.messages)
    return len(gpus(facts)) == 1 and not others and not products.ambiguity_of(matrix, gpus(facts)[0].name)


def _last_of_either(facts: Facts, matrix: Matrix) -> int | None:
    """Return the last branch of a GPU whose name stands for two architectures: that of the newer one."""
    shared = (found for gpu in gpus(facts) if (found := products.ambiguity_of(matrix, gpu.name)))
    why = next((one.why for one in shared), "")
    ends = [span.last for span in map(matrix.span, re.findall(r"\b[A-Z][a-z]{4,}\b", why)) if span and span.last]
    newer = re.search("Turing|Ampere|Ada|Blackwell", why)
    return None if newer else max(ends, default=None)


# Branches between the first that supports an architecture and one that surely knows all of its products.
ALL_KNOWN = 30


@rule(
    "vgpu-guest-driver-missing",
    Layer.DRIVER,
    "nvidia-driver",
    from_messages=True,
    explained_by=("open-module-unsupported-gpu", "legacy-gpu-needs-older-branch", "driver-too-old-for-gpu"),
)
def vgpu_guest_driver_missing(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """This machine has a virtual GPU (vGPU), and the driver in it is one for real GPUs.

    A hypervisor with NVIDIA's vGPU software gives its virtual machines slices of a GPU, under the PCI numbers of the
    real one. Only the guest driver of that software (GRID) knows them: the usual driver says that the GPU is not
    supported by its release, although it supports the real one. Install the guest driver that goes with the vGPU
    manager on the host, and its licence; or pass the whole GPU through.
    """
    refused, driver = said(facts, "gpu-not-in-release"), branch_of(release(facts))
    arch = device(refused[0], matrix)[1] if refused else None
    span = matrix.span(arch) if arch else None
    virtual = heard(facts, "vm-named")
    if span is None or driver is None or not (span.first or 0) <= driver <= (span.last or driver) or works(facts):
        return
    known = driver - (span.first or 0) >= ALL_KNOWN
    if not (virtual or known):
        return
    yield vgpu_guest_driver_missing.finding(
        title=f"Driver {release(facts)} supports {arch} GPUs and refuses this one, as it does a virtual GPU (vGPU)",
        detail=machine(facts, matrix),
        because=(*map(because_said, refused[:1]), *grounds(facts, "vm-named", most=1)),
        row=span.row,
        fix=fixes.advice(
            f"{fixes.place(facts)}Install the vGPU guest driver that goes with the host's vGPU manager, in place of "
            "this one; with a GPU that is passed through whole, check the host.",
            sh("lspci -nnk -d 10de:"),
            verify=sh("nvidia-smi"),
        ),
        confidence=Confidence.LIKELY if virtual and known else Confidence.POSSIBLE,
    )
