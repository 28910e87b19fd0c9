"""nvidia-uvm, which CUDA needs: not loaded, stale after a suspend, or broken by a kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose import fixes
from gpustack.diagnose.machine.described import architecture, branch_of, is_open, machine, more, release, works
from gpustack.diagnose.machine.inventory import builds, from_text, nvidia_here, on_windows, starts
from gpustack.diagnose.machine.messages import grounds, heard, said
from gpustack.diagnose.machine.values import because, flag, items, number, status, text, told, version
from gpustack.diagnose.requirements.fits import driver_fit
from gpustack.diagnose.rule import rule
from gpustack.model.command import sh
from gpustack.model.facts import Layer, Status
from gpustack.model.report import Confidence, Finding, Fix, Kept, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts


NODE = "/dev/nvidia-uvm"
MODULE = "nvidia-uvm.ko"
MISSING_FAILS = ("cuinit-999", "cuda-unknown-error", "no-device", "cuinit-3", "init-error")


@rule("nvidia-uvm-missing", layer=Layer.KERNEL_MODULE, component="nvidia-uvm.ko", severity=Severity.ERROR)
def nvidia_uvm_missing(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """nvidia-uvm, the module for unified memory, is not there, and CUDA cannot start without it.

    NVML and nvidia-smi work without it, so the driver looks well. It is loaded by the first CUDA program of root, or at
    the start of the machine; in a container its device node must be passed in. Load it and make its node.
    """
    yield from _missing_told(facts, matrix)
    yield from _missing_seen(facts)


def _missing_told(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Return the finding where a text says that the module or its node is missing, or lists modules without it."""
    missing = said(facts, "uvm-missing")
    left_out = heard(facts, *MISSING_FAILS) and (_listed_without(facts) or _made_by_root(facts))
    if heard(facts, "cuda-available-true") or not (missing or left_out) or (left_out and works(facts) and not missing):
        return
    node = any("/dev/nvidia-uvm" in one.line for one in missing)
    yield nvidia_uvm_missing.finding(
        title=f"{NODE}, the node of nvidia_uvm, is not there, and CUDA cannot start without it"
        if node
        else "nvidia_uvm (nvidia-uvm) is not loaded, and CUDA cannot start without it",
        detail=machine(facts, matrix, "NVML and graphics work without it, so the driver looks well."),
        because=(*grounds(facts, "uvm-missing"), *grounds(facts, *MISSING_FAILS, most=2), *more(facts)),
        fix=_missing_fix(facts),
        confidence=Confidence.CERTAIN if missing else Confidence.LIKELY,
    )


def _made_by_root(facts: Facts) -> bool:
    """Return whether CUDA starts for root alone, who may load the module and make its node on the way."""
    return heard(facts, "works-as-root") and heard(facts, "cuinit-999", "cuda-unknown-error")


def _listed_without(facts: Facts) -> bool:
    """Return whether a text lists the modules in memory or the nodes, and nvidia-uvm is not among them."""
    nodes = said(facts, "nodes-listed")
    if nodes and not any("uvm" in one.line or "uvm" in one.values.get("rest", "") for one in nodes):
        return True
    listed = from_text(facts) and flag(told(facts, "nvidia.ko"), "loaded") and facts.find("nvidia-drm.ko") is not None
    return bool(listed) and facts.find(MODULE) is None


def _missing_fix(facts: Facts) -> Fix:
    return Fix(
        text=f"{fixes.place(facts)}Load nvidia_uvm and make its device node, now and at each start (a line nvidia-uvm "
        "in /etc/modules-load.d/); for a container, pass the node in.",
        commands=(sh("sudo modprobe nvidia_uvm"), sh("sudo nvidia-modprobe -c 0 -u")),
        needs_root=True,
        verify=sh("gpustack doctor"),
    )


def _missing_seen(facts: Facts) -> Iterator[Finding]:
    """Return the finding for a machine that was looked at."""
    uvm = told(facts, MODULE)
    nodes = [node for node in items(uvm, "nodes") if text(node, "path") == NODE]
    out = status(facts, MODULE) is Status.ABSENT or flag(uvm, "loaded") is False
    no_node = any(flag(node, "exists") is False for node in nodes)
    if not nvidia_here(facts) or starts(facts) is not False or not flag(told(facts, "nvidia.ko"), "loaded"):
        return
    if out or no_node:
        yield nvidia_uvm_missing.finding(
            title="nvidia-uvm is not loaded, and CUDA cannot start without it" if out else f"{NODE} does not exist",
            because=(
                because(facts, MODULE, "loaded"),
                because(facts, MODULE, "nodes"),
                because(facts, "libcuda", "cu_init"),
            ),
            fix=_missing_fix(facts),
        )


UNKNOWN = 999
STALE_FAILS = (
    *("cuinit-999", "cuda-unknown-error", "init-error", "cuinit-3", "no-device", "cuda-launch-failure"),
    *("cuda-fails-said", "gpu-unused-said", "cuda-available-false"),
)
OLD = ("insufficient-driver", "torch-driver-too-old", "runtime-above-driver", "image-wants-driver")


@rule("uvm-stale-after-suspend", layer=Layer.KERNEL_MODULE, component="nvidia-uvm.ko", severity=Severity.ERROR)
def uvm_stale_after_suspend(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """CUDA answers with "unknown error" (999) while NVML is well: nvidia-uvm is mostly stale after a suspend.

    After the machine slept, the module for unified memory may keep a state that the GPU has lost. Stop the programs on
    the GPU and load the module again. To keep it from coming back, let the driver save its memory before it sleeps
    (NVreg_PreserveVideoMemoryAllocations=1 and the nvidia-suspend services).
    """
    yield from _stale_told(facts, matrix)
    yield from _stale_seen(facts, matrix)


def _stale_told(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Return the finding where CUDA fails after the machine slept, or cannot say why it does not start."""
    slept = heard(facts, "suspended")
    fails = heard(facts, *STALE_FAILS) if slept else heard(facts, "cuinit-999")
    elsewhere = on_windows(facts) or (facts.host.container is not None and not slept)
    old = not slept and (heard(facts, *OLD) or _too_old(facts, matrix))
    if not fails or old or elsewhere or not (from_text(facts) or nvidia_here(facts)):
        return
    row = matrix.cuda_codes.get(UNKNOWN)
    how = "unknown error, 999" if heard(facts, "cuinit-999", "cuda-unknown-error") else "it fails"
    how_stale = "stale" if slept else "probably stale after a suspend"
    what = "after the machine slept (suspend)" if slept else "and the driver lists the GPU"
    yield uvm_stale_after_suspend.finding(
        title=f"CUDA does not start ({how}) {what}: nvidia_uvm is {how_stale}",
        detail=machine(
            facts,
            matrix,
            "nvidia_uvm keeps a state across suspend and resume that the GPU has lost.",
            "" if slept else "If the machine did not sleep: is nvidia_uvm loaded, and is /dev/nvidia-uvm there?",
        ),
        because=(*grounds(facts, *STALE_FAILS), *grounds(facts, "suspended", most=2), *more(facts)),
        row=row.row if row else None,
        fix=_stale_fix(facts),
        confidence=Confidence.LIKELY if slept else Confidence.POSSIBLE,
    )


def _too_old(facts: Facts, matrix: Matrix) -> bool:
    """Return whether the driver is too old for a build that is here, which says enough."""
    return any(driver_fit(one.cuda, facts, matrix).kept is Kept.BROKEN for one in builds(facts) if one.cuda)


def _stale_fix(facts: Facts) -> Fix:
    return Fix(
        text=f"{fixes.place(facts)}Stop the programs on the GPU and load nvidia_uvm again; otherwise restart. To "
        "keep it away, set NVreg_PreserveVideoMemoryAllocations=1 and enable nvidia-suspend and nvidia-resume.service.",
        commands=(sh("sudo modprobe -r nvidia_uvm"), sh("sudo modprobe nvidia_uvm")),
        needs_root=True,
        verify=sh("gpustack doctor"),
    )


def _stale_seen(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Return the finding for a machine that was looked at."""
    uvm = flag(told(facts, "nvidia-uvm.ko"), "loaded")
    code = number(told(facts, "libcuda"), "cu_init")
    if code != UNKNOWN or not uvm or number(told(facts, "nvml"), "code") != 0 or not nvidia_here(facts):
        return
    row = matrix.cuda_codes.get(UNKNOWN)
    yield uvm_stale_after_suspend.finding(
        title="CUDA says unknown error (999) while NVML is well: nvidia-uvm is probably stale",
        because=(
            because(facts, "libcuda", "cu_init"),
            because(facts, "nvml", "code"),
            because(facts, "nvidia-uvm.ko", "loaded"),
        ),
        row=row.row if row else None,
        fix=_stale_fix(facts),
        confidence=Confidence.LIKELY,
    )


# The first branch whose open module has HMM. Source: NVIDIA technical blog, "Simplifying GPU Application Development
# with Heterogeneous Memory Management" (2023-08).
FIRST = 535
WORKS = "cuda-works-said"
TORCH = "torch-init-failed"  # PyTorch's words for code 3 of CUDA
HMM_FAILS = ("cuinit-3", TORCH, "init-error", "no-device", "cuda-unknown-error", "cuinit-999")


@rule("uvm-hmm-bug", layer=Layer.KERNEL_MODULE, component="nvidia-uvm.ko", severity=Severity.ERROR, from_messages=True)
def uvm_hmm_bug(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """nvidia_uvm's HMM keeps CUDA from starting.

    HMM (heterogeneous memory management) lets GPUs use a program's ordinary memory. With the open kernel module, on
    some kernels it finds no room in the address space when nvidia_uvm starts, and cuInit answers with 3 (not
    initialised), although nvidia-smi is well. Switch HMM off (uvm_disable_hmm=1) and load nvidia_uvm again, or start
    the kernel with nokaslr; the proprietary module has no HMM.
    """
    sure, spoken = heard(facts, "uvm-hmm"), heard(facts, "uvm-hmm-named")
    number = branch_of(release(facts))
    has_hmm = is_open(facts) or _only_open(facts, matrix)
    suspect = heard(facts, "cuinit-3") and (has_hmm or (number or 0) >= FIRST) and (number is None or number >= FIRST)
    suspect = suspect or (heard(facts, TORCH) and has_hmm and _lists_all_the_same(facts))
    well = any("uvm_disable_hmm=1" not in one.line for one in said(facts, "cuda-available-true", WORKS))
    if on_windows(facts) or well or not (sure or spoken or suspect):
        return
    yield uvm_hmm_bug.finding(
        title="nvidia_uvm's HMM keeps CUDA from starting"
        if sure
        else "CUDA does not start although the driver is loaded: HMM of nvidia_uvm is the likely cause",
        detail=machine(
            facts,
            matrix,
            "cuInit fails with 3 (CUDA_ERROR_NOT_INITIALIZED)." if heard(facts, "cuinit-3") else "",
            "HMM comes with the open kernel module; uvm_disable_hmm=1 switches it off.",
        ),
        because=(*grounds(facts, "uvm-hmm", "uvm-hmm-named"), *grounds(facts, *HMM_FAILS, most=2), *more(facts)),
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
    """Return whether NVML sees the GPU, so that only CUDA does not start."""
    works = heard(facts, "host-smi-works", "wsl-smi-works") or number(told(facts, "nvml"), "code") == 0
    return works or bool(version(facts, "nvml"))


def _only_open(facts: Facts, matrix: Matrix) -> bool:
    """Return whether the GPU runs with the open module only."""
    arch = architecture(facts, matrix)
    flavour = matrix.flavour(arch) if arch else None
    return flavour is not None and flavour.closed == "impossible"
