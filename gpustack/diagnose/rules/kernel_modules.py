"""Which kernel module holds the GPU, and which must: nouveau, nova, NVIDIA's open and closed ones."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from gpustack.diagnose import fixes
from gpustack.diagnose.machine.events import because_said, grounds, heard, said
from gpustack.diagnose.machine.frameworks import embedded
from gpustack.diagnose.machine.inventory import (
    PASSED_ON,
    arch_on_bus,
    disk_release,
    driver_works,
    from_text,
    listed,
    loaded_release,
    nvidia_here,
    on_bus,
    ours,
    user_release,
)
from gpustack.diagnose.machine.naming import (
    architecture,
    cards,
    device,
    is_open,
    machine,
    more,
    newer_than_driver,
    works,
)
from gpustack.diagnose.machine.values import because, because_of, flag, number, status, text, texts, told
from gpustack.diagnose.rule import Rule, rule
from gpustack.diagnose.rules import MODULE_STAYS_OUT
from gpustack.model.command import MODULE, sh
from gpustack.model.facts import Facts, Instance, Layer, Status
from gpustack.model.report import Because, Confidence, Finding, Fix, Row, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix


# NVIDIA's module was refused before it could ask for the GPU: the other driver is there for that.
REFUSED = ("module-key-rejected", "module-unsigned", "module-lockdown")


def _held(record: Rule, driver: str, name: re.Pattern[str], facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Return the finding where this driver holds a GPU, or is there while NVIDIA's is not at work, or is said to be."""
    if heard(facts, *REFUSED):
        return
    held = [copy for copy in ours(facts) if name.match(text(copy.facts, "driver") or "")]
    bound = any(text(copy.facts, "driver") == "nvidia" for copy in ours(facts))
    module = told(facts, "nvidia.ko")
    rivals = [one for one in texts(module, "competitors") if name.match(one) and not flag(module, "loaded")]
    given_on = any(text(copy.facts, "driver") in PASSED_ON for copy in on_bus(facts, "nvidia"))
    named, unnamed = SAID[driver]
    holder = (one for one in said(facts, "gpu-bound-to") if name.match(one.values.get("driver", "")))
    written = () if bound or given_on or works(facts) else (*said(facts, *named), *holder)
    others = heard(facts, *named, "gpu-bound-to", *(kind for one in SAID.values() for kind in one[0]))
    guessed = () if bound or given_on or works(facts) or others else said(facts, *unnamed)
    if not (held or rivals or written or guessed):
        return
    where = f" at {', '.join(copy.key for copy in held)}" if held else ""
    yield record.finding(
        severity=Severity.WARNING if bound else Severity.ERROR,
        title=f"{driver} holds the NVIDIA GPU{where}, so NVIDIA's driver cannot",
        detail=machine(facts, matrix, "Only one driver can hold a GPU, and CUDA needs NVIDIA's."),
        because=(
            *(because_of(facts, "pci-display", copy, "driver") for copy in held),
            *([because(facts, "nvidia.ko", "competitors")] if rivals else []),
            *map(because_said, (*written, *guessed)[:4]),
            *more(facts),
        ),
        fix=_holder_fix(driver, facts),
        confidence=Confidence.CERTAIN if held or rivals or written else Confidence.LIKELY,
    )


NOUVEAU = sh("printf 'blacklist nouveau\\noptions nouveau modeset=0\\n' | sudo tee /etc/modprobe.d/no-nouveau.conf")
BLACKLIST = "printf 'blacklist %s\\n' {driver} | sudo tee /etc/modprobe.d/no-{name}.conf"


def _holder_fix(driver: str, facts: Facts) -> Fix:
    return fixes.rebuild(
        facts,
        f"Keep {driver} from being loaded (blacklist it), rebuild the initramfs, and restart.",
        NOUVEAU if driver == "nouveau" else sh(BLACKLIST, driver=MODULE(driver), name=MODULE(driver.partition("_")[0])),
        fixes.initramfs(facts),
    )


# What says that a driver holds the GPU: by its name, and without any name, which is nouveau as a rule.
SAID = {
    "nouveau": (("probe-conflict-nouveau", "nouveau-in-use"), ("probe-not-called", "nouveau-said")),
    "nova_core": (("nova-in-use", "nova-said"), ()),
}
NOUVEAU_NAME = re.compile(r"nouveau\b")
NOVA_NAME = re.compile(r"nova([-_]?(core|drm))?\b", re.IGNORECASE)  # the kernel names its driver NovaCore


@rule(
    "nouveau-loaded", Layer.KERNEL_MODULE, "nvidia.ko", explained_by=("nvidia-driver-missing", "dkms-headers-missing")
)
def nouveau_loaded(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """nouveau, the kernel's own driver for NVIDIA GPUs, holds the GPU.

    Only one driver can hold a GPU. While nouveau does, NVIDIA's module finds no device, and CUDA does not work. Keep
    nouveau from being loaded, rebuild the initramfs (it is loaded from there), and restart.
    """
    yield from _held(nouveau_loaded, "nouveau", NOUVEAU_NAME, facts, matrix)


@rule("nova-loaded", Layer.KERNEL_MODULE, "nvidia.ko", explained_by=("nvidia-driver-missing",))
def nova_loaded(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """nova, the kernel's new driver for NVIDIA GPUs, holds the GPU.

    Only one driver can hold a GPU. nova (nova_core, nova_drm) cannot run CUDA, and while it holds the GPU, NVIDIA's
    module finds no device. Keep it from being loaded, rebuild the initramfs, and restart.
    """
    yield from _held(nova_loaded, "nova_core", NOVA_NAME, facts, matrix)


GONE = frozenset({Status.ABSENT, Status.NOT_APPLICABLE})


@rule(
    "nvidia-driver-missing",
    Layer.DRIVER,
    "nvidia-driver",
    explained_by=("container-no-gpus-flag", "container-toolkit-missing", "docker-snap"),
)
def nvidia_driver_missing(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """There is an NVIDIA GPU but no NVIDIA driver.

    The GPU is on the PCI bus, but neither the kernel module nor the driver's libraries are installed, so no program can
    use it. Install the driver that your distribution or NVIDIA offers for it, and restart. An old GPU needs an old
    branch.
    """
    here = ours(facts)
    if not here or not missing(facts):
        return
    copy = here[0]
    arch = arch_on_bus(copy, matrix)
    span = matrix.span(arch) if arch else None
    yield nvidia_driver_missing.finding(
        title=f"There is an NVIDIA GPU ({_name(copy, arch)}) but no NVIDIA driver",
        detail="Neither the kernel module nor the driver's libraries were found, so no program can use the GPU.",
        because=(
            because_of(facts, "pci-display", copy, "device_id"),
            because_of(facts, "pci-display", copy, "driver"),
            because(facts, "nvidia.ko", "loaded"),
        ),
        row=_row(span.row if span else None, last=span.last if span else None),
        fix=_missing_fix(facts, matrix, span.last if span else None),
    )


def missing(facts: Facts) -> bool:
    """Return whether neither the module nor the driver's libraries are here, both having been looked for."""
    module, driver = status(facts, "nvidia.ko"), status(facts, "nvidia-driver")
    bound = any(text(copy.facts, "driver") == "nvidia" for copy in ours(facts))
    loaded = flag(told(facts, "nvidia.ko"), "loaded") or bound
    gone = (module in GONE and driver in GONE) or (heard(facts, "smi-missing") and heard(facts, "module-not-found"))
    return gone and not (loaded or user_release(facts) or driver_works(facts))


def _name(copy: Instance, arch: str | None) -> str:
    device = f"10de:{(text(copy.facts, 'device_id') or '0x????')[2:]}"
    return f"{arch}, {device} at {copy.key}" if arch else f"{device} at {copy.key}"


def _row(row: Row | None, last: int | None) -> Row | None:
    return row if last else None


def _missing_fix(facts: Facts, matrix: Matrix, last: int | None) -> Fix:
    branch = f"branch {last}, the last that runs this GPU" if last else "which also blocks nouveau"
    return fixes.change_driver(facts, matrix, f"Install NVIDIA's driver, {branch}, and restart.", last)


@rule("nvidia-module-not-loaded", Layer.KERNEL_MODULE, "nvidia.ko", explained_by=MODULE_STAYS_OUT)
def nvidia_module_not_loaded(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """NVIDIA's kernel module is not loaded.

    The driver's libraries are here, but the module that they talk to is not in memory: it was not built for the running
    kernel, something blocks it, or nothing has loaded it. CUDA does not work until it is loaded. Load it and read what
    the kernel says; if it is not on disk for this kernel, build it.
    """
    if not nvidia_here(facts) or not out(facts) or missing(facts):
        return
    blocked = texts(told(facts, "nvidia.ko"), "blacklisted")
    unbuilt = not on_disk(facts) and (not from_text(facts) or heard(facts, "module-not-found"))
    yield nvidia_module_not_loaded.finding(
        title="NVIDIA's kernel module is not loaded" + " and not built for this kernel" * unbuilt,
        detail=f"{' and '.join(blocked)} keep it from being loaded." if blocked else "",
        because=(
            because(facts, "nvidia.ko", "loaded"),
            because(facts, "nvidia.ko", "path"),
            because(facts, "linux-kernel", "release"),
        ),
        # A text seldom says why: a build that failed, a key, another driver.
        confidence=Confidence.LIKELY if from_text(facts) and not blocked else Confidence.CERTAIN,
        fix=_unloaded_fix(facts, blocked),
    )


BESIDE = ("nodes", "flavour_on_disk", "flavour")


def out(facts: Facts) -> bool:
    """Return whether the module was looked for and is not in memory, and nothing shows it at work anyway.

    WSL has none: Windows drives the GPU. A Jetson's has another name (nvgpu). Some sandboxes do not show the modules of
    the machine below them.
    """
    looked = status(facts, "nvidia.ko") in {Status.PRESENT, Status.ABSENT, Status.NOT_APPLICABLE}
    module = told(facts, "nvidia.ko")
    if from_text(facts) and flag(module, "loaded") is None and any(name in module for name in BESIDE):
        return False  # only its device nodes were listed, its file was asked, or its package named
    bound = any(text(copy.facts, "driver") == "nvidia" for copy in ours(facts))
    loaded = flag(module, "loaded") or loaded_release(facts) is not None
    return looked and not (bound or loaded or driver_works(facts) or facts.host.wsl or embedded(facts))


def on_disk(facts: Facts) -> bool:
    """Return whether the module lies on disk for the running kernel."""
    return disk_release(facts) is not None or text(told(facts, "nvidia.ko"), "path") is not None


def _unloaded_fix(facts: Facts, blocked: tuple[str, ...]) -> Fix:
    if blocked:
        return fixes.rebuild(
            facts,
            f"Remove the lines about nvidia from {' and '.join(blocked)}, rebuild the initramfs, and restart.",
            fixes.initramfs(facts),
        )
    if on_disk(facts):
        return fixes.advice(
            f"{fixes.place(facts)}Load it; if that fails, the last lines of the kernel log say why.",
            sh("sudo modprobe nvidia"),
            sh("sudo dmesg | tail -n 40"),
            verify=sh("nvidia-smi"),
        )
    return fixes.rebuild(
        facts,
        f"Build it for kernel {fixes.kernel(facts)}, or boot a kernel that has it.",
        fixes.headers(facts),
        sh("sudo dkms autoinstall -k {kernel}", kernel=fixes.kernel(facts)),
    )


OPEN_SAID = ("open-module-unsupported", "open-module-needs-gsp")
FAILS = (
    *("smi-no-devices", "nvml-not-loaded", "no-device", "no-nvidia-gpu", "rminit-failed"),
    *("module-out-said", "gpu-unused-said", "cuda-fails-said", "module-no-device"),
    "card-unsupported-said",
)
DATA_CENTER = "open-module-data-center"
OPTION = sh("echo options nvidia NVreg_OpenRmEnableUnsupportedGpus=1 | sudo tee /etc/modprobe.d/nvidia-open.conf")


@rule("open-module-unsupported-gpu", Layer.KERNEL_MODULE, "nvidia.ko")
def open_module_unsupported_gpu(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """The open kernel module does not support this GPU.

    NVIDIA's open kernel module needs the GSP processor, which came with Turing. On a Maxwell, Pascal or Volta GPU only
    the proprietary module works, and its last branch is 580. Install that flavour.
    """
    refused = sorted(said(facts, *OPEN_SAID), key=lambda one: "id" not in one.values)
    seen = False
    for copy in ours(facts):
        arch = arch_on_bus(copy, matrix)
        flavour = matrix.flavour(arch) if arch else None
        opened = refused or text(told(facts, "nvidia.ko"), "flavour") == "open"
        if arch and flavour and flavour.open == "impossible" and opened and not listed(facts, copy.key):
            seen = True
            of_both = because(facts, "nvidia.ko", "flavour"), because_of(facts, "pci-display", copy, "device_id")
            grounds_ = (*of_both, *map(because_said, refused[:1]))
            found = _open_finding(f"{arch} GPU at {copy.key}", arch, grounds_, facts, matrix)
            yield replace(found, instance=copy.key)
    if seen or works(facts):
        return
    named, arch = device(refused[0], matrix) if refused else ("", None)
    arch = arch or architecture(facts, matrix)
    flavour = matrix.flavour(arch) if arch else None
    impossible = flavour is not None and flavour.open == "impossible"
    suspect = impossible and is_open(facts) and bool(said(facts, *FAILS, "ailing-said"))
    one = named or ", ".join(cards(facts, matrix)) or "this GPU"
    if (refused and (impossible or not flavour)) or (suspect and not refused):
        why = (*map(because_said, refused[:3]), *grounds(facts, *FAILS, "open-module-named", most=3), *more(facts))
        found = _open_finding(one, arch, why, facts, matrix)
        yield replace(found, confidence=Confidence.CERTAIN if refused else Confidence.LIKELY)
    if heard(facts, DATA_CENTER) and not refused:
        found = _open_finding(one, arch, (*grounds(facts, DATA_CENTER, *FAILS, most=3), *more(facts)), facts, matrix)
        title = f"The open kernel module of this release supports data-centre GPUs only, and {one} is not one"
        yield (
            replace(found, title=title)
            if impossible
            else replace(
                found,
                title=title,
                detail=machine(facts, matrix, "From branch 545 on, it supports every GPU since Turing."),
                fix=fixes.rebuild(
                    facts,
                    "Install the proprietary (closed) flavour of the kernel module, or a newer driver; or let this one "
                    "run the GPU by its option.",
                    OPTION,
                    fixes.initramfs(facts),
                ),
            )
        )


def _open_finding(one: str, arch: str | None, grounds: tuple[Because, ...], facts: Facts, matrix: Matrix) -> Finding:
    flavour = matrix.flavour(arch) if arch else None
    span = matrix.span(arch) if arch else None
    last = f" of branch {span.last}, its last" if span and span.last else ""
    this = f"This is {arch}." if arch else ""
    needs = "The open module needs the GPU's GSP processor, which came with Turing."
    return open_module_unsupported_gpu.finding(
        title=f"The open kernel module does not support the {one}, which has no GSP; it needs the proprietary one",
        detail=machine(facts, matrix, needs, this),
        because=grounds,
        row=flavour.row if flavour else None,
        fix=fixes.change_driver(
            facts,
            matrix,
            f"Install the proprietary (closed) flavour of the kernel module{last}.",
            span.last if span else None,
        ),
    )


@rule("closed-module-unsupported-gpu", Layer.KERNEL_MODULE, "nvidia.ko")
def closed_module_unsupported_gpu(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """The proprietary kernel module does not support this GPU.

    From Blackwell on, NVIDIA's driver runs GPUs only with its open kernel module. With the proprietary one, the driver
    loads and lists no such GPU. Install the open flavour, in branch 570 or newer.
    """
    if from_text(facts) and newer_than_driver(facts, matrix):
        return  # no flavour of it supports this GPU
    refused = said(facts, "open-module-required")
    arch, module = architecture(facts, matrix), told(facts, "nvidia.ko")
    span = matrix.flavour(arch) if arch else None
    closed = "proprietary" in {text(module, "flavour"), text(module, "flavour_on_disk")}
    suspect = span is not None and span.closed == "impossible" and closed and heard(facts, *FAILS)
    counted = number(told(facts, "nvml"), "gpu_count") is not None
    if (refused or (suspect and not (counted and facts.taken))) and not works(facts):
        yield closed_module_unsupported_gpu.finding(
            title=f"The proprietary kernel module {'refuses' if refused else 'does not support'} this GPU, which needs "
            "the open one",
            detail=machine(facts, matrix),
            because=(
                *map(because_said, refused[:2]),
                *grounds(facts, *(() if refused else FAILS), most=3),
                *more(facts),
            ),
            fix=fixes.change_driver(facts, matrix, "Install the open flavour of the kernel module."),
            confidence=Confidence.CERTAIN if refused else Confidence.LIKELY,
        )
        return
    if not (closed if from_text(facts) else text(module, "flavour") == "proprietary") or not counted:
        return
    for copy in ours(facts):
        arch = arch_on_bus(copy, matrix)
        flavour = matrix.flavour(arch) if arch else None
        if flavour is None or flavour.closed != "impossible" or listed(facts, copy.key):
            continue
        yield closed_module_unsupported_gpu.finding(
            instance=copy.key,
            title=f"The proprietary kernel module does not support the {arch} GPU at {copy.key}; it needs the open one",
            because=(because(facts, "nvidia.ko", "flavour"), because_of(facts, "pci-display", copy, "device_id")),
            row=flavour.row,
            fix=fixes.change_driver(facts, matrix, "Install the open flavour of the kernel module."),
            confidence=Confidence.LIKELY,
        )
