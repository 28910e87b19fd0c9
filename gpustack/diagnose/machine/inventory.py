"""What the machine is, in the terms of the rules: its GPUs, its driver's releases, its frameworks' builds."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from gpustack.diagnose.machine.processes import left_out, withheld
from gpustack.diagnose.machine.values import copies, flag, items, number, status, table, text, texts, told, version
from gpustack.model import record
from gpustack.model.command import PYTHON, Word
from gpustack.model.facts import Facts, Instance, JsonValue, Status, once, product
from gpustack.model.versions import CodeArch, ComputeCapability, CudaVersion, DriverRelease

if TYPE_CHECKING:
    from gpustack.matrix import Matrix


DISPLAY, ACCELERATOR = "0x03", "0x12"
PASSED_ON = frozenset({"vfio-pci", "nvgrace_gpu_vfio_pci", "pci-stub", "xen-pciback"})
MAKERS = frozenset({"nvidia", "amd", "intel"})
FRAMEWORKS = ("pytorch", "jax", "onnxruntime")
DRIVER = "nvidia-driver"
# Reasons why a GPU was not or could not be queried: time, permissions, memory or the NVML release.
UNASKED = re.compile(
    r"not asked|NVMLError_(?:NoPermission|\w*NotSupported|FunctionNotFound|LibraryNotFound|Uninitialized|Deprecated"
    r"|AlreadyInitialized|InvalidArgument|ArgumentVersionMismatch|InsufficientSize|LibRmVersionMismatch"
    r"|DriverNotLoaded|Memory|InsufficientResources|OperatingSystem|InUse|NotReady)\b"
)


@record
class Gpu:
    """One NVIDIA GPU that the driver lists. ``mark`` names it in findings: its PCI address if known."""

    mark: str
    name: str
    capability: ComputeCapability | None
    copy: Instance


@record
class Build:
    """One framework in one Python. ``accelerator`` is cuda, rocm, xpu, cpu or None if unknown."""

    component: str
    copy: Instance
    accelerator: str | None
    cuda: CudaVersion | None
    archs: tuple[CodeArch, ...]

    @property
    def mark(self) -> str:
        """Its name in findings."""
        return f"{self.component}:{self.copy.environment}" if self.copy.environment else self.component

    @property
    def name(self) -> str:
        """Its display name."""
        return f"{product(self.component)} {self.copy.version or ''}".strip()

    @property
    def python(self) -> Word:
        """The command that runs its Python."""
        return PYTHON(self.copy.environment)

    @property
    def exercise(self) -> Mapping[str, JsonValue]:
        """The result of running it; empty if not requested."""
        return table(self.copy.facts, "exercise")

    @property
    def ran_on_gpu(self) -> bool | None:
        """Whether it was run and computed correctly on a GPU; None if it was not run to the end."""
        if flag(self.exercise, "ran") is None:
            return None
        device = text(self.exercise, "device")
        return flag(self.exercise, "ok") is True and device is not None and device != "cpu"


@once
def gpus(facts: Facts) -> tuple[Gpu, ...]:
    """Return the GPUs that NVML lists."""
    return tuple(
        Gpu(
            mark=text(copy.facts, "pci") or copy.key,
            name=text(copy.facts, "name") or "an NVIDIA GPU",
            capability=ComputeCapability.parse(text(copy.facts, "cc")),
            copy=copy,
        )
        for copy in copies(facts, "gpu")
    )


def unasked(copy: Instance) -> bool:
    """Return whether a GPU's data failed to load for no fault of its own, so that its health is unknown."""
    return bool(UNASKED.match(text(copy.facts, "error") or ""))


@once
def capabilities(facts: Facts) -> tuple[ComputeCapability, ...]:
    """Return the compute capabilities of the GPUs that programs see, each once: CUDA's answer first, else NVML's."""
    devices = [ComputeCapability.parse(text(device, "cc")) for device in items(told(facts, "libcuda"), "devices")]
    seen = [found for found in devices if found] or [gpu.capability for gpu in gpus(facts) if gpu.capability]
    return tuple(dict.fromkeys(seen))


@once
def on_bus(facts: Facts, *vendors: str) -> tuple[Instance, ...]:
    """Return these vendors' GPUs on the PCI bus, with or without a driver, excluding bridges and plain displays."""
    return tuple(
        copy
        for copy in copies(facts, "pci-display")
        if text(copy.facts, "vendor") in vendors
        and (text(copy.facts, "class") or DISPLAY).startswith((DISPLAY, ACCELERATOR))
        and not _neural(copy)
    )


def _neural(copy: Instance) -> bool:
    """Return whether it is the neural unit (NPU) of an Intel processor, which calls itself an accelerator as well."""
    return text(copy.facts, "vendor") == "intel" and (text(copy.facts, "class") or "").startswith(ACCELERATOR)


@once
def ours(facts: Facts) -> tuple[Instance, ...]:
    """Return the NVIDIA GPUs on the bus that this machine can use: not passed through to a virtual machine."""
    return tuple(copy for copy in on_bus(facts, "nvidia") if text(copy.facts, "driver") not in PASSED_ON)


@once
def kept_out(facts: Facts) -> bool:
    """Return whether the machine's NVIDIA GPUs are not ours: hidden from this job, or from a CPU-only container."""
    return withheld(facts) or (left_out(facts) and not for_cuda(facts))


@once
def for_cuda(facts: Facts) -> bool:
    """Return whether anything made for CUDA is installed."""
    cuda = any(build.accelerator == "cuda" for build in builds(facts))
    return cuda or any(copies(facts, name) for name in ("cuda-toolkit", "cuda-runtime", "cudnn"))


@once
def nvidia_here(facts: Facts) -> bool:
    """Return whether anything says that there is an NVIDIA GPU to use here."""
    module = told(facts, "nvidia.ko")
    if kept_out(facts):
        return False
    return bool(
        ours(facts)
        or gpus(facts)
        or items(told(facts, "libcuda"), "devices")
        or number(told(facts, "nvml"), "gpu_count")
        or items(module, "gpus")
        or flag(module, "loaded")
        or (from_text(facts) and (version(facts, DRIVER) or _branch(facts) or version(facts, "nvml") or module))
    )


def from_text(facts: Facts) -> bool:
    """Return whether the facts come from pasted text: anything not mentioned may still be on the machine."""
    return not facts.taken


def on_windows(facts: Facts) -> bool:
    """Return whether the driver is Windows', whose releases are numbered differently from Linux's."""
    return facts.host.wsl or "windows" in (facts.host.os or "").lower()


@once
def any_gpu(facts: Facts) -> bool | None:
    """Return whether any vendor's GPU is here; None if unknown because the bus was not read or does not count.

    In WSL a GPU is reached through Windows (/dev/dxg) and is on no bus.
    """
    others = MAKERS - {"nvidia"} if kept_out(facts) else MAKERS
    if nvidia_here(facts) or on_bus(facts, *others):
        return True
    if not from_text(facts) and any(copies(facts, f"{maker}-gpu") for maker in MAKERS):
        return True  # some containers show KFD's list of GPUs and no bus
    looked = status(facts, "pci-display") in {Status.PRESENT, Status.ABSENT, Status.NOT_APPLICABLE}
    through_windows = facts.host.wsl and flag(told(facts, "linux-kernel"), "dxg")
    return False if looked and not through_windows else None


def arch_on_bus(copy: Instance, matrix: Matrix) -> str | None:
    """Return the architecture of an NVIDIA GPU by its PCI device number, or None where no row knows it."""
    device = text(copy.facts, "device_id") or ""
    found = matrix.pci_arch(int(device, 16)) if re.fullmatch("0x[0-9a-fA-F]{4}", device) else None
    return found.arch if found else None


def listed(facts: Facts, pci: str) -> bool:
    """Return whether the driver lists the GPU at this address."""
    return any(gpu.mark == pci for gpu in gpus(facts))


@once
def loaded_release(facts: Facts) -> DriverRelease | None:
    """Return the release of the kernel module in memory."""
    said = text(told(facts, "nvidia.ko"), "version_loaded") or text(told(facts, DRIVER), "module_loaded")
    return DriverRelease.parse(said)


@once
def disk_release(facts: Facts) -> DriverRelease | None:
    """Return the release of the kernel module on disk for the running kernel."""
    said = text(told(facts, "nvidia.ko"), "version_on_disk") or text(told(facts, DRIVER), "module_on_disk")
    return DriverRelease.parse(said)


@once
def user_release(facts: Facts) -> DriverRelease | None:
    """Return the release of the driver's user-space libraries."""
    return DriverRelease.parse(version(facts, DRIVER))


@once
def driver_release(facts: Facts) -> DriverRelease | None:
    """Return the release that counts for CUDA: the module's, else the libraries'; None for Windows' driver."""
    if on_windows(facts):
        return None
    return loaded_release(facts) or DriverRelease.parse(version(facts, "nvml")) or user_release(facts)


@once
def driver_cuda(facts: Facts, matrix: Matrix) -> CudaVersion | None:
    """Return the driver's highest CUDA version: by its own report, else by its branch's row."""
    said = number(told(facts, "libcuda"), "driver_cuda") or number(told(facts, "nvml"), "cuda_version")
    release = driver_release(facts)
    row = matrix.branches.get(release.branch if release else _branch(facts) or 0)
    return CudaVersion.decode(said) or (row.cuda if row else None)


def _branch(facts: Facts) -> int | None:  # "driver 470"
    return number(told(facts, DRIVER), "branch") if from_text(facts) and not on_windows(facts) else None


@once
def starts(facts: Facts) -> bool | None:
    """Return whether CUDA starts: by cuInit, else by a framework that ran on a GPU; None if untried.

    It cannot without libcuda, nor if it starts but reports no GPU.
    """
    libcuda = told(facts, "libcuda")
    code = number(libcuda, "cu_init")
    if code is not None:
        return code == 0 and text(libcuda, "error") is None
    if any(flag(build.copy.facts, "available") for build in builds(facts)):
        return True
    if status(facts, "libcuda") is Status.ABSENT:
        return False
    return True if any(build.ran_on_gpu for build in builds(facts)) else None


def driver_works(facts: Facts) -> bool:
    """Return whether NVML or CUDA starts, which proves that the driver works."""
    return number(told(facts, "nvml"), "code") == 0 or starts(facts) is True


@once
def builds(facts: Facts) -> tuple[Build, ...]:
    """Return the installed frameworks, in each Python the copy that an import would use."""
    return tuple(_builds(facts))


def _builds(facts: Facts) -> Iterator[Build]:
    for component in FRAMEWORKS:
        seen: set[str | None] = set()
        for copy in copies(facts, component):
            if copy.environment not in seen:
                seen.add(copy.environment)
                yield _build(component, copy)


def _build(component: str, copy: Instance) -> Build:
    named = re.match(r"(cuda|cu|rocm|xpu|cpu)", copy.build or "")
    accelerator = text(copy.facts, "accelerator") or ({"cu": "cuda"}.get(named[1], named[1]) if named else None)
    archs = [CodeArch.parse(arch) for arch in texts(copy.facts, "archs")]
    return Build(
        component=component,
        copy=copy,
        accelerator=accelerator,
        cuda=_cuda(copy) if accelerator == "cuda" else None,
        archs=tuple(arch for arch in archs if arch),
    )


def _cuda(copy: Instance) -> CudaVersion | None:
    """Return the CUDA version of a build; a major alone counts as its first release."""
    said = CudaVersion.parse(text(copy.facts, "cuda"))
    if said:
        return said
    major = re.fullmatch(r"cuda(\d{1,2})", copy.build or "") or re.match(r"(\d{1,2})\b", text(copy.facts, "cuda") or "")
    tag = re.fullmatch(r"cu(\d{1,2})(\d)", copy.build or "")
    if tag:
        return CudaVersion(int(tag[1]), int(tag[2]))
    return CudaVersion(int(major[1])) if major else None
