"""CUDA answers with "unknown error" (999) while NVML is well: nvidia-uvm is mostly stale after a suspend.

After the machine slept, the module for unified memory may keep a state that the GPU has lost. Stop the programs on the
GPU and load the module again. To keep it from coming back, let the driver save its memory before it sleeps
(NVreg_PreserveVideoMemoryAllocations=1 and the nvidia-suspend services).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.model.facts import Layer
from gpustack.model.report import Confidence, Finding, Fix, Severity
from gpustack.rules import fixes
from gpustack.rules.reading import because, flag, number, told
from gpustack.rules.seen import nvidia_here

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts

UNKNOWN = 999


def judge(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Give the finding where cuInit says 999, NVML is well and nvidia-uvm is loaded."""
    uvm = flag(told(facts, "nvidia-uvm.ko"), "loaded")
    code = number(told(facts, "libcuda"), "cu_init")
    if code != UNKNOWN or not uvm or number(told(facts, "nvml"), "code") != 0 or not nvidia_here(facts):
        return
    row = matrix.cuda_codes.get(UNKNOWN)
    yield Finding(
        id="uvm-stale-after-suspend",
        severity=Severity.ERROR,
        layer=Layer.KERNEL_MODULE,
        component="nvidia-uvm.ko",
        title="CUDA says unknown error (999) while NVML is well: nvidia-uvm is probably stale",
        because=(
            because(facts, "libcuda", "cu_init"),
            because(facts, "nvml", "code"),
            because(facts, "nvidia-uvm.ko", "loaded"),
        ),
        row=row.row if row else None,
        fix=Fix(
            text=f"{fixes.place(facts)}Stop the programs on the GPU and load nvidia-uvm again; otherwise restart.",
            commands=("sudo modprobe -r nvidia_uvm", "sudo modprobe nvidia_uvm"),
            needs_root=True,
            verify="gpustack doctor",
        ),
        confidence=Confidence.LIKELY,
    )
