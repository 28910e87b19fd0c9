"""How findings name the driver, the GPUs, the kernel and the machine, from facts or a text."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpustack.diagnose.machine.events import heard, said, value
from gpustack.diagnose.machine.inventory import (
    DRIVER,
    arch_on_bus,
    driver_cuda,
    driver_release,
    gpus,
    loaded_release,
    on_bus,
    on_windows,
    user_release,
)
from gpustack.diagnose.machine.values import because, copies, flag, number, text, told, version
from gpustack.matrix.subjects import drivers, toolkits
from gpustack.matrix.subjects import gpus as products

if TYPE_CHECKING:
    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts, Instance, Message
    from gpustack.model.report import Because
    from gpustack.model.versions import CudaVersion

MOST_GPUS = 2
BRANCH_ALONE = 580  # from CUDA 13 on, Windows needs this branch and no release of it is named


def driver_name(facts: Facts, matrix: Matrix) -> str:
    """Return what is known of the driver: "driver 470.86 (CUDA 11.4)"; empty if nothing is."""
    release, branch, cuda = (
        (driver_release(facts) or user_release(facts)),
        number(told(facts, DRIVER), "branch"),
        cuda_of_driver(facts, matrix),
    )
    if release or branch:
        return f"driver {release or branch}" + (f" (CUDA {cuda})" if cuda else "")
    return f"a driver for CUDA {cuda}" if cuda else ""


def cuda_of_driver(facts: Facts, matrix: Matrix) -> CudaVersion | None:
    """Return the highest CUDA version of the driver, also if only its branch is known."""
    known = driver_cuda(facts, matrix)
    branch = number(told(facts, DRIVER), "branch")
    if known or not branch:
        return known
    row = drivers.for_windows(matrix, branch) if on_windows(facts) else drivers.branch_of(matrix, branch)
    return row.cuda if row else None


def own_cuda(facts: Facts, matrix: Matrix) -> CudaVersion | None:
    """Return the CUDA version of the kernel driver's branch, which a compat libcuda does not change."""
    release = driver_release(facts)
    row = matrix.branches.get(release.branch) if release else None
    return row.cuda if row else None


def gpu_names(facts: Facts) -> str:
    """Return the first few NVIDIA GPUs, each name once: "Tesla T4 (sm_75)"; empty if none is known."""
    named = (f"{gpu.name[:60]} ({gpu.capability.sm})" if gpu.capability else gpu.name[:60] for gpu in gpus(facts))
    return ", ".join([*dict.fromkeys(named)][:MOST_GPUS])


def needed_driver(cuda: CudaVersion, facts: Facts, matrix: Matrix) -> str:
    """Return the oldest driver that runs builds for this CUDA version: "driver 525.60.13 or newer"."""
    floor, native = toolkits.floor_of(matrix, cuda), _native(cuda, matrix)
    linux = floor.linux if floor else native.driver if native else None
    windows = floor.windows if floor else native.windows if native else None
    if linux is None:
        return f"a driver for CUDA {cuda} or newer"
    if on_windows(facts):
        return f"a Windows driver {windows or f'of branch {BRANCH_ALONE}'} or newer (Linux: {linux})"
    return f"driver {linux} or newer"


def native_driver(cuda: CudaVersion, facts: Facts, matrix: Matrix) -> str:
    """Return the driver that came with this CUDA version and supports all of it: "driver 570.26 or newer"."""
    native = _native(cuda, matrix)
    if native is None or native.driver is None:
        return needed_driver(cuda, facts, matrix)
    if on_windows(facts):
        return f"a Windows driver {native.windows or f'of branch {BRANCH_ALONE}'} or newer (Linux: {native.driver})"
    return f"driver {native.driver} or newer"


def known(facts: Facts, *wanted: tuple[str, str]) -> tuple[Because, ...]:
    """Return those of these facts, each by component and name, that are known."""
    found = (because(facts, component, *name.split(".")) for component, name in wanted)
    return tuple(one for one in found if one.value is not None)


def of_driver(facts: Facts) -> tuple[Because, ...]:
    """Return what is known of the driver as evidence."""
    return known(
        facts,
        ("nvidia.ko", "version_loaded"),
        (DRIVER, "version"),
        (DRIVER, "branch"),
        ("nvml", "cuda_version"),
        ("libcuda", "driver_cuda"),
        ("gpu", "name"),
        ("gpu", "cc"),
    )


def _native(cuda: CudaVersion, matrix: Matrix) -> toolkits.Release | None:
    """Return the first release of the toolkit with this minor version."""
    fitting = [one for one in toolkits.releases(matrix) if one.cuda == cuda]
    return fitting[0] if fitting else None


# Messages that name the driver's release, those that speak of the fault first.
RELEASES = (
    *(
        ("legacy-gpu-said", "driver"),
        ("driver-ignores-gpu", "driver"),
        ("gpu-not-in-release", "driver"),
        ("module-version", "driver"),
    ),
    *(("dkms-log", "version"), ("dkms-install", "version"), ("dkms-headers", "version"), ("release-fails", "driver")),
)
KERNELS = (
    *(("dkms-failed", ("kernel",)), ("dkms-headers", ("kernel", "kernel2", "kernel3", "kernel4", "kernel5"))),
    *(("dkms-install", ("kernel",)), ("installer-kernel", ("kernel", "kernel2")), ("kernel-source-path", ("kernel",))),
)
BUILDING = ("dkms-log", "dkms-install", "dkms-headers", "dkms-failed")
CHIP = re.compile(r"\b[AGT][A-Z]\d{3}(?=[A-Z]{0,3}\b)")  # GB203, AD104M, TU116
CHIPS = {"GT": "Tesla", "GF": "Fermi", "GK": "Kepler", "GM": "Maxwell", "GP": "Pascal", "GV": "Volta"}
CHIPS |= {"TU": "Turing", "GA": "Ampere", "AD": "Ada Lovelace", "GH": "Hopper", "GB": "Blackwell"}
LOCKED = frozenset({"integrity", "confidentiality"})  # kernel lockdown: unsigned modules are refused
OURS = re.compile(r"nvidia|amdgpu|(?:intel-)?i915|xe\b", re.IGNORECASE)


def works(facts: Facts) -> bool:
    """Return whether the text shows that the driver works now, so that earlier lines no longer apply."""
    lists = number(told(facts, "nvml"), "code") == 0 and bool(gpus(facts)) and not heard(facts, "smi-no-devices")
    return lists or heard(facts, "cuda-available-true")


def release(facts: Facts) -> str | None:
    """Return the release of the driver that is mentioned."""
    named = next((found for kind, name in RELEASES if (found := value(facts, kind, name))), None)
    seen = loaded_release(facts) or user_release(facts)
    built = next((copy.version for copy in copies(facts, "dkms") if copy.version), None)
    known = version(facts, "nvidia-driver") or (str(seen) if seen else None) or built
    branch = number(told(facts, "nvidia-driver"), "branch")
    spoken = (
        value(facts, "driver-named", "driver", "driver2")
        or value(facts, "runfile", "driver")
        or (str(branch) if branch else None)
    )
    return named or known or spoken or value(facts, "driver-branch-named", "branch")


def branch_of(said_: str | None) -> int | None:
    """Return the branch of a release: 580 of 580.95.05."""
    found = re.match(r"(\d{2,3})\b", said_ or "")
    return int(found[1]) if found else None


def kernel(facts: Facts) -> str | None:
    """Return the kernel that a message names, else the running one."""
    named = next((found for kind, names in KERNELS if (found := value(facts, kind, *names))), None)
    return (named or version(facts, "linux-kernel") or facts.host.kernel or "").strip("'\"!,:;.)") or None


def cards(facts: Facts, matrix: Matrix) -> tuple[str, ...]:
    """Return the GPUs by name, each once, with the compute capability if known."""
    named = dict.fromkeys(_card(gpu.name, matrix) for gpu in gpus(facts) if text(gpu.copy.facts, "name"))
    bus = (text(copy.facts, "name") for copy in on_bus(facts, "nvidia", "amd", "intel"))
    return tuple(named) or tuple(dict.fromkeys(name for name in bus if name))


def architecture(facts: Facts, matrix: Matrix) -> str | None:
    """Return the architecture of the first NVIDIA GPU that is named or on the bus."""
    for gpu in gpus(facts):
        capability = gpu.capability or products.capability_of(matrix, gpu.name)
        known = matrix.arch(capability) if capability else None
        if known:
            return known.name
    there = on_bus(facts, "nvidia")
    found = next((arch for copy in there if (arch := arch_on_bus(copy, matrix))), None)
    chips = [CHIP.search(text(copy.facts, "name") or "") for copy in there]
    chip = next((one[0] for one in chips if one), value(facts, "chip-named", "chip") or "")
    return found or CHIPS.get(chip[:2]) or value(facts, "chip-named", "arch")


def newer_than_driver(facts: Facts, matrix: Matrix) -> bool:
    """Return whether the GPU's architecture came after the branch of the driver that is named."""
    arch, branch = architecture(facts, matrix), branch_of(release(facts))
    span = matrix.span(arch) if arch else None
    return bool(span and span.first and branch and branch < span.first)


def device(message: Message, matrix: Matrix) -> tuple[str, str | None]:
    """Return the name of the GPU that a message identifies by its PCI numbers, and its architecture."""
    pci, numbers = message.values.get("pci"), (message.values.get("id") or "").lower()
    found = re.fullmatch("10de:([0-9a-f]{4})", numbers)
    row = matrix.pci_arch(int(found[1], 16)) if found else None
    arch = row.arch if row else None
    named = f"{arch} GPU" if arch else "GPU"
    return f"{named}{f' at {pci}' if pci else ''}{f' ({numbers})' if numbers else ''}", arch


def machine(facts: Facts, matrix: Matrix, *before: str) -> str:
    """Return these sentences and one that sums up the machine in a text; a probed machine's report shows it all."""
    if facts.taken:
        return " ".join(part for part in before if part)
    parts = [f"driver {r}" if (r := release(facts)) else "", f"kernel {k}" if (k := kernel(facts)) else ""]
    named = [part for part in parts if part] + list(cards(facts, matrix))[:4]
    found = f"Found: {', '.join(named)}." if named else ""
    return " ".join(part for part in (*before, found) if part)


def more(facts: Facts) -> tuple[Because, ...]:
    """Return release, kernel and Secure Boot as evidence, as far as known."""
    known = (("nvidia-driver", "version"), ("linux-kernel", "version"), ("gpu", "name"))
    return tuple(because(facts, one, fact) for one, fact in known if text(told(facts, one), fact))


def mine(facts: Facts, *kinds: str) -> tuple[Message, ...]:
    """Return the messages of these kinds about a GPU's module, or about no named module."""
    named = [one.values["module"] for one in said(facts, *BUILDING) if one.values.get("module")]
    others = bool(named) and not any(OURS.match(name) for name in named)
    return tuple(
        one
        for one in said(facts, *kinds)
        if (OURS.match(one.values["module"]) if one.values.get("module") else not others)
    )


def is_open(facts: Facts) -> bool:
    """Return whether the open kernel module is loaded or reported as installed."""
    flavour = text(told(facts, "nvidia.ko"), "flavour")
    return flavour == "open" or (flavour is None and heard(facts, "open-module-named"))


def whole(said_: str | None, base: int = 10) -> int:
    """Return a number from a message, or 0."""
    try:
        return int(said_ or "", base)
    except ValueError:
        return 0


def secure(facts: Facts) -> bool | None:
    """Return whether Secure Boot is on, or the kernel locked down as it is then; None if unknown."""
    kernel = told(facts, "linux-kernel")
    if text(kernel, "lockdown") in LOCKED:
        return True
    said_ = flag(kernel, "secure_boot")
    return True if said_ is None and heard(facts, "secure-boot-on") else said_


def named(copy: Instance) -> str:
    """Return a GPU on the bus by name, or its address."""
    return text(copy.facts, "name") or copy.key


def _card(name: str, matrix: Matrix) -> str:
    capability = products.capability_of(matrix, name)
    return f"{name} ({capability.sm})" if capability else name
