"""CUDA answers with "unknown error" (999) while NVML is well: nvidia-uvm is mostly stale after a suspend.

After the machine slept, the module for unified memory may keep a state that the GPU has lost. Stop the programs on the
GPU and load the module again. To keep it from coming back, let the driver save its memory before it sleeps
(NVreg_PreserveVideoMemoryAllocations=1 and the nvidia-suspend services).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.rules import fixes
from gpustack.diagnose.rules.compatibility import driver_fit
from gpustack.diagnose.rules.reading import because, flag, number, told
from gpustack.diagnose.rules.saying import grounds, heard
from gpustack.diagnose.rules.seen import builds, from_text, nvidia_here, on_windows
from gpustack.diagnose.rules.told_machine import machine, more
from gpustack.model.command import sh
from gpustack.model.facts import Layer
from gpustack.model.report import Confidence, Finding, Fix, Kept, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts

UNKNOWN = 999
FAILS = (
    *("cuinit-999", "cuda-unknown-error", "init-error", "cuinit-3", "no-device", "cuda-launch-failure"),
    *("cuda-fails-said", "gpu-unused-said", "cuda-available-false"),
)
OLD = ("insufficient-driver", "torch-driver-too-old", "runtime-above-driver", "image-wants-driver")


def judge(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Give the finding where cuInit says 999, NVML is well and nvidia-uvm is loaded."""
    yield from _told(facts, matrix)
    yield from _seen(facts, matrix)


def _told(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Give the finding where CUDA fails after the machine slept, or cannot say why it does not start."""
    slept = heard(facts, "suspended")
    fails = heard(facts, *FAILS) if slept else heard(facts, "cuinit-999")
    elsewhere = on_windows(facts) or (facts.host.container is not None and not slept)
    old = not slept and (heard(facts, *OLD) or _too_old(facts, matrix))
    if not fails or old or elsewhere or not (from_text(facts) or nvidia_here(facts)):
        return
    row = matrix.cuda_codes.get(UNKNOWN)
    how = "unknown error, 999" if heard(facts, "cuinit-999", "cuda-unknown-error") else "it fails"
    how_stale = "stale" if slept else "probably stale after a suspend"
    what = "after the machine slept (suspend)" if slept else "and the driver lists the GPU"
    yield Finding(
        id="uvm-stale-after-suspend",
        severity=Severity.ERROR,
        layer=Layer.KERNEL_MODULE,
        component="nvidia-uvm.ko",
        title=f"CUDA does not start ({how}) {what}: nvidia_uvm is {how_stale}",
        detail=machine(
            facts,
            matrix,
            "nvidia_uvm keeps a state across suspend and resume that the GPU has lost.",
            "" if slept else "If the machine did not sleep: is nvidia_uvm loaded, and is /dev/nvidia-uvm there?",
        ),
        because=(*grounds(facts, *FAILS), *grounds(facts, "suspended", most=2), *more(facts)),
        row=row.row if row else None,
        fix=_fix(facts),
        confidence=Confidence.LIKELY if slept else Confidence.POSSIBLE,
    )


def _too_old(facts: Facts, matrix: Matrix) -> bool:
    """Tell whether the driver is too old for a build that is here, which says enough."""
    return any(driver_fit(one.cuda, facts, matrix).kept is Kept.BROKEN for one in builds(facts) if one.cuda)


def _fix(facts: Facts) -> Fix:
    return Fix(
        text=f"{fixes.place(facts)}Stop the programs on the GPU and load nvidia_uvm again; otherwise restart. To "
        "keep it away, set NVreg_PreserveVideoMemoryAllocations=1 and enable nvidia-suspend and nvidia-resume.service.",
        commands=(sh("sudo modprobe -r nvidia_uvm"), sh("sudo modprobe nvidia_uvm")),
        needs_root=True,
        verify=sh("gpustack doctor"),
    )


def _seen(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Give the finding for a machine that was looked at."""
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
        fix=_fix(facts),
        confidence=Confidence.LIKELY,
    )
