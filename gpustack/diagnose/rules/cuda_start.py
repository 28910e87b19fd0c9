"""What CUDA needs beside the driver to start: nvidia-uvm, and a libcuda that the kernel module goes with (803, 804)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpustack.diagnose import fixes
from gpustack.diagnose.machine import containers, naming
from gpustack.diagnose.machine.completing import Compat, winner
from gpustack.diagnose.machine.events import grounds, heard, holding, said, value
from gpustack.diagnose.machine.inventory import builds, driver_release, from_text, gpus, nvidia_here, on_windows, starts
from gpustack.diagnose.machine.naming import architecture, branch_of, is_open, machine, more, release, works
from gpustack.diagnose.machine.values import because, copies, flag, items, number, status, text, told, version
from gpustack.diagnose.requirements.fits import driver_fit
from gpustack.diagnose.rule import Rule, rule
from gpustack.diagnose.rules import MODULE_STAYS_OUT, NO_GPU_FOR_NVML
from gpustack.model.command import sh
from gpustack.model.facts import Facts, Layer, Status
from gpustack.model.report import Because, Confidence, Finding, Fix, Kept
from gpustack.model.versions import CudaVersion, DriverRelease

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix


NODE, MODULE = "/dev/nvidia-uvm", "nvidia-uvm.ko"
MISSING_FAILS = ("cuinit-999", "cuda-unknown-error", "no-device", "cuinit-3", "init-error", "cuda-fails-said")
NO_CUDA = (*MISSING_FAILS, "cuda-available-false")


@rule("nvidia-uvm-missing", Layer.KERNEL_MODULE, "nvidia-uvm.ko", explained_by=(*NO_GPU_FOR_NVML, "libcuda-missing"))
def nvidia_uvm_missing(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """nvidia-uvm, the module for unified memory, is not loaded, and CUDA cannot start without it.

    NVML and nvidia-smi work without it, so the driver looks fine. It is loaded by the first CUDA program that root
    runs, or at boot; in a container its device node must be passed in. Load it and create its node.
    """
    out, no_node = _out(facts)
    reported = said(facts, "uvm-missing", "uvm-not-allowed")
    alone = heard(facts, "works-as-root") and heard(facts, "cuinit-999", "cuda-unknown-error")
    inside = heard(facts, "container-told") and heard(facts, "cuinit-999")
    inside = inside and not (heard(facts, "suspended") or containers.without_gpu(facts, matrix))
    implied = heard(facts, *NO_CUDA) and (alone or ((_listed_without(facts) or inside) and not works(facts)))
    in_text = (bool(reported) or implied) and not heard(facts, "cuda-available-true")
    node = any(NODE in one.line for one in reported) if in_text else not out
    if not (in_text or out or no_node):
        return
    yield nvidia_uvm_missing.finding(
        title=f"{NODE}, the device node of nvidia_uvm, is missing, and CUDA cannot start without it"
        if node
        else "nvidia_uvm (nvidia-uvm) is not loaded, and CUDA cannot start without it",
        detail=machine(facts, matrix, "NVML and graphics work without it, so the driver looks fine.")
        if in_text
        else "",
        because=(*grounds(facts, "uvm-missing", "uvm-not-allowed"), *grounds(facts, *NO_CUDA, most=2), *more(facts))
        if in_text
        else tuple(because(facts, *names) for names in ((MODULE, "loaded"), (MODULE, "nodes"), ("libcuda", "cu_init"))),
        fix=fixes.advice(
            f"{fixes.place(facts)}Load nvidia_uvm and create its device node, now and at each boot (a line "
            "nvidia-uvm in /etc/modules-load.d/); for a container, pass the node in.",
            sh("sudo modprobe nvidia_uvm"),
            sh("sudo nvidia-modprobe -c 0 -u"),
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


# One node, and not a list of them, as several options of a container are.
OPENED = re.compile(r"open\(|Errno|^(?!.*--device.*--device).*--device|\bmknod\b|\bls (?:-\w+ )?/dev/nvidia\d")


def _listed_without(facts: Facts) -> bool:
    """Return whether a text lists the modules in memory or the nodes, and nvidia-uvm is not among them."""
    nodes = [one for one in said(facts, "nodes-listed") if not OPENED.search(one.line + one.values.get("rest", ""))]
    if nodes and not any("uvm" in one.line or "uvm" in one.values.get("rest", "") for one in nodes):
        return True
    listed = from_text(facts) and flag(told(facts, "nvidia.ko"), "loaded") and facts.find("nvidia-drm.ko") is not None
    return bool(listed) and facts.find(MODULE) is None


UNKNOWN, MISMATCH, NOT_ON_THIS_GPU = 999, 803, 804
STALE_FAILS = (
    *("cuinit-999", "cuda-unknown-error", "init-error", "cuinit-3", "no-device", "cuda-launch-failure"),
    *("cuda-fails-said", "gpu-unused-said", "cuda-available-false", "no-gpus-discovered"),
)
OLD = ("insufficient-driver", "torch-driver-too-old", "runtime-above-driver", "image-wants-driver")


@rule(
    "uvm-stale-after-suspend",
    Layer.KERNEL_MODULE,
    "nvidia-uvm.ko",
    explained_by=(
        *("gpu-fell-off-bus", "gsp-timeout", "gpu-ecc-error", "gpu-recovery-needed", "uvm-hmm-bug"),
        *("driver-library-mismatch", *MODULE_STAYS_OUT, "container-cgroup-lost-devices"),
        *("device-nodes-not-accessible", "nvidia-uvm-missing"),
    ),
)
def uvm_stale_after_suspend(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """CUDA reports "unknown error" (999) while NVML works: nvidia-uvm is usually stale after a suspend.

    After a suspend, the module for unified memory may keep state that the GPU has lost. Stop the programs on the GPU
    and reload the module. To prevent it, let the driver save its memory before a suspend
    (NVreg_PreserveVideoMemoryAllocations=1 and the nvidia-suspend services).
    """
    slept = heard(facts, "suspended")
    in_text = _fails_in_text(facts, matrix, slept=slept)
    if not in_text and not _stale(facts):
        return
    row = matrix.cuda_codes.get(UNKNOWN)
    unknown = not in_text or heard(facts, "cuinit-999", "cuda-unknown-error")
    how = " (unknown error, 999)" if unknown else ""
    stale = "after the machine was suspended: nvidia_uvm is stale"
    stale = stale if slept else "and the driver lists the GPU: nvidia_uvm is probably stale after a suspend"
    awake = "" if slept else "If the machine was not suspended: is nvidia_uvm loaded, and does /dev/nvidia-uvm exist?"
    seen = (("libcuda", "cu_init"), ("nvml", "code"), (MODULE, "loaded"))
    yield uvm_stale_after_suspend.finding(
        title=f"CUDA does not start{how} {stale}",
        detail=machine(facts, matrix, "Across suspend and resume, nvidia_uvm keeps state that the GPU has lost.", awake)
        if in_text
        else "",
        because=(*grounds(facts, *STALE_FAILS), *grounds(facts, "suspended", most=2), *more(facts))
        if in_text
        else tuple(because(facts, *names) for names in seen),
        row=row.row if row else None,
        fix=fixes.advice(
            f"{fixes.place(facts)}Stop the programs on the GPU and load nvidia_uvm again; otherwise restart. "
            "To prevent it, set NVreg_PreserveVideoMemoryAllocations=1 and enable nvidia-suspend and "
            "nvidia-resume.service.",
            sh("sudo modprobe -r nvidia_uvm"),
            sh("sudo modprobe nvidia_uvm"),
            verify=sh("gpustack doctor"),
        ),
        confidence=Confidence.POSSIBLE if in_text and not slept else Confidence.LIKELY,
    )


def _fails_in_text(facts: Facts, matrix: Matrix, *, slept: bool) -> bool:
    """Return whether CUDA fails after the machine slept, or cannot say why on a machine of which more is known."""
    known = slept or gpus(facts) or any(builds(facts)) or heard(facts, "cuda-available-false", "wsl-smi-works")
    fails = bool(known) and heard(facts, *(STALE_FAILS if slept else ("cuinit-999",)))
    elsewhere = on_windows(facts) or (facts.host.container is not None and not slept)
    fits = (driver_fit(one.cuda, facts, matrix).kept for one in builds(facts) if one.cuda)
    old = not slept and (heard(facts, *OLD) or Kept.BROKEN in fits)  # which says enough
    return fails and not old and not elsewhere and (from_text(facts) or nvidia_here(facts))


def _stale(facts: Facts) -> bool:
    """Return whether CUDA knows no reason on a machine where module and NVML are well."""
    known = number(told(facts, "libcuda"), "cu_init") == UNKNOWN and number(told(facts, "nvml"), "code") == 0
    return known and flag(told(facts, MODULE), "loaded") is True and nvidia_here(facts)


# The first branch whose open module has HMM: NVIDIA technical blog on Heterogeneous Memory Management, 2023-08.
FIRST = 535
WORKS = "cuda-works-said"
TORCH = "torch-init-failed"  # PyTorch's words for code 3 of CUDA
HMM_FAILS = ("cuinit-3", TORCH, "init-error", "no-device", "cuda-unknown-error", "cuinit-999")


@rule(
    "uvm-hmm-bug",
    Layer.KERNEL_MODULE,
    "nvidia-uvm.ko",
    from_messages=True,
    explained_by=(*NO_GPU_FOR_NVML, "nvidia-uvm-missing"),
)
def uvm_hmm_bug(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """nvidia_uvm's HMM keeps CUDA from starting.

    HMM (heterogeneous memory management) lets GPUs use a program's ordinary memory. With the open kernel module, on
    some kernels it finds no room in the address space when nvidia_uvm starts, and cuInit answers with 3 (not
    initialised), although nvidia-smi works. Switch HMM off (uvm_disable_hmm=1) and load nvidia_uvm again, or start the
    kernel with nokaslr; the proprietary module has no HMM.
    """
    sure, spoken = heard(facts, "uvm-hmm"), heard(facts, "uvm-hmm-named")
    number = branch_of(release(facts))
    arch = architecture(facts, matrix)
    flavour = matrix.flavour(arch) if arch else None
    has_hmm = is_open(facts) or (flavour is not None and flavour.closed == "impossible")
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
        fix=fixes.advice(
            f"{fixes.place(facts)}Switch HMM off and load nvidia_uvm again (stop the programs on the GPU first), "
            "or use the proprietary module, or start the kernel with nokaslr.",
            sh("echo 'options nvidia_uvm uvm_disable_hmm=1' | sudo tee /etc/modprobe.d/nvidia-uvm-hmm.conf"),
            sh("sudo modprobe -r nvidia_uvm"),
            sh("sudo modprobe nvidia_uvm"),
            verify=sh("cat /sys/module/nvidia_uvm/parameters/uvm_disable_hmm"),
        ),
        confidence=Confidence.CERTAIN if sure else Confidence.LIKELY if spoken or has_hmm else Confidence.POSSIBLE,
    )


def _lists_all_the_same(facts: Facts) -> bool:
    """Return whether NVML sees the GPU, so that only CUDA does not start."""
    works = heard(facts, "host-smi-works", "wsl-smi-works") or number(told(facts, "nvml"), "code") == 0
    return works or bool(version(facts, "nvml"))


def asked(facts: Facts) -> int | None:
    """Return what cuInit answered, or None where nobody asked it."""
    return number(told(facts, "libcuda"), "cu_init")


USUAL = "/usr/local/cuda/compat"
MOUNTED = "/usr/local/nvidia/lib64:/usr/local/nvidia/lib"  # where the container toolkit puts the driver


def _finding(record: Rule, code: int, facts: Facts, matrix: Matrix) -> Finding:
    """Return the finding that CUDA refuses the compat libcuda with this code, or will where it was not asked."""
    libcuda, found, row = told(facts, "libcuda"), winner(facts), matrix.cuda_codes.get(code)
    path = found.path if found else text(libcuda, "path") if facts.taken else None
    pair, answered = code == MISMATCH, asked(facts) == code
    seen = Because(component="libcuda", fact="copies", value=path, source="the loader's order")
    spelled = [text(copy, "path") or "" for copy in items(libcuda, "copies") if text(copy, "real") == path]
    return record.finding(
        title=_title(path, code, facts, matrix),
        detail=_detail(found, code, facts, matrix),
        confidence=Confidence.CERTAIN if answered or (heard(facts, "cuda-804") and not pair) else Confidence.LIKELY,
        because=(
            *grounds(facts, f"cuda-{code}", "compat-folder", "tf-driver-mismatch"),
            *([because(facts, "libcuda", "cu_init"), seen] if path else []),
            *_smi(facts, matrix),
            *naming.of_driver(facts),
        ),
        row=row.row if row else None,
        fix=fixes.off_path(
            list(dict.fromkeys(one.rpartition("/")[0] for one in [*spelled, path] if one)),
            "the folder of the compat libcuda (or out of ld.so.conf)",
            fixes.DOCTOR,
        )
        if path
        else _without_compat(facts)
        if pair
        else _newer(facts, matrix),
    )


def of_compat(facts: Facts, matrix: Matrix) -> bool:
    """Return whether the libcuda of a text is a compat package's: by its folder, or a container's by its release."""
    told_of, spoken = holding(facts, "tf-driver-mismatch", "client"), [one.line for one in said(facts, "compat-folder")]
    short = [one.values["client"].rpartition(".")[0] for one in told_of]
    kernel, inside = driver_release(facts), containers.mentioned(facts)
    beside = DriverRelease.parse(text(told(facts, "nvidia-driver"), "package_version")) if spoken else None
    other = (beside and kernel and beside != kernel) or (told_of and spoken and heard(facts, f"cuda-{MISMATCH}"))
    if other or any(one in line for one in short if one for line in spoken):
        return True
    found = {DriverRelease.parse(one.values["client"]) for one in told_of} & {one.driver for one in matrix.toolkits}
    return bool(inside and kernel and any(one.branch > kernel.branch for one in found if one))


def _title(path: str | None, code: int, facts: Facts, matrix: Matrix) -> str:
    driver = naming.driver_name(facts, matrix) or "the driver"
    what = f"The compat libcuda {path}" if path else "A compat libcuda is loaded that"
    if code == MISMATCH:
        return f"{what} does not match the kernel module of {driver} (CUDA error 803)"
    where = naming.gpu_names(facts) or "this GPU"
    return f"{what} is newer than {driver}, which {where} does not support (CUDA error 804)"


def _detail(found: Compat | None, code: int, facts: Facts, matrix: Matrix) -> str:
    own, release = naming.own_cuda(facts, matrix) or _told_of_driver(facts), driver_release(facts)
    wanted = _wanted(facts, matrix)
    if code == MISMATCH:
        parts = [f"The image brings its own libcuda (usually in {USUAL}), which is found before the driver's."]
        parts += ["The same error appears after a driver update, until the module is reloaded."]
    else:
        parts = ["Forward compatibility, a newer libcuda on an older kernel driver, is for data-centre GPUs only."]
        parts += [f"CUDA {wanted} came with {naming.native_driver(wanted, facts, matrix)}."] if wanted else []
    if found and found.branches:
        listed = ", ".join(f"R{branch}" for branch in sorted(found.branches))
        parts.append(f"According to its own note it is for branches {listed}.")
    fits = [one.name for one in matrix.compats if found and release and release.branch in one.bases]
    parts += [f"Packages for this driver: {', '.join(fits)}."] if fits and code == MISMATCH else []
    parts += [f"The driver itself supports CUDA {own}."] if own else []
    return " ".join(parts)


def _told_of_driver(facts: Facts) -> CudaVersion | None:
    """Return the CUDA version that someone names as that of the driver."""
    named = (copy.version for copy in copies(facts, "cuda-toolkit") if text(copy.facts, "whose") == "driver")
    return next((CudaVersion.parse(one) for one in named if one), None)


def _smi(facts: Facts, matrix: Matrix) -> tuple[Because, ...]:
    """Return what nvidia-smi betrays: a CUDA version above that of the driver's own branch is the compat libcuda's."""
    shown, own = CudaVersion.decode(number(told(facts, "nvml"), "cuda_version")), naming.own_cuda(facts, matrix)
    if not shown or not own or shown <= own:
        return ()
    said = f"CUDA {shown}, though the driver's own branch supports CUDA {own}: that of the compat libcuda"
    return (Because(component="nvml", fact="cuda_version", value=said, source="nvidia-smi"),)


def _wanted(facts: Facts, matrix: Matrix) -> CudaVersion | None:
    """Return the CUDA version of the image: what is here and newer than the driver's own."""
    own = naming.own_cuda(facts, matrix) or naming.cuda_of_driver(facts, matrix)
    held = [build.cuda for build in builds(facts)]
    held += [CudaVersion.parse(copy.version) for copy in copies(facts, "cuda-toolkit")]
    held += [CudaVersion.decode(number(told(facts, "nvml"), "cuda_version"))]
    return next((one for one in held if one and own and one > own), None)


def _without_compat(facts: Facts) -> Fix:
    folder = value(facts, "compat-folder", "path") or USUAL
    return fixes.advice(
        f"Make the loader find the driver's own libcuda first: remove {folder} from LD_LIBRARY_PATH and "
        "/etc/ld.so.conf.d, in the image or when the container starts (docker run -e "
        f"LD_LIBRARY_PATH={MOUNTED}); or remove the image's libcuda.",
        sh(
            "sudo sed -i --follow-symlinks '\\,cuda.*/compat,s/^/#/' "
            "$(grep -ls 'cuda.*/compat' /etc/ld.so.conf.d/*.conf) && sudo ldconfig"
        ),
        verify=sh("ldconfig -p | grep libcuda.so.1"),
    )


def _newer(facts: Facts, matrix: Matrix) -> Fix:
    own, wanted = naming.own_cuda(facts, matrix) or naming.cuda_of_driver(facts, matrix), _wanted(facts, matrix)
    newer = naming.native_driver(wanted, facts, matrix) if wanted else "a driver of the image's CUDA or newer"
    older = f"on CUDA {own} or older" if own else "for the driver's own CUDA"
    return fixes.advice(
        f"On the machine itself, install {newer}. Or use an image or build {older}, or keep the compat folder "
        f"({USUAL}) off the library path.",
        *fixes.driver(facts, matrix),
        root=True,
        reboot=True,
        verify=sh("nvidia-smi"),
    )


@rule("compat-libs-803", Layer.DRIVER, "libcuda", explained_by=("driver-library-mismatch",))
def compat_libs_803(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """A compat libcuda that does not match the kernel driver is found first (CUDA error 803).

    The cuda-compat package brings a libcuda of a newer driver branch, for older kernel drivers of certain branches,
    which newer packages list in an ELF note. Here it is found before the driver's own and does not match the kernel
    module: it is older than the module, or was not made for the module's branch. Take it off the library path, or
    install the package that matches.
    """
    found, driver = winner(facts), driver_release(facts)
    foretold = asked(facts) is None and found and driver and found.pairs(driver) is False
    meant = of_compat(facts, matrix) and not _on_consumer(facts)  # there another error comes first
    if heard(facts, "cuda-803") or meant or (found and (asked(facts) == MISMATCH or foretold)):
        yield _finding(compat_libs_803, MISMATCH, facts, matrix)


# Product lines for consumers. Forward compatibility is for data-centre GPUs and chosen workstation cards alone.
# Source: NVIDIA CUDA Compatibility guide, "Forward Compatibility" (read 2026-11-21).
CONSUMER = re.compile(r"\bGeForce\b|\bTITAN\b")


def _on_consumer(facts: Facts) -> bool:
    return bool(gpus(facts)) and all(CONSUMER.search(gpu.name) for gpu in gpus(facts))


@rule("forward-compat-804", Layer.DRIVER, "libcuda", explained_by=("driver-library-mismatch",))
def forward_compat_804(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """A compat libcuda of a newer CUDA is loaded on a GPU that cannot use it (CUDA error 804).

    Forward compatibility, a newer libcuda on an older kernel driver, is for data-centre GPUs. On GeForce and most
    workstation cards CUDA refuses it. Take the compat folder off the library path and use a build for this driver, or
    update the driver.
    """
    found, driver = winner(facts), driver_release(facts)
    newer = found and driver and found.release and found.release.branch > driver.branch
    foretold = asked(facts) is None and newer and _on_consumer(facts)
    foretold = foretold or (heard(facts, "compat-versions") and _on_consumer(facts) and starts(facts) is not True)
    if heard(facts, "cuda-804") or asked(facts) == NOT_ON_THIS_GPU or foretold:
        yield _finding(forward_compat_804, NOT_ON_THIS_GPU, facts, matrix)
