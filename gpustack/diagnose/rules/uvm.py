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
from gpustack.diagnose.rules import MODULE_STAYS_OUT, NO_GPU_FOR_NVML
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


@rule(
    "nvidia-uvm-missing",
    layer=Layer.KERNEL_MODULE,
    component="nvidia-uvm.ko",
    severity=Severity.ERROR,
    explained_by=(*NO_GPU_FOR_NVML, "libcuda-missing"),
)
def nvidia_uvm_missing(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """nvidia-uvm, the module for unified memory, is not there, and CUDA cannot start without it.

    NVML and nvidia-smi work without it, so the driver looks well. It is loaded by the first CUDA program of root, or at
    the start of the machine; in a container its device node must be passed in. Load it and make its node.
    """
    out, no_node = _out(facts)
    reported = said(facts, "uvm-missing")
    implied = heard(facts, *MISSING_FAILS) and (_listed_without(facts) or _made_by_root(facts)) and not works(facts)
    in_text = (bool(reported) or implied) and not heard(facts, "cuda-available-true")
    node = any(NODE in one.line for one in reported) if in_text else not out
    if not (in_text or out or no_node):
        return
    yield nvidia_uvm_missing.finding(
        title=f"{NODE}, the node of nvidia_uvm, is not there, and CUDA cannot start without it"
        if node
        else "nvidia_uvm (nvidia-uvm) is not loaded, and CUDA cannot start without it",
        detail=machine(facts, matrix, "NVML and graphics work without it, so the driver looks well.")
        if in_text
        else "",
        because=(*grounds(facts, "uvm-missing"), *grounds(facts, *MISSING_FAILS, most=2), *more(facts))
        if in_text
        else tuple(because(facts, *names) for names in ((MODULE, "loaded"), (MODULE, "nodes"), ("libcuda", "cu_init"))),
        fix=Fix(
            text=f"{fixes.place(facts)}Load nvidia_uvm and make its device node, now and at each start (a line "
            "nvidia-uvm in /etc/modules-load.d/); for a container, pass the node in.",
            commands=(sh("sudo modprobe nvidia_uvm"), sh("sudo nvidia-modprobe -c 0 -u")),
            needs_root=True,
            verify=sh("gpustack doctor"),
        ),
        confidence=Confidence.LIKELY if in_text and not reported else Confidence.CERTAIN,
    )


def _out(facts: Facts) -> tuple[bool, bool]:
    """Return whether, on a machine where CUDA does not start, the module is not in memory, and its node is missing."""
    if not nvidia_here(facts) or starts(facts) is not False or not flag(told(facts, "nvidia.ko"), "loaded"):
        return False, False
    uvm = told(facts, MODULE)
    nodes = [node for node in items(uvm, "nodes") if text(node, "path") == NODE]
    out = status(facts, MODULE) is Status.ABSENT or flag(uvm, "loaded") is False
    return out, any(flag(node, "exists") is False for node in nodes)


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


UNKNOWN = 999
STALE_FAILS = (
    *("cuinit-999", "cuda-unknown-error", "init-error", "cuinit-3", "no-device", "cuda-launch-failure"),
    *("cuda-fails-said", "gpu-unused-said", "cuda-available-false"),
)
OLD = ("insufficient-driver", "torch-driver-too-old", "runtime-above-driver", "image-wants-driver")


@rule(
    "uvm-stale-after-suspend",
    layer=Layer.KERNEL_MODULE,
    component="nvidia-uvm.ko",
    severity=Severity.ERROR,
    explained_by=(
        "gpu-fell-off-bus",
        "gsp-timeout",
        "gpu-ecc-error",
        "gpu-recovery-needed",
        "uvm-hmm-bug",
        "driver-library-mismatch",
        *MODULE_STAYS_OUT,
        "container-cgroup-lost-devices",
        "device-nodes-not-accessible",
        "nvidia-uvm-missing",
    ),
)
def uvm_stale_after_suspend(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """CUDA answers with "unknown error" (999) while NVML is well: nvidia-uvm is mostly stale after a suspend.

    After the machine slept, the module for unified memory may keep a state that the GPU has lost. Stop the programs on
    the GPU and load the module again. To keep it from coming back, let the driver save its memory before it sleeps
    (NVreg_PreserveVideoMemoryAllocations=1 and the nvidia-suspend services).
    """
    slept = heard(facts, "suspended")
    in_text = _fails_in_text(facts, matrix, slept=slept)
    if not in_text and not _stale(facts):
        return
    row = matrix.cuda_codes.get(UNKNOWN)
    unknown = not in_text or heard(facts, "cuinit-999", "cuda-unknown-error")
    how = "unknown error, 999" if unknown else "it fails"
    stale = "stale" if slept else "probably stale after a suspend"
    what = "after the machine slept (suspend)" if slept else "and the driver lists the GPU"
    awake = "" if slept else "If the machine did not sleep: is nvidia_uvm loaded, and is /dev/nvidia-uvm there?"
    seen = (("libcuda", "cu_init"), ("nvml", "code"), (MODULE, "loaded"))
    yield uvm_stale_after_suspend.finding(
        title=f"CUDA does not start ({how}) {what}: nvidia_uvm is {stale}",
        detail=machine(
            facts, matrix, "nvidia_uvm keeps a state across suspend and resume that the GPU has lost.", awake
        )
        if in_text
        else "",
        because=(*grounds(facts, *STALE_FAILS), *grounds(facts, "suspended", most=2), *more(facts))
        if in_text
        else tuple(because(facts, *names) for names in seen),
        row=row.row if row else None,
        fix=Fix(
            text=f"{fixes.place(facts)}Stop the programs on the GPU and load nvidia_uvm again; otherwise restart. To "
            "keep it away, set NVreg_PreserveVideoMemoryAllocations=1 and enable nvidia-suspend and "
            "nvidia-resume.service.",
            commands=(sh("sudo modprobe -r nvidia_uvm"), sh("sudo modprobe nvidia_uvm")),
            needs_root=True,
            verify=sh("gpustack doctor"),
        ),
        confidence=Confidence.POSSIBLE if in_text and not slept else Confidence.LIKELY,
    )


def _fails_in_text(facts: Facts, matrix: Matrix, *, slept: bool) -> bool:
    """Return whether CUDA fails after the machine slept, or cannot say why it does not start."""
    fails = heard(facts, *STALE_FAILS) if slept else heard(facts, "cuinit-999")
    elsewhere = on_windows(facts) or (facts.host.container is not None and not slept)
    old = not slept and (heard(facts, *OLD) or _too_old(facts, matrix))
    return fails and not old and not elsewhere and (from_text(facts) or nvidia_here(facts))


def _stale(facts: Facts) -> bool:
    """Return whether CUDA knows no reason on a machine where module and NVML are well."""
    known = number(told(facts, "libcuda"), "cu_init") == UNKNOWN and number(told(facts, "nvml"), "code") == 0
    return known and flag(told(facts, MODULE), "loaded") is True and nvidia_here(facts)


def _too_old(facts: Facts, matrix: Matrix) -> bool:
    """Return whether the driver is too old for a build that is here, which says enough."""
    return any(driver_fit(one.cuda, facts, matrix).kept is Kept.BROKEN for one in builds(facts) if one.cuda)


# The first branch whose open module has HMM. Source: NVIDIA technical blog, "Simplifying GPU Application Development
# with Heterogeneous Memory Management" (2023-08).
FIRST = 535
WORKS = "cuda-works-said"
TORCH = "torch-init-failed"  # PyTorch's words for code 3 of CUDA
HMM_FAILS = ("cuinit-3", TORCH, "init-error", "no-device", "cuda-unknown-error", "cuinit-999")


@rule(
    "uvm-hmm-bug",
    layer=Layer.KERNEL_MODULE,
    component="nvidia-uvm.ko",
    severity=Severity.ERROR,
    from_messages=True,
    explained_by=(*NO_GPU_FOR_NVML, "nvidia-uvm-missing"),
)
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
