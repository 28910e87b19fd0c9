"""nvidia_uvm's HMM keeps CUDA from starting.

HMM (heterogeneous memory management) lets GPUs use a program's ordinary memory. With the open kernel module, on some
kernels it finds no room in the address space when nvidia_uvm starts, and cuInit answers with 3 (not initialised),
although nvidia-smi is well. Switch HMM off (uvm_disable_hmm=1) and load nvidia_uvm again, or start the kernel with
nokaslr; the proprietary module has no HMM.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.rules import fixes
from gpustack.diagnose.rules.reading import number, told, version
from gpustack.diagnose.rules.saying import grounds, heard, said
from gpustack.diagnose.rules.seen import on_windows
from gpustack.diagnose.rules.told_machine import architecture, branch_of, is_open, machine, more, release
from gpustack.model.command import sh
from gpustack.model.facts import Layer
from gpustack.model.report import Confidence, Finding, Fix, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts

# The first branch whose open module has HMM. Source: NVIDIA technical blog, "Simplifying GPU Application Development
# with Heterogeneous Memory Management" (2023-08).
FIRST = 535
WORKS = "cuda-works-said"
TORCH = "torch-init-failed"  # PyTorch's words for code 3 of CUDA
FAILS = ("cuinit-3", TORCH, "init-error", "no-device", "cuda-unknown-error", "cuinit-999")


def judge(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Give the finding where the log has HMM's own error, or cuInit answers 3 where nvidia_uvm has HMM."""
    sure, spoken = heard(facts, "uvm-hmm"), heard(facts, "uvm-hmm-named")
    number = branch_of(release(facts))
    has_hmm = is_open(facts) or _only_open(facts, matrix)
    suspect = heard(facts, "cuinit-3") and (has_hmm or (number or 0) >= FIRST) and (number is None or number >= FIRST)
    suspect = suspect or (heard(facts, TORCH) and has_hmm and _lists_all_the_same(facts))
    well = any("uvm_disable_hmm=1" not in one.line for one in said(facts, "cuda-available-true", WORKS))
    if on_windows(facts) or well or not (sure or spoken or suspect):
        return
    yield Finding(
        id="uvm-hmm-bug",
        severity=Severity.ERROR,
        layer=Layer.KERNEL_MODULE,
        component="nvidia-uvm.ko",
        title="nvidia_uvm's HMM keeps CUDA from starting"
        if sure
        else "CUDA does not start although the driver is loaded: HMM of nvidia_uvm is the likely cause",
        detail=machine(
            facts,
            matrix,
            "cuInit fails with 3 (CUDA_ERROR_NOT_INITIALIZED)." if heard(facts, "cuinit-3") else "",
            "HMM comes with the open kernel module; uvm_disable_hmm=1 switches it off.",
        ),
        because=(*grounds(facts, "uvm-hmm", "uvm-hmm-named"), *grounds(facts, *FAILS, most=2), *more(facts)),
        fix=Fix(
            text=f"{fixes.place(facts)}Switch HMM off and load nvidia_uvm again (stop the programs on the GPU first), "
            "or use the proprietary module, or start the kernel with nokaslr.",
            commands=(
                sh("echo 'options nvidia_uvm uvm_disable_hmm=1' | sudo tee /etc/modprobe.d/nvidia-uvm-hmm.conf"),
                sh("sudo modprobe -r nvidia_uvm"),
                sh("sudo modprobe nvidia_uvm"),
            ),
            needs_root=True,
            verify=sh("cat /sys/module/nvidia_uvm/parameters/uvm_disable_hmm"),
        ),
        confidence=Confidence.CERTAIN if sure else Confidence.LIKELY if spoken or has_hmm else Confidence.POSSIBLE,
    )


def _lists_all_the_same(facts: Facts) -> bool:
    """Tell whether NVML sees the GPU, so that only CUDA does not start."""
    works = heard(facts, "host-smi-works", "wsl-smi-works") or number(told(facts, "nvml"), "code") == 0
    return works or bool(version(facts, "nvml"))


def _only_open(facts: Facts, matrix: Matrix) -> bool:
    """Tell whether the GPU runs with the open module only."""
    arch = architecture(facts, matrix)
    flavour = matrix.flavour(arch) if arch else None
    return flavour is not None and flavour.closed == "impossible"
