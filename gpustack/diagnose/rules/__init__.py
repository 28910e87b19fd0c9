"""The rules, in the order in which they are asked. Each is a module with ``judge(facts, matrix)``.

A rule's module is named after its finding's id, and its docstring is what ``gpustack explain ID`` prints. Modules are
imported when they are asked: those that rest on what programs said alone are not needed where nothing was said.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts
    from gpustack.model.report import Finding

    Judge: TypeAlias = Callable[[Facts, Matrix], Iterable[Finding]]

# By the ids of their findings.
RULES = (
    "gpu-fell-off-bus",
    "gpu-ecc-error",
    "gpu-recovery-needed",
    "nvlink-error",
    "gpu-overheat",
    "gpu-hw-slowdown",
    "pcie-link-degraded",
    "host-hardware-fault",
    "bios-bar-setting",
    "gpu-unsupported-by-kfd",
    "amdgpu-not-loaded",
    "gpu-passed-through",
    "xe-survivability-mode",
    "gpu-stack-not-examined",
    "dkms-headers-missing",
    "nouveau-loaded",
    "nova-loaded",
    "secure-boot-key-rejected",
    "dkms-build-failed",
    "module-built-for-other-kernel",
    "open-module-unsupported-gpu",
    "closed-module-unsupported-gpu",
    "nvidia-module-not-loaded",
    "nvidia-uvm-missing",
    "uvm-stale-after-suspend",
    "uvm-hmm-bug",
    "nvidia-driver-missing",
    "legacy-gpu-needs-older-branch",
    "driver-library-mismatch",
    "wsl-linux-driver-installed",
    "gsp-timeout",
    "fabric-manager-version-mismatch",
    "gsp-firmware-regression",
    "fabric-manager-not-running",
    "compat-libs-803",
    "forward-compat-804",
    "container-requires-newer-driver",
    "intel-level-zero-missing",
    "nvml-init-failed",
    "gpu-not-listed",
    "libcuda-missing",
    "cuda-init-failed",
    "container-no-gpus-flag",
    "container-cgroup-lost-devices",
    "docker-snap",
    "container-toolkit-missing",
    "device-nodes-not-accessible",
    "user-not-in-render-group",
    "mig-enabled-no-instance",
    "mig-multiple-devices",
    "cuda-visible-devices-invalid",
    "wsl-libcuda-shadowed",
    "libcuda-so-symlink-missing",
    "oneapi-env-not-sourced",
    "stub-on-loader-path",
    "stub-on-library-path",
    "driver-too-old-for-cuda-build",
    "ptx-newer-than-driver",
    "cuda-core-bindings-mismatch",
    "cuda-bindings-newer-than-driver",
    "wheel-files-overwritten",
    "nccl-version-clash",
    "nvjitlink-clash",
    "cuda-lib-shadowed",
    "cudnn-shadowed-by-ld-library-path",
    "cudnn-too-old",
    "cudnn-two-copies",
    "several-cudnn-copies",
    "cudnn-missing",
    "tf-cannot-dlopen",
    "ort-cudnn-major-mismatch",
    "cuda-major-mixed",
    "cuda-runtime-missing",
    "nvcc-torch-mismatch",
    "host-compiler-too-new",
    "toolkit-too-old-for-arch",
    "arch-dropped-by-toolkit",
    "arch-not-in-build",
    "arch-by-ptx-only",
    "python-version-no-wheel",
    "glibc-too-old",
    "libstdcxx-too-old",
    "duplicate-torch-install",
    "torch-torchvision-mismatch",
    "extension-abi-mismatch",
    "pin-violated",
    "cuda-major-mismatch-wheel",
    "bnb-binary-missing-for-cuda",
    "rocm-gfx-unsupported",
    "gpu-feature-unsupported",
    "tf-no-native-windows-gpu",
    "cpu-only-build",
    "ort-cpu-and-gpu-installed",
    "multiple-cupy",
    "jax-plugin-mismatch",
    "framework-fails-on-gpu",
    "framework-import-fails",
    "opencl-icd-broken",
    "vulkan-icd-broken",
    "iommu-acs-p2p",
    "container-shm-too-small",
    "memlock-too-small",
    "gpu-process-stuck",
    "process-on-deleted-driver",
    "persistence-mode-off",
    "application-fault",
    "known-bad-combination",
    "cuda-toolkit-missing",
    "newer-than-matrix",
    "matrix-old",
    "component-not-seen",
)
# Findings of rows of the health table that no rule has: their texts are in ``diagnose/requirements``.
REQUIRED = (
    "gpu-count-mismatch",
    "gpu-not-answering",
    "gpu-siblings-differ",
    "ecc-corrected-high",
    "gpu-memory-hot",
    "gpu-memory-held",
    "gpu-power-limited",
    "inforom-corrupted",
    "nvlink-inactive",
    "fabric-not-ready",
    "pcie-errors",
    "nvml-slow",
    "numa-balancing-on",
    "cpu-governor-slow",
    "clocksource-slow",
    "debug-variable-set",
)
# Those that rest on what works and what does not, which the others decide first.
AFTERWARDS = ("another-environment-works",)
FINDINGS = (*RULES, *REQUIRED, *AFTERWARDS)
# Those that say nothing without a message of a program or the kernel.
FROM_MESSAGES = frozenset(
    {
        "host-hardware-fault",
        "bios-bar-setting",
        "uvm-hmm-bug",
        "wsl-linux-driver-installed",
        "gsp-firmware-regression",
        "docker-snap",
        "container-toolkit-missing",
        "mig-multiple-devices",
        "wsl-libcuda-shadowed",
        "libcuda-so-symlink-missing",
        "cudnn-missing",
        "tf-cannot-dlopen",
        "ort-cudnn-major-mismatch",
        "cuda-major-mixed",
        "cuda-runtime-missing",
        "nvcc-torch-mismatch",
        "host-compiler-too-new",
        "toolkit-too-old-for-arch",
        "arch-dropped-by-toolkit",
        "python-version-no-wheel",
        "libstdcxx-too-old",
        "bnb-binary-missing-for-cuda",
        "gpu-feature-unsupported",
    }
)
# Those about the packages of one Python, which are asked once for each and see no other.
IN_ONE_PYTHON = frozenset(
    {
        "arch-not-in-build",
        "bnb-binary-missing-for-cuda",
        "cpu-only-build",
        "cuda-lib-shadowed",
        "cuda-major-mismatch-wheel",
        "cuda-major-mixed",
        "cuda-runtime-missing",
        "cudnn-missing",
        "cudnn-shadowed-by-ld-library-path",
        "duplicate-torch-install",
        "extension-abi-mismatch",
        "glibc-too-old",
        "gpu-feature-unsupported",
        "jax-plugin-mismatch",
        "libstdcxx-too-old",
        "newer-than-matrix",
        "ort-cpu-and-gpu-installed",
        "ort-cudnn-major-mismatch",
        "pin-violated",
        "python-version-no-wheel",
        "tf-cannot-dlopen",
        "torch-torchvision-mismatch",
    }
)


def module_of(finding: str) -> str:
    """Give the name of the module that a finding's rule is in."""
    return f"{__name__}.{finding.replace('-', '_')}"
