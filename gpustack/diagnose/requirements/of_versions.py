"""The records of findings about versions and builds: what a broken requirement of each kind is reported as."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpustack.diagnose import fixes
from gpustack.model.command import Command, sh
from gpustack.model.facts import Facts, Layer
from gpustack.model.report import Severity

if TYPE_CHECKING:
    from collections.abc import Mapping

DRIVER = "nvidia-driver"
OTHERWISE = "requirement-not-met"
TEXTS: Mapping[str, str] = {
    "driver-too-old-for-gpu": """The driver's branch is older than the GPU, so it does not know it.

Each GPU architecture is supported from one driver branch on: Ada Lovelace from 520, Blackwell from 570. An older driver
loads and leaves the GPU out, or does not load at all, whatever is installed above it.

Install a driver of that branch or a newer one, and restart.""",
    OTHERWISE: """Something installed requires another version of something else than the one that is installed.

The compatibility matrix states what it needs, with its source. It may fail to load, fail at its first use, or leave the
GPU unused.

Install a version that fits: gpustack matrix plan shows which ones work together on this machine.""",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """What a broken requirement of one kind is: its finding, and the findings of rules that say the same.

    whole: it is about the machine, so that there is one finding whatever breaks it. building: it hurts only who
    compiles. driver: a newer driver fixes it. Without commands it is asked which versions work together.
    """

    finding: str
    layer: Layer
    remedy: str
    said_by: tuple[str, ...] = ()
    component: str | None = None
    severity: Severity = Severity.ERROR
    whole: bool = False
    building: bool = False
    driver: bool = False
    commands: Callable[[Facts], tuple[Command, ...]] | None = None


NEWER_DRIVER = "Install a newer driver, or a build for an older CUDA."
SAME_RELEASE = "Install the kernel module and the driver's libraries of one release, then restart."
OTHER_BUILD = "Install a build that has code for this GPU."
OTHER_CUDA = "Install the CUDA that it was built for alongside this one, or a release built for this CUDA."
FITTING = "Install versions that work together: gpustack matrix plan shows which ones do on this machine."
BUILD = sh("sudo dkms autoinstall")
OTHER_LIBRARY = (
    "Let the framework load the library that it was built with: reinstall it, and remove other copies from the path."
)
MODULE_OUT = ("dkms-headers-missing", "dkms-build-failed", "nvidia-module-not-loaded", "module-built-for-other-kernel")
CODE = (
    *("arch-by-ptx-only", "ptx-newer-than-driver", "gpu-feature-unsupported", "toolkit-too-old-for-arch"),
    *("cpu-only-build", "cuda-major-mismatch-wheel", "framework-fails-on-gpu"),
)
LIBRARIES = (
    *("cudnn-shadowed-by-ld-library-path", "cudnn-two-copies", "ort-cudnn-major-mismatch", "cuda-major-mixed"),
    *("nccl-version-clash", "cuda-lib-shadowed", "wheel-files-overwritten", "pin-violated"),
)
TORCHES = (
    *("torch-torchvision-mismatch", "extension-abi-mismatch", "duplicate-torch-install"),
    *("bnb-binary-missing-for-cuda", "cuda-major-mismatch-wheel"),
)
ROCM = ("rocm-gfx-unsupported", "cpu-only-build")
# By kind, and by kind and the component that is needed where that makes a difference.
PAIRS: Mapping[str, Pair] = {
    "cuda": Pair(
        finding="driver-too-old-for-cuda-build",
        layer=Layer.DRIVER,
        remedy=NEWER_DRIVER,
        said_by=("cuda-bindings-newer-than-driver", "container-requires-newer-driver", "compat-libs-803"),
        component=DRIVER,
        driver=True,
    ),
    "branch": Pair(
        finding="driver-too-old-for-gpu",
        layer=Layer.DRIVER,
        remedy="Install a driver of a branch that supports this GPU.",
        said_by=("legacy-gpu-needs-older-branch", "gsp-firmware-regression"),
        component=DRIVER,
        whole=True,
        driver=True,
    ),
    "flavour": Pair(
        finding="open-module-unsupported-gpu",
        commands=lambda _facts: (sh("modinfo -F license nvidia"),),
        layer=Layer.KERNEL_MODULE,
        remedy="Install the other flavour of the kernel module: NVIDIA packages both.",
        said_by=("closed-module-unsupported-gpu",),
        component="nvidia.ko",
        whole=True,
    ),
    "flavour proprietary": Pair(
        finding="closed-module-unsupported-gpu",
        commands=lambda _facts: (sh("modinfo -F license nvidia"),),
        layer=Layer.KERNEL_MODULE,
        remedy="Install the other flavour of the kernel module: NVIDIA packages both.",
        component="nvidia.ko",
        whole=True,
    ),
    "release": Pair(
        finding="driver-library-mismatch",
        commands=lambda facts: (fixes.reinstall(facts),),
        layer=Layer.DRIVER,
        remedy=SAME_RELEASE,
        component=DRIVER,
        whole=True,
    ),
    "vermagic": Pair(
        finding="module-built-for-other-kernel",
        commands=lambda facts: (fixes.headers(facts), BUILD),
        layer=Layer.KERNEL_MODULE,
        remedy="Build the module for the running kernel.",
        said_by=MODULE_OUT,
        component="nvidia.ko",
        whole=True,
    ),
    "headers": Pair(
        finding="dkms-headers-missing",
        commands=lambda facts: (fixes.headers(facts), BUILD),
        layer=Layer.KERNEL,
        remedy="Install the headers of the running kernel and let DKMS build the module.",
        said_by=MODULE_OUT,
        component="kernel-headers",
        whole=True,
    ),
    "kernel": Pair(
        finding="dkms-build-failed",
        commands=lambda _facts: (sh("dkms status"), sh("uname -r")),
        layer=Layer.KERNEL_MODULE,
        remedy="Install a driver that builds on this kernel, or boot an older kernel.",
        said_by=(*MODULE_OUT, "driver-library-mismatch"),
        component="nvidia.ko",
        whole=True,
    ),
    "architecture": Pair(finding="arch-not-in-build", layer=Layer.FRAMEWORK, remedy=OTHER_BUILD, said_by=CODE),
    "accelerator": Pair(finding="arch-not-in-build", layer=Layer.FRAMEWORK, remedy=OTHER_BUILD, said_by=CODE),
    "architecture amd-gpu": Pair(
        finding="rocm-gfx-unsupported",
        layer=Layer.FRAMEWORK,
        remedy=OTHER_BUILD,
        said_by=ROCM,
        component="rocm",
    ),
    "accelerator amd-gpu": Pair(
        finding="cpu-only-build", layer=Layer.FRAMEWORK, remedy="Install the build for ROCm.", said_by=ROCM
    ),
    "accelerator intel-gpu": Pair(
        finding="cpu-only-build", layer=Layer.FRAMEWORK, remedy="Install the build for XPU.", said_by=CODE
    ),
    "toolkit": Pair(
        finding="cuda-runtime-missing", layer=Layer.RUNTIME, remedy=OTHER_CUDA, said_by=("cuda-major-mixed",)
    ),
    "tensorflow toolkit": Pair(finding="tf-cannot-dlopen", layer=Layer.FRAMEWORK, remedy=OTHER_CUDA),
    "architecture level-zero": Pair(
        finding="intel-level-zero-missing",
        commands=lambda _facts: (sh("sudo dmesg | grep -iE 'xe|i915'"),),
        layer=Layer.DRIVER,
        remedy="Install Intel's compute runtime, and let Level Zero list the GPU.",
        said_by=("user-not-in-render-group", "oneapi-env-not-sourced", "xe-survivability-mode"),
        component="level-zero",
        whole=True,
    ),
    "compute": Pair(
        finding="gpu-unsupported-by-kfd",
        commands=lambda _facts: (sh("sudo dmesg | grep -iE 'amdgpu|kfd'"),),
        layer=Layer.HARDWARE,
        remedy="Boot a kernel whose amdgpu supports this GPU, and read what the driver logs.",
        said_by=("amdgpu-not-loaded",),
        component="amdgpu.ko",
        whole=True,
    ),
    "library": Pair(finding="cudnn-too-old", layer=Layer.LIBRARY, remedy=OTHER_LIBRARY, said_by=LIBRARIES),
    "library nccl": Pair(
        finding="nccl-version-clash",
        layer=Layer.LIBRARY,
        remedy=OTHER_LIBRARY,
        said_by=LIBRARIES,
    ),
    "library cublas": Pair(
        finding="cuda-lib-shadowed",
        layer=Layer.LIBRARY,
        remedy=OTHER_LIBRARY,
        said_by=LIBRARIES,
    ),
    "library hip": Pair(finding=OTHERWISE, layer=Layer.LIBRARY, remedy=OTHER_LIBRARY, said_by=ROCM),
    "library sycl": Pair(
        finding="pin-violated", layer=Layer.FRAMEWORK, remedy=FITTING, said_by=("oneapi-env-not-sourced",)
    ),
    "loader": Pair(
        finding=OTHERWISE,
        layer=Layer.ENVIRONMENT,
        remedy="Install the SYCL runtime that the build names.",
        said_by=("oneapi-env-not-sourced",),
    ),
    "python": Pair(finding="python-version-no-wheel", layer=Layer.ENVIRONMENT, remedy=FITTING),
    "glibc": Pair(
        finding="glibc-too-old",
        layer=Layer.ENVIRONMENT,
        remedy="Use a newer distribution, a container with one, or an older release of the package.",
        said_by=("libstdcxx-too-old",),
    ),
    "torch": Pair(
        finding="pin-violated", layer=Layer.FRAMEWORK, remedy=FITTING, said_by=TORCHES, severity=Severity.WARNING
    ),
    "combination": Pair(finding="known-bad-combination", layer=Layer.LIBRARY, remedy=FITTING),
    "system": Pair(
        finding="tf-no-native-windows-gpu",
        commands=lambda _facts: (sh("wsl --install"),),
        layer=Layer.FRAMEWORK,
        remedy="Use WSL 2, or release 2.10.",
        whole=True,
    ),
    "target": Pair(
        finding="toolkit-too-old-for-arch",
        commands=lambda _facts: (sh("nvcc --list-gpu-arch"),),
        layer=Layer.COMPILER,
        remedy="Compile with a toolkit that supports this GPU.",
        said_by=("arch-dropped-by-toolkit",),
        severity=Severity.WARNING,
        building=True,
    ),
    "host-compiler": Pair(
        finding="host-compiler-too-new",
        commands=lambda _facts: (sh("nvcc --version"), sh("gcc --version")),
        layer=Layer.COMPILER,
        remedy="Let nvcc use a compiler that it accepts (-ccbin), or use a newer toolkit.",
        severity=Severity.WARNING,
        building=True,
    ),
    "window": Pair(
        finding="bios-bar-setting",
        commands=lambda _facts: (sh("sudo dmesg | grep -iE 'bar |resizable'"),),
        layer=Layer.HARDWARE,
        remedy="Switch on Resizable BAR and Above 4G Decoding in the machine's firmware.",
        said_by=("xe-survivability-mode",),
        whole=True,
    ),
}
PAIRS = {**PAIRS, "driver": PAIRS["cuda"]}
OTHER = Pair(finding=OTHERWISE, layer=Layer.LIBRARY, remedy=FITTING)
# What else is a requirement, where a program merely said that it fails: what needs, what is needed, and the kind.
SPOKEN: Mapping[str, tuple[str, str, str]] = {
    "driver-too-old-for-cuda-build": ("cuda-runtime", DRIVER, "cuda"),
    "ptx-newer-than-driver": ("cuda-runtime", DRIVER, "ptx"),
    "container-requires-newer-driver": ("image", DRIVER, "driver"),
    "driver-too-old-for-gpu": ("gpu", DRIVER, "branch"),
    "legacy-gpu-needs-older-branch": ("gpu", DRIVER, "branch"),
    "open-module-unsupported-gpu": ("gpu", "nvidia.ko", "flavour"),
    "closed-module-unsupported-gpu": ("gpu", "nvidia.ko", "flavour"),
    "driver-library-mismatch": ("libnvidia-ml", "nvidia.ko", "release"),
    "fabric-manager-version-mismatch": ("nvidia-fabricmanager", "nvidia.ko", "release"),
    "module-built-for-other-kernel": ("nvidia.ko", "linux-kernel", "vermagic"),
    "dkms-headers-missing": ("dkms", "kernel-headers", "headers"),
    "dkms-build-failed": (DRIVER, "linux-kernel", "kernel"),
    "arch-not-in-build": ("pytorch", "gpu", "architecture"),
    "rocm-gfx-unsupported": ("pytorch", "amd-gpu", "architecture"),
    "gpu-unsupported-by-kfd": ("amd-gpu", "amdgpu.ko", "compute"),
    "cudnn-too-old": ("pytorch", "cudnn", "library"),
    "ort-cudnn-major-mismatch": ("onnxruntime", "cudnn", "library"),
    "nccl-version-clash": ("pytorch", "nccl", "library"),
    "python-version-no-wheel": ("pytorch", "python", "python"),
    "glibc-too-old": ("pytorch", "python", "glibc"),
    "libstdcxx-too-old": ("pytorch", "python", "libstdcxx"),
    "torch-torchvision-mismatch": ("torchvision", "pytorch", "torch"),
    "extension-abi-mismatch": ("torch-extensions", "pytorch", "torch"),
    "jax-plugin-mismatch": ("jax", "jaxlib", "plugin"),
    "nvcc-torch-mismatch": ("pytorch", "cuda-toolkit", "toolkit"),
    "toolkit-too-old-for-arch": ("cuda-toolkit", "gpu", "target"),
    "arch-dropped-by-toolkit": ("cuda-toolkit", "gpu", "target"),
    "host-compiler-too-new": ("cuda-toolkit", "gcc", "host-compiler"),
    "tf-no-native-windows-gpu": ("tensorflow", "windows", "system"),
}
