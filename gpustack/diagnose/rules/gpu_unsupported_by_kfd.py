"""The kernel does not take this AMD GPU in for computing.

ROCm reaches a GPU through KFD, a part of the kernel's amdgpu driver. KFD knows no GPU older than Hawaii (GCN 2) and
leaves out some later ones (Topaz), and older chips need PCI Express atomics from the slot and the processor. Such a GPU
shows pictures and cannot compute with ROCm: use another GPU, another slot for atomics, or a newer kernel where the GPU
is newer than the kernel.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpustack.diagnose.rules import amd
from gpustack.diagnose.rules.reading import because_of, flag, number, text, told
from gpustack.diagnose.rules.saying import because_said, grounds, heard, said
from gpustack.diagnose.rules.seen import from_text, nvidia_here, on_bus
from gpustack.diagnose.rules.told_machine import kernel, machine, more
from gpustack.matrix.subjects import amd_intel
from gpustack.model.command import sh
from gpustack.model.facts import Layer
from gpustack.model.report import Because, Confidence, Finding, Fix, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts, Instance, Message


DRIVERS = frozenset({"amdgpu", "radeon"})
FAILS = ("rocm-tool-fails", "no-hip-device", "kfd-not-opened")


def judge(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Give the finding where KFD refused a GPU; only a remark where it took another in."""
    yield from _seen(facts)
    refused = said(facts, "kfd-not-supported", "kfd-pcie-atomics")
    if not refused:
        yield from _known(facts, matrix)
        return
    names = [name for copy in on_bus(facts, "amd") if (name := text(copy.facts, "name"))]
    chip = next((one.values["gpu"] for one in refused if one.values.get("gpu")), None)
    whole = " / ".join(dict.fromkeys(part for part in (chip, *names[:1]) if part)) or "this AMD GPU"
    atomics = heard(facts, "kfd-pcie-atomics")
    yield Finding(
        id="gpu-unsupported-by-kfd",
        severity=Severity.INFO if heard(facts, "kfd-added") and not _one_of_two(facts) else Severity.ERROR,
        layer=Layer.HARDWARE,
        component="amdgpu.ko",
        title=f"KFD, the kernel's compute driver for AMD GPUs, does not support {whole}"
        + (" in this slot (no PCIe atomics)" if atomics else ""),
        detail=machine(facts, matrix, "ROCm cannot use a GPU without KFD."),
        because=(*map(because_said, refused[:3]), *grounds(facts, "kfd-added", most=1), *more(facts)),
        fix=_fix(refused, facts, atomics=atomics),
        confidence=Confidence.CERTAIN,
    )


def _one_of_two(facts: Facts) -> bool:
    """Tell whether of two GPUs of one kind KFD took one in and refused the other for its slot."""
    refused, added = (
        {one.values.get("gpu") for one in said(facts, kind)} - {None} for kind in ("kfd-pcie-atomics", "kfd-added")
    )
    return bool(refused & added)


def _known(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Give the GPU whose chip KFD has no entry for, where ROCm does not start and no other GPU of AMD is there."""
    bus = on_bus(facts, "amd")
    if not from_text(facts) or not bus or not heard(facts, *FAILS) or heard(facts, "kfd-added"):
        return
    old = [(copy, one) for copy in bus for one in amd_intel.without_kfd(matrix) if one.never and _is(copy, one.chips)]
    if len(old) < len(bus):
        return
    copy, chips = old[0]
    yield Finding(
        id="gpu-unsupported-by-kfd",
        severity=Severity.ERROR,
        layer=Layer.HARDWARE,
        component="amdgpu.ko",
        title=f"KFD, the kernel's compute driver for AMD GPUs, does not support {text(copy.facts, 'name')}",
        detail=machine(facts, matrix, "ROCm cannot use a GPU without KFD."),
        because=(because_of(facts, "pci-display", copy, "name"), *grounds(facts, *FAILS, most=2), *more(facts)),
        row=chips.row,
        fix=_fix((), facts, atomics=False),
        confidence=Confidence.LIKELY,
    )


def _is(copy: Instance, chips: tuple[str, ...]) -> bool:
    name = text(copy.facts, "name") or ""
    return any(re.search(rf"\b{chip}\b", name) for chip in chips)


def _seen(facts: Facts) -> Iterator[Finding]:
    """Give each GPU of a machine that was looked at which the kernel drives and KFD does not list."""
    whole_kernel = flag(told(facts, amd.MODULE), "kfd") is False
    others = nvidia_here(facts) or bool(amd.computing(facts))
    log = amd.logged(facts, "kfd")
    for gpu in amd.gpus(facts):
        if gpu.kfd or gpu.driver not in DRIVERS or number(gpu.copy.facts, "hidden_nodes"):
            continue
        harmless = others or gpu.integrated
        yield Finding(
            id="gpu-unsupported-by-kfd",
            instance=gpu.mark,
            severity=Severity.ERROR
            if amd.wanted(facts) and not others
            else Severity.INFO
            if harmless
            else Severity.WARNING,
            layer=Layer.HARDWARE,
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
            fix=Fix(
                text="Take a kernel that is built with CONFIG_HSA_AMD: every large distribution's is."
                if whole_kernel
                else "Read why in the kernel's log: chips older than GCN 2 are not supported at all, a newer one needs "
                "a newer kernel, and some need PCIe atomics of the slot. OpenCL of Mesa or Vulkan may compute on it.",
                commands=(sh("sudo dmesg | grep -i kfd"), sh("uname -r")),
                verify=sh("rocminfo | grep gfx"),
            ),
            confidence=Confidence.CERTAIN,
        )


def _fix(refused: tuple[Message, ...], facts: Facts, *, atomics: bool) -> Fix:
    new = any((one.values.get("gpu") or "").startswith("GC IP") for one in refused)
    if atomics:
        words = "Put the GPU in a slot that is wired to the processor and gives PCIe 3.0 atomics, or use a newer GPU."
    elif new:
        words = f"Install a newer kernel than {kernel(facts) or 'this one'}, whose KFD knows this GPU."
    else:
        words = "No setting changes that: use a GPU that ROCm supports, or compute by OpenCL of Mesa or by Vulkan."
    return Fix(text=words, commands=(sh("dmesg | grep -i kfd"), sh("uname -r")), verify=sh("rocminfo | grep gfx"))
