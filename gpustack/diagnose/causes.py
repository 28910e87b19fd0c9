"""Which finding explains which: one broken driver has one root, however many things fail above it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.machine import exercised
from gpustack.diagnose.machine.messages import MESSAGE
from gpustack.model.report import Severity

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpustack.model.report import Finding


MODULE_STAYS_OUT = (
    "nvidia-driver-missing",
    "nouveau-loaded",
    "nova-loaded",
    "dkms-headers-missing",
    "dkms-build-failed",
    "module-built-for-other-kernel",
    "secure-boot-key-rejected",
    "open-module-unsupported-gpu",
    "closed-module-unsupported-gpu",
    "legacy-gpu-needs-older-branch",
    "driver-too-old-for-gpu",
)
NO_MODULE = (*MODULE_STAYS_OUT, "nvidia-module-not-loaded")
NO_GPU_FOR_NVML = (
    *NO_MODULE,
    "driver-library-mismatch",
    "gpu-fell-off-bus",
    "gsp-timeout",
    "gsp-firmware-regression",
    "bios-bar-setting",
    "gpu-overheat",
    "host-hardware-fault",
    "container-no-gpus-flag",
    "container-cgroup-lost-devices",
    "device-nodes-not-accessible",
    "wsl-linux-driver-installed",
)
NO_CUDA = (
    *NO_GPU_FOR_NVML,
    "compat-libs-803",
    "forward-compat-804",
    "stub-on-loader-path",
    "fabric-manager-not-running",
    "nvidia-uvm-missing",
    "uvm-hmm-bug",
    "uvm-stale-after-suspend",
    "mig-enabled-no-instance",
    "cuda-visible-devices-invalid",
    "gpu-recovery-needed",
    "gpu-not-answering",
    "fabric-not-ready",
    "gpu-not-listed",
    "libcuda-missing",
    "fabric-manager-version-mismatch",
    "wsl-libcuda-shadowed",
)
LOST = ("gpu-fell-off-bus", "gsp-timeout", "gpu-not-answering", "gpu-count-mismatch")
FABRIC = ("fabric-manager-version-mismatch", "fabric-manager-not-running")
# What is wrong with one GPU explains what is wrong with the same one, and not with another.
OF_ONE_GPU = frozenset(
    {"gpu-not-answering", "gpu-count-mismatch", "gpu-siblings-differ", "gpu-xid", "pcie-errors", "fabric-not-ready"}
)
WRONG_LIBRARIES = ("nvjitlink-clash", "nccl-version-clash", "wheel-files-overwritten", "cuda-lib-shadowed")
# What programs name themselves when they fail.
NAMED = (
    *("cuda-runtime-missing", "cuda-major-mixed", "cudnn-missing", "tf-cannot-dlopen", "ort-cudnn-major-mismatch"),
    *("cuda-core-bindings-mismatch", "cuda-bindings-newer-than-driver", "multiple-cupy", "libcuda-so-symlink-missing"),
    *("extension-abi-mismatch", "glibc-too-old", "libstdcxx-too-old", "host-compiler-too-new"),
    *("toolkit-too-old-for-arch", "arch-dropped-by-toolkit", "gpu-feature-unsupported", "pin-violated"),
    *("known-bad-combination", "numpy-abi-mismatch", "host-compiler-missing", "framework-not-installed"),
)
# What explains a finding, the likeliest first. A cause of the same instance (GPU, Python) goes before one of another.
EXPLAINED_BY: Mapping[str, tuple[str, ...]] = {
    "nouveau-loaded": ("nvidia-driver-missing", "dkms-headers-missing"),
    "nova-loaded": ("nvidia-driver-missing",),
    "dkms-build-failed": ("dkms-headers-missing", "nouveau-loaded", "nova-loaded"),
    "nvidia-module-not-loaded": MODULE_STAYS_OUT,
    "secure-boot-key-rejected": (
        *("nouveau-loaded", "nova-loaded", "module-built-for-other-kernel"),
        *("open-module-unsupported-gpu", "legacy-gpu-needs-older-branch"),
    ),
    "nvml-init-failed": NO_GPU_FOR_NVML,
    "cuda-init-failed": (*NO_CUDA, "nvml-init-failed"),
    "gpu-not-listed": NO_GPU_FOR_NVML,
    "nvidia-uvm-missing": (*NO_GPU_FOR_NVML, "libcuda-missing"),
    "device-nodes-not-accessible": ("container-cgroup-lost-devices",),
    "gpu-recovery-needed": ("gpu-ecc-error", "gpu-fell-off-bus", "gsp-timeout"),
    "gsp-timeout": ("gpu-fell-off-bus",),
    "gsp-firmware-regression": ("gpu-fell-off-bus", "gsp-timeout", "bios-bar-setting", "open-module-unsupported-gpu"),
    "gpu-fell-off-bus": ("gpu-overheat", "bios-bar-setting", "host-hardware-fault"),
    "host-hardware-fault": ("gpu-ecc-error",),
    "uvm-hmm-bug": (*NO_GPU_FOR_NVML, "nvidia-uvm-missing"),
    "nvlink-error": ("gpu-fell-off-bus", "gsp-timeout"),
    "gpu-not-answering": ("gpu-fell-off-bus", "gsp-timeout", "gpu-ecc-error", "gpu-recovery-needed"),
    "gpu-count-mismatch": (*NO_GPU_FOR_NVML, "gpu-recovery-needed", "gpu-not-answering"),
    "nvlink-inactive": (*LOST, "nvlink-error", "fabric-not-ready", *FABRIC, "driver-library-mismatch"),
    "fabric-not-ready": (*FABRIC, "driver-library-mismatch", "gpu-fell-off-bus"),
    "gpu-siblings-differ": ("gpu-not-answering",),
    "gpu-xid": (*LOST, "gpu-ecc-error", "nvlink-error", "host-hardware-fault"),
    "pcie-errors": ("gpu-fell-off-bus", "bios-bar-setting"),
    "nvml-slow": (*LOST, "persistence-mode-off"),
    "gpu-memory-held": ("gpu-process-stuck", "mig-enabled-no-instance"),
    "legacy-gpu-needs-older-branch": ("open-module-unsupported-gpu",),
    "uvm-stale-after-suspend": (
        *("gpu-fell-off-bus", "gsp-timeout", "gpu-ecc-error", "gpu-recovery-needed", "uvm-hmm-bug"),
        *("driver-library-mismatch", *MODULE_STAYS_OUT),
        *("container-cgroup-lost-devices", "device-nodes-not-accessible", "nvidia-uvm-missing"),
    ),
    "process-on-deleted-driver": ("driver-library-mismatch",),
    "gpu-process-stuck": ("gpu-fell-off-bus", "gsp-timeout", "gpu-ecc-error", "gpu-recovery-needed", "nvlink-error"),
    "fabric-manager-not-running": ("driver-library-mismatch", "fabric-manager-version-mismatch"),
    "driver-too-old-for-cuda-build": (
        "driver-library-mismatch",
        "forward-compat-804",
        "compat-libs-803",
        "container-requires-newer-driver",
        "container-no-gpus-flag",
        "container-toolkit-missing",
        "docker-snap",
        "wsl-linux-driver-installed",
    ),
    "container-requires-newer-driver": ("forward-compat-804", "compat-libs-803"),
    "forward-compat-804": ("driver-library-mismatch",),
    "compat-libs-803": ("driver-library-mismatch",),
    "container-toolkit-missing": ("docker-snap",),
    "container-no-gpus-flag": ("container-toolkit-missing", "docker-snap"),
    "container-cgroup-lost-devices": ("gpu-fell-off-bus", "gsp-timeout", "driver-library-mismatch"),
    "wsl-libcuda-shadowed": ("wsl-linux-driver-installed", "cuda-visible-devices-invalid", "container-no-gpus-flag"),
    "libcuda-so-symlink-missing": (
        "wsl-libcuda-shadowed",
        "wsl-linux-driver-installed",
        "container-no-gpus-flag",
        "container-toolkit-missing",
    ),
    "intel-level-zero-missing": ("user-not-in-render-group", "oneapi-env-not-sourced"),
    "cuda-visible-devices-invalid": ("mig-multiple-devices", "mig-enabled-no-instance"),
    "nvidia-driver-missing": ("container-no-gpus-flag", "container-toolkit-missing", "docker-snap"),
    "component-not-seen": ("gpu-fell-off-bus", "gsp-timeout"),
    "arch-by-ptx-only": ("arch-not-in-build",),
    "cpu-only-build": ("ort-cpu-and-gpu-installed",),
    "cudnn-too-old": ("wheel-files-overwritten",),
    "extension-abi-mismatch": ("duplicate-torch-install",),
    "torch-torchvision-mismatch": ("duplicate-torch-install",),
    "pin-violated": ("extension-abi-mismatch",),
    "cudnn-two-copies": ("wheel-files-overwritten",),
    "cuda-lib-shadowed": ("nvjitlink-clash", "wheel-files-overwritten"),
    "nvjitlink-clash": ("wheel-files-overwritten",),
    "cuda-major-mixed": ("cuda-major-mismatch-wheel", "bnb-binary-missing-for-cuda", "libcuda-so-symlink-missing"),
    "cuda-runtime-missing": ("cuda-major-mismatch-wheel", "bnb-binary-missing-for-cuda", "oneapi-env-not-sourced"),
    "tf-cannot-dlopen": ("tf-no-native-windows-gpu", "container-no-gpus-flag"),
    "cudnn-shadowed-by-ld-library-path": ("cudnn-two-copies",),
    "framework-import-fails": (
        *("cudnn-two-copies", "cudnn-too-old", "cudnn-shadowed-by-ld-library-path"),
        *WRONG_LIBRARIES,
        *NAMED,
    ),
    "framework-fails-on-gpu": (
        *NO_CUDA,
        "cuda-init-failed",
        "gpu-ecc-error",
        "driver-too-old-for-cuda-build",
        "ptx-newer-than-driver",
        "arch-not-in-build",
        "jax-plugin-mismatch",
        "ort-cpu-and-gpu-installed",
        "cudnn-shadowed-by-ld-library-path",
        "cudnn-two-copies",
        "cudnn-too-old",
        *WRONG_LIBRARIES,
        *NAMED,
    ),
}
TRIED = ("framework-fails-on-gpu", "framework-import-fails")
EXPLAINING = frozenset({Severity.ERROR, Severity.WARNING})
ON_PURPOSE = frozenset({"cuda-visible-devices-invalid"})  # only a warning where it hides all GPUs, and yet decisive
# Findings about one Python explain only what is about the same one.
OWN_INSTANCE = frozenset(
    {
        "driver-too-old-for-cuda-build",
        "ptx-newer-than-driver",
        "arch-not-in-build",
        "jax-plugin-mismatch",
        "ort-cpu-and-gpu-installed",
        "extension-abi-mismatch",
        "cudnn-shadowed-by-ld-library-path",
        "cudnn-two-copies",
        "cudnn-too-old",
        *WRONG_LIBRARIES,
    }
)
OWN_COMPONENT = frozenset({"known-bad-combination"})


def cause_of(finding: Finding, findings: Sequence[Finding]) -> str | None:
    """Return the key of the finding that explains this one, or None where none does."""
    for wanted in EXPLAINED_BY.get(finding.id, ()):
        fitting = [other for other in findings if other.id == wanted and _explains(other, finding)]
        if fitting:
            return min(fitting, key=lambda other: (other.instance != finding.instance, other.key)).key
    return next((other.key for other in findings if _is_ground(other, finding)), None)


def _is_ground(other: Finding, finding: Finding) -> bool:
    """Return whether a finding is that what another rests on failed as well, in the same Python."""
    if finding.id not in TRIED or other.id not in TRIED or other.severity not in EXPLAINING:
        return False
    places = {(one.instance or "").partition(":")[2] for one in (other, finding)}
    strong = other.severity is Severity.ERROR or finding.severity is not Severity.ERROR
    return other.component in exercised.RESTS_ON.get(finding.component, ()) and len(places) == 1 and strong


def _explains(cause: Finding, finding: Finding) -> bool:
    """Return whether a finding can be the cause of another: it weighs as much, and it is about the same thing."""
    same = cause.instance == finding.instance or cause.id not in OWN_INSTANCE
    same = same and (cause.id not in OWN_COMPONENT or cause.component == finding.component)
    same = same and (finding.id not in OF_ONE_GPU or cause.instance in {None, finding.instance})
    strong = cause.severity is Severity.ERROR or finding.severity is not Severity.ERROR or cause.id in ON_PURPOSE
    return (
        cause.severity in EXPLAINING and strong and same and (finding.id not in TRIED or _in_its_words(cause, finding))
    )


def _in_its_words(cause: Finding, finding: Finding) -> bool:
    """Return whether a cause that the words of trials name was named by this one, or by another in the same words."""
    heard = [one for one in cause.because if one.component == MESSAGE and one.source.endswith(exercised.RUN)]
    if cause.id not in NAMED or not heard:
        return True
    own, said = exercised.origin(finding.instance or ""), finding.detail
    return any(one.source == own or (said and (said in str(one.value) or str(one.value) in said)) for one in heard)
