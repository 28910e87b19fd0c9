"""AMD: KFD, amdgpu and the targets that ROCm's libraries have code for."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpustack.diagnose import fixes
from gpustack.diagnose.machine import amd
from gpustack.diagnose.machine.events import because_said, grounds, heard, said
from gpustack.diagnose.machine.frameworks import because_torch, installed, torch_version
from gpustack.diagnose.machine.inventory import builds, from_text, nvidia_here, on_bus, on_windows
from gpustack.diagnose.machine.naming import kernel, machine, more
from gpustack.diagnose.machine.values import (
    because,
    because_of,
    copies,
    flag,
    number,
    table,
    text,
    texts,
    told,
    version,
)
from gpustack.diagnose.rule import rule
from gpustack.matrix.subjects import amd_intel
from gpustack.matrix.subjects.ranges import is_version, numbers
from gpustack.model.command import DOTTED, sh, step
from gpustack.model.facts import Facts, Instance, Layer, Message
from gpustack.model.report import Because, Confidence, Finding, Fix, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.matrix.subjects.amd_intel import TorchRocmBuild


DRIVERS = frozenset({"amdgpu", "radeon"})
NO_KFD = "kfd-absent"
KFD_FAILS = ("rocm-tool-fails", "no-hip-device", "kfd-not-opened")


@rule("gpu-unsupported-by-kfd", Layer.HARDWARE, "amdgpu.ko")
def gpu_unsupported_by_kfd(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """The kernel does not support computing on this AMD GPU.

    ROCm reaches a GPU through KFD, a part of the kernel's amdgpu driver. KFD knows no GPU older than Hawaii (GCN 2) and
    leaves out some later ones (Topaz), and older chips need PCI Express atomics from the slot and the processor. Such a
    GPU can drive a display but cannot compute with ROCm: use another GPU, a slot that supports atomics, or a newer
    kernel if the GPU is newer than the kernel.
    """
    yield from _kfd_seen(facts)
    if heard(facts, NO_KFD) and (facts.host.wsl or on_windows(facts)):
        yield gpu_unsupported_by_kfd.finding(
            title="The kernel of WSL has no KFD, through which ROCm for Linux reaches an AMD GPU",
            because=grounds(facts, NO_KFD),
            fix=fixes.advice(
                "Install AMD's ROCm for WSL, if it supports this GPU, or run ROCm on Linux itself.",
                step("in WSL: `sudo amdgpu-install --usecase=wsl,rocm --no-dkms`"),
                verify=sh("rocminfo"),
            ),
            confidence=Confidence.LIKELY,
        )
        return
    refused = said(facts, "kfd-not-supported", "kfd-pcie-atomics")
    if not refused:
        yield from _known(facts, matrix)
        return
    names = [name for copy in on_bus(facts, "amd") if (name := text(copy.facts, "name"))]
    chip = next((one.values["gpu"] for one in refused if one.values.get("gpu")), None)
    whole = " / ".join(dict.fromkeys(part for part in (chip, *names[:1]) if part)) or "this AMD GPU"
    atomics = heard(facts, "kfd-pcie-atomics")
    yield gpu_unsupported_by_kfd.finding(
        severity=Severity.INFO if heard(facts, "kfd-added") and not _one_of_two(facts) else Severity.ERROR,
        title=f"KFD, the kernel's compute driver for AMD GPUs, does not support {whole}"
        + (" in this slot (no PCIe atomics)" if atomics else ""),
        detail=machine(facts, matrix, "ROCm cannot use a GPU without KFD."),
        because=(*map(because_said, refused[:3]), *grounds(facts, "kfd-added", most=1), *more(facts)),
        fix=_kfd_fix(refused, facts, atomics=atomics),
        confidence=Confidence.CERTAIN,
    )


def _one_of_two(facts: Facts) -> bool:
    """Return whether of two GPUs of one kind KFD took one in and refused the other for its slot."""
    refused, added = (
        {one.values.get("gpu") for one in said(facts, kind)} - {None} for kind in ("kfd-pcie-atomics", "kfd-added")
    )
    return bool(refused & added)


def _known(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Return the GPU whose chip KFD has no entry for, where ROCm does not start and no other GPU of AMD is there."""
    bus = on_bus(facts, "amd")
    if not from_text(facts) or not bus or not heard(facts, *KFD_FAILS) or heard(facts, "kfd-added"):
        return
    old = [(copy, one) for copy in bus for one in amd_intel.without_kfd(matrix) if one.never and _is(copy, one.chips)]
    if len(old) < len(bus):
        return
    copy, chips = old[0]
    yield gpu_unsupported_by_kfd.finding(
        title=f"KFD, the kernel's compute driver for AMD GPUs, does not support {text(copy.facts, 'name')}",
        detail=machine(facts, matrix, "ROCm cannot use a GPU without KFD."),
        because=(because_of(facts, "pci-display", copy, "name"), *grounds(facts, *KFD_FAILS, most=2), *more(facts)),
        row=chips.row,
        fix=_kfd_fix((), facts, atomics=False),
        confidence=Confidence.LIKELY,
    )


def _is(copy: Instance, chips: tuple[str, ...]) -> bool:
    name = text(copy.facts, "name") or ""
    return any(re.search(rf"\b{chip}\b", name) for chip in chips)


def _kfd_seen(facts: Facts) -> Iterator[Finding]:
    """Return each GPU of a machine that was looked at which the kernel drives and KFD does not list."""
    whole_kernel = flag(told(facts, amd.MODULE), "kfd") is False
    others = nvidia_here(facts) or bool(amd.computing(facts))
    log = amd.logged(facts, "kfd")
    for gpu in amd.gpus(facts):
        if gpu.kfd or gpu.driver not in DRIVERS or number(gpu.copy.facts, "hidden_nodes"):
            continue
        harmless = others or gpu.integrated
        yield gpu_unsupported_by_kfd.finding(
            instance=gpu.mark,
            severity=Severity.ERROR
            if amd.wanted(facts) and not others
            else Severity.INFO
            if harmless
            else Severity.WARNING,
            component=amd.MODULE,
            title="This kernel has no KFD, the compute driver for AMD GPUs"
            if whole_kernel
            else f"KFD, the kernel's compute driver for AMD GPUs, does not list {gpu.title} at {gpu.mark}",
            detail=" ".join(("ROCm cannot use a GPU without KFD.", *log[-1:])),
            because=(
                *(Because(component="kernel-log", fact="amdgpu", value=line, source="kernel log") for line in log[-2:]),
                because_of(facts, "amd-gpu", gpu.copy, "kfd"),
                because_of(facts, "amd-gpu", gpu.copy, "driver"),
                because_of(facts, "amd-gpu", gpu.copy, "device_id"),
            ),
            fix=fixes.advice(
                "Use a kernel that is built with CONFIG_HSA_AMD, as those of all major distributions are."
                if whole_kernel
                else "Read why in the kernel's log: chips older than GCN 2 are not supported at all, a newer one needs "
                "a newer kernel, and some need PCIe atomics from the slot. Mesa's OpenCL or Vulkan may still "
                "compute on it.",
                sh("sudo dmesg | grep -i kfd"),
                sh("uname -r"),
                verify=sh("rocminfo | grep gfx"),
            ),
            confidence=Confidence.CERTAIN,
        )


def _kfd_fix(refused: tuple[Message, ...], facts: Facts, *, atomics: bool) -> Fix:
    new = any((one.values.get("gpu") or "").startswith("GC IP") for one in refused)
    if atomics:
        words = "Put the GPU in a slot that is wired to the processor and supports PCIe atomics, or use a newer GPU."
    elif new:
        words = f"Install a newer kernel than {kernel(facts) or 'this one'}, whose KFD knows this GPU."
    else:
        words = "No setting changes that: use a GPU that ROCm supports, or compute with Mesa's OpenCL or with Vulkan."
    return fixes.advice(words, sh("dmesg | grep -i kfd"), sh("uname -r"), verify=sh("rocminfo | grep gfx"))


@rule("amdgpu-not-loaded", Layer.KERNEL_MODULE, "amdgpu")
def amdgpu_not_loaded(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """An AMD GPU is on the bus, but the kernel's amdgpu driver is not bound to it.

    Without it there is no /dev/kfd, and ROCm sees no GPU. The module is kept out by a configuration file or the
    kernel's command line (nomodeset, blacklist), it is not built for the running kernel, or it gave up on the GPU,
    usually because firmware files are missing: the kernel's log says which.
    """
    module = told(facts, amd.MODULE)
    others = nvidia_here(facts) or bool(amd.computing(facts))
    kept_out, log = texts(module, "blacklisted"), amd.logged(facts)
    for gpu in amd.gpus(facts):
        if gpu.driver is not None or gpu.kfd:
            continue
        loaded = flag(module, "loaded") is True
        why = kept_out if not loaded else ()
        yield amdgpu_not_loaded.finding(
            instance=gpu.mark,
            severity=Severity.INFO if others else Severity.ERROR if amd.wanted(facts) else Severity.WARNING,
            component=amd.MODULE,
            title=f"The driver amdgpu {'has not taken' if loaded else 'is not loaded for'} the GPU at {gpu.mark}",
            detail=f"It is kept out by {' and '.join(why)}." if why else log[-1] if log else "",
            because=(
                because_of(facts, "amd-gpu", gpu.copy, "driver"),
                because_of(facts, "amd-gpu", gpu.copy, "device_id"),
                *([because(facts, amd.MODULE, "blacklisted")] if why else []),
                *(Because(component="kernel-log", fact="amdgpu", value=line, source="kernel log") for line in log[-3:]),
            ),
            fix=fixes.advice(
                "Remove what blocks it, and read in the kernel's log why it gave up; missing firmware is in "
                "the package linux-firmware (firmware-amd-graphics on Debian).",
                sh("sudo modprobe amdgpu"),
                sh("sudo dmesg | grep -iE 'amdgpu|firmware'"),
                verify=sh("ls /dev/kfd /dev/dri"),
            ),
            confidence=Confidence.CERTAIN if why else Confidence.LIKELY,
        )


CERTAIN = (
    *("tensile-missing", "hip-no-binary", "hip-invalid-function", "ollama-amdgpu-unsupported", "rocm-gpu-unsupported"),
)
PARTS = re.compile(
    r"flash|attention|fp8|hipblaslt|triton|composable|aotriton|miopen|warning|experimental", re.IGNORECASE
)
WHOLE = re.compile(r"supported by (?:this |the |your )?(?:ROCm|HIP|PyTorch|build)", re.IGNORECASE)
AS_CUDA = ("no-kernel-image", "invalid-device-function")  # what llama.cpp prints as errors of CUDA
GFX_FAILS = ("gpu-unused-said", "cuda-available-false", "crash-said")
OVERRIDE = "HSA_OVERRIDE_GFX_VERSION"
# Where no row names an override: the first target of each family, as AMD numbers them.
FAMILIES = {"gfx103": "10.3.0", "gfx110": "11.0.0", "gfx115": "11.0.0"}


@rule("rocm-gfx-unsupported", Layer.FRAMEWORK, "rocm")
def rocm_gfx_unsupported(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """A ROCm build has no code for this AMD GPU.

    Code for AMD GPUs is built for each target (gfx1030, gfx1100 …) and runs only on it; builds include the targets that
    AMD supports. Other GPUs get "hipErrorNoBinaryForGpu", "HIP error: invalid device function" or "Cannot read
    TensileLibrary.dat … for GPU arch". Use a build that has the target. If a close relative is supported, the variable
    HSA_OVERRIDE_GFX_VERSION makes ROCm treat the GPU as that one, which AMD does not support but which often works.
    """
    if amd.gpus(facts):
        yield from _gfx_seen(facts, matrix)
        return
    gfx = target(facts, matrix)
    build = torch_build(facts, matrix)
    spoken = said(facts, "gfx-unsupported")
    # By the names of products: a text may speak of other GPUs besides.
    found = (amd_intel.gfx_of(matrix, text(copy.facts, "name") or "") for copy in copies(facts, "amd-gpu"))
    named = {one.gfx for one in found if one}
    complaints = [
        one
        for one in spoken
        if (WHOLE.search(one.line) or not PARTS.search(one.line))
        and not (named and (one.values.get("gfx") or one.values.get("gfx2") or "") not in named)
    ]
    gfx = min(named) if named and gfx not in named and not heard(facts, *CERTAIN) else gfx
    archs = texts(told(facts, "pytorch"), "archs") or (build.archs if build else ())
    of_rocm = any(one.startswith("gfx") for one in archs)
    listed = bool(gfx and of_rocm and gfx not in archs)
    overridden = text(table(told(facts, "environment"), "variables"), OVERRIDE)
    if heard(facts, *CERTAIN):
        yield _finding(facts, matrix, gfx, Confidence.CERTAIN)
    elif (
        (complaints and copies(facts, "amd-gpu") and not _of_others(facts))
        or (not overridden and (listed or (gfx and _left_alone(facts, matrix, gfx))))
        or (heard(facts, "gfx-override-said") and copies(facts, "amd-gpu") and not heard(facts, "rate-said"))
        or (amd.alone(facts) and heard(facts, *AS_CUDA))
    ):
        yield _finding(facts, matrix, gfx, Confidence.LIKELY)


def _gfx_seen(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Return each PyTorch for ROCm of a machine that was looked at which has no code for a GPU there."""
    here = amd.computing(facts)
    for build in builds(facts):
        tag = (build.copy.build or "").removeprefix("rocm")
        known = amd_intel.torch_build_of(matrix, build.copy.version or "", tag)
        archs = texts(build.copy.facts, "archs") or (known.archs if known else ())
        without = [gpu for gpu in here if gpu.gfx not in archs]
        if build.accelerator != "rocm" or not archs or not without or amd.override(facts) in archs:
            continue
        some = len(without) < len(here)
        aside = some and all(gpu.integrated for gpu in without)
        gpu = without[0]
        yield rocm_gfx_unsupported.finding(
            instance=build.mark,
            severity=Severity.INFO if aside else Severity.WARNING if some else Severity.ERROR,
            component=build.component,
            title=f"{build.name} has no code for {gpu.title}",
            detail=f"It has code for {' '.join(archs)}."
            + (" Hide this GPU with HIP_VISIBLE_DEVICES where a program takes it first." if some else ""),
            because=(
                because_of(facts, build.component, build.copy, "version"),
                because_of(facts, build.component, build.copy, "archs"),
                because_of(facts, "amd-gpu", gpu.copy, "gfx"),
            ),
            row=known.row if known else None,
            confidence=Confidence.CERTAIN if texts(build.copy.facts, "archs") else Confidence.LIKELY,
            fix=_gfx_fix(gpu.gfx, matrix),
        )


def _left_alone(facts: Facts, matrix: Matrix, gfx: str) -> bool:
    """Return whether someone says that a program of ROCm does not use a GPU for which no usual build has code."""
    of_rocm = heard(facts, "rocm-named", "gfx-unsupported") or bool(version(facts, "rocm"))
    here = (torch_version(facts) or "").partition("+")[0]
    builds_ = [one for one in amd_intel.torch_builds(matrix) if one.archs and _until(one, here)]
    usual = any(gfx in one.archs for one in builds_)
    return of_rocm and bool(builds_ and copies(facts, "amd-gpu")) and not usual and heard(facts, *GFX_FAILS)


def _until(build: TorchRocmBuild, release: str) -> bool:
    """Return whether a build is of this release of torch or an older one; any is where the release is not known."""
    return not is_version(release) or numbers(build.torch) <= numbers(release)


def _of_others(facts: Facts) -> bool:
    """Return whether the only GPU that is named is NVIDIA's, so that a target is mentioned in general."""
    named_ = any(text(copy.facts, "name") for copy in copies(facts, "amd-gpu"))
    return bool(copies(facts, "gpu")) and not named_ and not version(facts, "rocm")


def target(facts: Facts, matrix: Matrix) -> str | None:
    """Return the target of the AMD GPU: as a message names it, as ROCm lists it, or by the product's name."""
    for one in said(facts, *CERTAIN, "gfx-unsupported"):
        named = one.values.get("gfx") or one.values.get("gfx2")
        if named:
            return named
    for copy in copies(facts, "amd-gpu"):
        gfx = text(copy.facts, "gfx")
        known = None if gfx else amd_intel.gfx_of(matrix, text(copy.facts, "name") or "")
        if gfx or known:
            return gfx or (known.gfx if known else None)
    return None


def torch_build(facts: Facts, matrix: Matrix) -> TorchRocmBuild | None:
    """Return what is known of the PyTorch for ROCm that is here."""
    match = re.match(r"(?P<torch>\d{1,4}\.\d{1,4})[^+]{0,80}\+rocm(?P<rocm>[\d.]{1,20}\d)$", torch_version(facts) or "")
    return amd_intel.torch_build_of(matrix, match["torch"], match["rocm"]) if match else None


def _finding(facts: Facts, matrix: Matrix, gfx: str | None, confidence: Confidence) -> Finding:
    name, build = _name(facts), torch_build(facts, matrix)
    what = _what(facts)
    gpu = " ".join(part for part in (name, f"({gfx})" if gfx and name else gfx) if part) or "this AMD GPU"
    listed = list(dict.fromkeys(one.values.get("gfx", "") for one in said(facts, "tensile-list")))
    printed = [one for one in texts(told(facts, "pytorch"), "archs") if one.startswith("gfx")]
    archs = listed or printed or (list(build.archs) if build else [])
    has = f"It has code for {' '.join(archs)}." if archs else ""
    return rocm_gfx_unsupported.finding(
        title=f"{what} has no code for {gpu}",
        detail=has,
        because=(
            *grounds(facts, *CERTAIN, "gfx-unsupported", "gfx-override-said", *(AS_CUDA if amd.alone(facts) else ())),
            *_gpu(facts),
            *because_torch(facts),
        ),
        row=build.row if build else None,
        confidence=confidence,
        fix=_gfx_fix(gfx, matrix),
    )


def _what(facts: Facts) -> str:
    release = torch_version(facts)
    if release and ("rocm" in release or not heard(facts, "tensile-missing")):
        return f"PyTorch {release}"
    tensorflow = installed(facts, "tensorflow-rocm") or version(facts, "tensorflow")
    if tensorflow:
        return f"TensorFlow {tensorflow} for ROCm"
    found = version(facts, "rocm")
    of = f" of ROCm {found}" if found else ""
    return f"rocBLAS{of}" if heard(facts, "tensile-missing") else f"The ROCm build{of}"


def _name(facts: Facts) -> str | None:
    return next((name for copy in copies(facts, "amd-gpu") if (name := text(copy.facts, "name"))), None)


def _gpu(facts: Facts) -> Iterator[Because]:
    for copy in copies(facts, "amd-gpu")[:1]:
        yield because_of(facts, "amd-gpu", copy, "gfx")
        yield because_of(facts, "amd-gpu", copy, "name")
    if version(facts, "rocm"):
        yield because(facts, "rocm", "version")


def _gfx_fix(gfx: str | None, matrix: Matrix) -> Fix:
    row = amd_intel.override_of(matrix, gfx) if gfx else None
    value = (
        row.value if row else next((held for family, held in FAMILIES.items() if (gfx or "").startswith(family)), None)
    )
    having = [one for one in amd_intel.torch_builds(matrix) if gfx in one.archs]
    newest = f" The newest PyTorch that has it: {having[-1].torch} for ROCm {having[-1].rocm}." if having else ""
    outcome = f" ({row.outcome})" if row else ""
    override = f" Or let ROCm treat it as its closest relative with {OVERRIDE}={value}{outcome}." if value else ""
    return fixes.advice(
        f"Install a build with code for {gfx or 'this target'}, or build it for that target.{newest}{override}",
        *(
            (sh("export HSA_OVERRIDE_GFX_VERSION={value}", value=DOTTED(value)),)
            if value
            else (sh("rocminfo | grep gfx"),)
        ),
        verify=sh("python -c \"import torch; print(torch.ones(1, device='cuda'))\""),
    )
