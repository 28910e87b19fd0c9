"""Which kernel module holds the GPU, and which must: nouveau, nova, NVIDIA's open and closed ones."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpustack.diagnose import fixes
from gpustack.diagnose.machine.described import architecture, cards, device, is_open, machine, more, works
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
from gpustack.diagnose.machine.messages import because_said, grounds, heard, said
from gpustack.diagnose.machine.values import because, because_of, flag, number, status, text, texts, told
from gpustack.diagnose.rule import rule
from gpustack.model.command import MODULE, sh
from gpustack.model.facts import Layer, Status
from gpustack.model.report import Because, Confidence, Finding, Fix, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts, Instance, Message
    from gpustack.model.report import Row


# NVIDIA's module was refused before it could ask for the GPU: the other driver is there for that.
REFUSED = ("module-key-rejected", "module-unsigned", "module-lockdown")


def held_by(driver: str, name: re.Pattern[str], finding: str, facts: Facts) -> Iterator[Finding]:
    """Return the finding where this driver holds a GPU, or is loaded while NVIDIA's module is not."""
    if heard(facts, *REFUSED):
        return
    held = [copy for copy in ours(facts) if name.match(text(copy.facts, "driver") or "")]
    module = told(facts, "nvidia.ko")
    rivals = [one for one in texts(module, "competitors") if name.match(one)]
    log = [line for line in texts(told(facts, "kernel-log"), "nvrm") if "ownership" in line or "such as" in line]
    logged = [line for line in texts(told(facts, "kernel-log"), "nvrm") if log and name.search(line)]
    if not held and (flag(module, "loaded") or not (rivals or logged)):
        return
    others = [copy for copy in ours(facts) if text(copy.facts, "driver") == "nvidia"]
    grounds = [because_of(facts, "pci-display", copy, "driver") for copy in held]
    if rivals:
        grounds.append(because(facts, "nvidia.ko", "competitors"))
    grounds += [Because(component="kernel-log", fact="nvrm", value=line, source="kernel log") for line in logged[:1]]
    where = f" at {', '.join(copy.key for copy in held)}" if held else ""
    yield Finding(
        id=finding,
        severity=Severity.WARNING if others else Severity.ERROR,
        layer=Layer.KERNEL_MODULE,
        component="nvidia.ko",
        title=f"{driver} holds the NVIDIA GPU{where}, so NVIDIA's driver cannot",
        detail="Only one driver can hold a GPU, and CUDA needs NVIDIA's.",
        because=tuple(grounds),
        fix=_holder_fix(driver, facts),
    )


def told_by(
    driver: str, said: tuple[Message, ...], facts: Facts, matrix: Matrix, *, finding: str, confidence: Confidence
) -> Iterator[Finding]:
    """Return the finding where messages say that this driver holds the GPU and nothing shows NVIDIA's at work."""
    given_on = any(text(copy.facts, "driver") in PASSED_ON for copy in on_bus(facts, "nvidia"))
    bound = any(text(copy.facts, "driver") == "nvidia" for copy in ours(facts))
    if not said or works(facts) or given_on or bound or heard(facts, *REFUSED):
        return
    yield Finding(
        id=finding,
        severity=Severity.ERROR,
        layer=Layer.KERNEL_MODULE,
        component="nvidia.ko",
        title=f"{driver} holds the NVIDIA GPU, so NVIDIA's driver cannot",
        detail=machine(facts, matrix, "Only one driver can hold a GPU, and CUDA needs NVIDIA's."),
        because=(*map(because_said, said[:4]), *more(facts)),
        fix=_holder_fix(driver, facts),
        confidence=confidence,
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


NOUVEAU_NAME = re.compile(r"nouveau\b")
NOUVEAU_SAID = ("probe-conflict-nouveau", "nouveau-in-use")


@rule("nouveau-loaded", layer=Layer.KERNEL_MODULE, component="nvidia.ko", severity=Severity.ERROR)
def nouveau_loaded(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """nouveau, the kernel's own driver for NVIDIA GPUs, holds the GPU.

    Only one driver can hold a GPU. While nouveau does, NVIDIA's module finds no device, and nothing of CUDA works. Keep
    nouveau from being loaded, rebuild the initramfs, since it is loaded from there, and restart.
    """
    yield from held_by("nouveau", NOUVEAU_NAME, "nouveau-loaded", facts)
    bound = tuple(one for one in said(facts, "gpu-bound-to") if NOUVEAU_NAME.match(one.values.get("driver", "")))
    named = (*said(facts, *NOUVEAU_SAID), *bound)
    yield from told_by("nouveau", named, facts, matrix, finding="nouveau-loaded", confidence=Confidence.CERTAIN)
    if not named and not heard(facts, "nova-in-use", "nova-said", "gpu-bound-to"):
        unnamed = said(facts, "probe-not-called", "nouveau-said")
        yield from told_by("nouveau", unnamed, facts, matrix, finding="nouveau-loaded", confidence=Confidence.LIKELY)


NOVA_NAME = re.compile(r"nova([-_](core|drm))?\b", re.IGNORECASE)
HOLDER = re.compile(r"nova([-_]?(core|drm))?\b", re.IGNORECASE)  # the kernel names its driver NovaCore


@rule("nova-loaded", layer=Layer.KERNEL_MODULE, component="nvidia.ko", severity=Severity.ERROR)
def nova_loaded(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """nova, the kernel's new driver for NVIDIA GPUs, holds the GPU.

    Only one driver can hold a GPU. nova (nova_core, nova_drm) cannot run CUDA, and while it holds the GPU, NVIDIA's
    module finds no device. Keep it from being loaded, rebuild the initramfs, and restart.
    """
    yield from held_by("nova_core", NOVA_NAME, "nova-loaded", facts)
    bound = tuple(one for one in said(facts, "gpu-bound-to") if HOLDER.match(one.values.get("driver", "")))
    named = (*said(facts, "nova-in-use", "nova-said"), *bound)
    yield from told_by("nova_core", named, facts, matrix, finding="nova-loaded", confidence=Confidence.CERTAIN)


GONE = frozenset({Status.ABSENT, Status.NOT_APPLICABLE})


@rule("nvidia-driver-missing", layer=Layer.DRIVER, component="nvidia-driver", severity=Severity.ERROR)
def nvidia_driver_missing(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """There is an NVIDIA GPU and no NVIDIA driver.

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
        title=f"There is an NVIDIA GPU ({_name(copy, arch)}) and no NVIDIA driver",
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
    return module in GONE and driver in GONE and not (loaded or user_release(facts) or driver_works(facts))


def _name(copy: Instance, arch: str | None) -> str:
    device = f"10de:{(text(copy.facts, 'device_id') or '0x????')[2:]}"
    return f"{arch}, {device} at {copy.key}" if arch else f"{device} at {copy.key}"


def _row(row: Row | None, last: int | None) -> Row | None:
    return row if last else None


def _missing_fix(facts: Facts, matrix: Matrix, last: int | None) -> Fix:
    branch = f"branch {last}, the last that runs this GPU" if last else "which also keeps nouveau away"
    return fixes.rebuild(facts, f"Install NVIDIA's driver, {branch}, and restart.", *fixes.driver(facts, matrix, last))


@rule("nvidia-module-not-loaded", layer=Layer.KERNEL_MODULE, component="nvidia.ko", severity=Severity.ERROR)
def nvidia_module_not_loaded(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """NVIDIA's kernel module is not loaded.

    The driver's libraries are here, but the module that they talk to is not in memory: it was not built for the running
    kernel, something keeps it out, or nobody has loaded it. Nothing of CUDA works until it is. Load it and read what
    the kernel says; where it is not on disk for this kernel, build it.
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
        fix=_unloaded_fix(facts, blocked),
    )


def out(facts: Facts) -> bool:
    """Return whether the module was looked for and is not in memory, and nothing shows it at work all the same.

    WSL has none: Windows drives the GPU. Some sandboxes do not show the modules of the machine below them.
    """
    looked = status(facts, "nvidia.ko") in {Status.PRESENT, Status.ABSENT, Status.NOT_APPLICABLE}
    bound = any(text(copy.facts, "driver") == "nvidia" for copy in ours(facts))
    loaded = flag(told(facts, "nvidia.ko"), "loaded") or loaded_release(facts) is not None
    return looked and not (bound or loaded or driver_works(facts) or facts.host.wsl)


def on_disk(facts: Facts) -> bool:
    """Return whether the module lies on disk for the running kernel."""
    return disk_release(facts) is not None or text(told(facts, "nvidia.ko"), "path") is not None


def _unloaded_fix(facts: Facts, blocked: tuple[str, ...]) -> Fix:
    if blocked:
        return fixes.rebuild(
            facts,
            f"Take the lines about nvidia out of {' and '.join(blocked)}, rebuild the initramfs, and restart.",
            fixes.initramfs(facts),
        )
    if on_disk(facts):
        return Fix(
            text=f"{fixes.place(facts)}Load it; if that fails, the kernel's last lines say why.",
            commands=(sh("sudo modprobe nvidia"), sh("sudo dmesg | tail -n 40")),
            needs_root=True,
            verify=sh("nvidia-smi"),
        )
    return fixes.rebuild(
        facts,
        f"Build it for kernel {fixes.kernel(facts)}, or start a kernel that has it.",
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
OPTION = "echo options nvidia NVreg_OpenRmEnableUnsupportedGpus=1 | sudo tee /etc/modprobe.d/nvidia-open.conf"
MARKS = ("not supported by open", "required GPU", "System Processor (GSP)")


@rule("open-module-unsupported-gpu", layer=Layer.KERNEL_MODULE, component="nvidia.ko", severity=Severity.ERROR)
def open_module_unsupported_gpu(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """The open kernel module cannot run this GPU.

    NVIDIA's open kernel module needs the GSP processor, which came with Turing. On a Maxwell, Pascal or Volta GPU only
    the proprietary module works, and its last branch is 580. Install that flavour.
    """
    found = tuple(_seen(facts, matrix))
    yield from found
    if not found:
        yield from _told(facts, matrix)
        yield from _opt_in(facts, matrix)


def _told(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Return the finding where a text has the refusal, or names the open module and a GPU without GSP that fails."""
    refused = sorted(said(facts, *OPEN_SAID), key=lambda one: "id" not in one.values)
    arch = device(refused[0], matrix)[1] if refused else None
    arch = arch or architecture(facts, matrix)
    flavour = matrix.flavour(arch) if arch else None
    impossible = flavour is not None and flavour.open == "impossible"
    suspect = impossible and is_open(facts) and bool(said(facts, *FAILS))
    if works(facts) or not (refused or suspect) or (refused and flavour and not impossible):
        return
    span = matrix.span(arch) if arch else None
    last = f" of branch {span.last}, its last" if span and span.last else ""
    one = device(refused[0], matrix)[0] if refused else ", ".join(cards(facts, matrix)) or "this GPU"
    yield open_module_unsupported_gpu.finding(
        title=f"The open kernel module cannot run the {one}, which has no GSP; it needs the proprietary one",
        detail=machine(
            facts,
            matrix,
            "The open module needs the GPU's GSP processor, which came with Turing.",
            f"This is {arch}." if arch else "",
        ),
        because=(*map(because_said, refused[:3]), *grounds(facts, *FAILS, "open-module-named", most=3), *more(facts)),
        row=flavour.row if flavour else None,
        fix=fixes.rebuild(
            facts,
            f"Install the proprietary (closed) flavour of the kernel module{last}.",
            *fixes.driver(facts, matrix, span.last if span else None),
        ),
        confidence=Confidence.CERTAIN if refused else Confidence.LIKELY,
    )


def _opt_in(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Return the finding where the module must be configured to run a GPU that is none of a data centre."""
    if not heard(facts, DATA_CENTER) or heard(facts, *OPEN_SAID) or works(facts):
        return
    arch = architecture(facts, matrix)
    flavour = matrix.flavour(arch) if arch else None
    one = ", ".join(cards(facts, matrix)) or "this GPU"
    never, span = flavour is not None and flavour.open == "impossible", matrix.span(arch) if arch else None
    yield open_module_unsupported_gpu.finding(
        title=f"The open kernel module of this release runs GPUs of data centres alone, and {one} is none",
        detail=machine(
            facts,
            matrix,
            f"{arch} has no GSP, so no open module runs it."
            if never
            else "From branch 545 on it runs all from Turing on.",
        ),
        because=(*grounds(facts, DATA_CENTER, *FAILS, most=3), *more(facts)),
        row=flavour.row if flavour else None,
        fix=fixes.rebuild(
            facts,
            "Install the proprietary (closed) flavour of the kernel module"
            + ("." if never else ", or a newer driver; or let this one run the GPU by its option."),
            *(fixes.driver(facts, matrix, span.last if span else None) if never else (OPTION, fixes.initramfs(facts))),
        ),
        confidence=Confidence.CERTAIN,
    )


def _seen(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Return each GPU of a machine that was looked at."""
    log = [line for line in texts(told(facts, "kernel-log"), "nvrm") if any(mark in line for mark in MARKS)]
    is_open = text(told(facts, "nvidia.ko"), "flavour") == "open"
    for copy in ours(facts):
        arch = arch_on_bus(copy, matrix)
        if arch and (is_open or log) and not listed(facts, copy.key):
            yield from _refused(copy, arch, log, facts, matrix)


def _refused(copy: Instance, arch: str, log: list[str], facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    flavour, span = matrix.flavour(arch), matrix.span(arch)
    if flavour is None or flavour.open != "impossible":
        return
    said = [Because(component="kernel-log", fact="nvrm", value=line, source="kernel log") for line in log[:1]]
    yield open_module_unsupported_gpu.finding(
        instance=copy.key,
        title=f"The open kernel module cannot run the {arch} GPU at {copy.key}, which has no GSP",
        because=(because(facts, "nvidia.ko", "flavour"), because_of(facts, "pci-display", copy, "device_id"), *said),
        row=flavour.row,
        fix=fixes.rebuild(
            facts,
            "Install the proprietary flavour of the kernel module.",
            *fixes.driver(facts, matrix, span.last if span else None),
        ),
    )


@rule("closed-module-unsupported-gpu", layer=Layer.KERNEL_MODULE, component="nvidia.ko", severity=Severity.ERROR)
def closed_module_unsupported_gpu(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """The proprietary kernel module cannot run this GPU.

    From Blackwell on, NVIDIA's driver runs GPUs only with its open kernel module. With the proprietary one, the driver
    loads and lists no such GPU. Install the open flavour, in branch 570 or newer.
    """
    counted = number(told(facts, "nvml"), "gpu_count") is not None
    if text(told(facts, "nvidia.ko"), "flavour") != "proprietary" or not counted:
        return
    for copy in ours(facts):
        arch = arch_on_bus(copy, matrix)
        flavour = matrix.flavour(arch) if arch else None
        if flavour is None or flavour.closed != "impossible" or listed(facts, copy.key):
            continue
        yield closed_module_unsupported_gpu.finding(
            instance=copy.key,
            title=f"The proprietary kernel module cannot run the {arch} GPU at {copy.key}; it needs the open one",
            because=(because(facts, "nvidia.ko", "flavour"), because_of(facts, "pci-display", copy, "device_id")),
            row=flavour.row,
            fix=fixes.rebuild(facts, "Install the open flavour of the kernel module.", *fixes.driver(facts, matrix)),
            confidence=Confidence.LIKELY,
        )
