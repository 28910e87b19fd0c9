"""The rules, one module a family, in the order in which they are asked, and the causes that several have in common."""

FAMILIES = (
    *("gpu_faults", "interconnect", "load", "firmware", "amd", "access", "module_builds", "kernel_modules"),
    *("driver", "driver_age", "cuda_start", "containers", "runtimes", "visibility", "windows", "loader"),
    *("cudnn", "cuda_majors", "toolkit", "architectures", "python", "duplicates", "extension_abi", "pins"),
    *("cuda_wheels", "cpu_only", "outright", "frameworks", "coverage"),
)
# What keeps one stage after another of the driver from starting: a rule that is asked of a later one names the group.
MODULE_STAYS_OUT = (
    *("nvidia-driver-missing", "nouveau-loaded", "nova-loaded", "dkms-headers-missing", "dkms-build-failed"),
    *("module-built-for-other-kernel", "secure-boot-key-rejected", "open-module-unsupported-gpu"),
    *("closed-module-unsupported-gpu", "legacy-gpu-needs-older-branch", "driver-too-old-for-gpu"),
    "vgpu-guest-driver-missing",
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
    "fabric-state",
    "gpu-not-listed",
    "libcuda-missing",
    "fabric-manager-version-mismatch",
    "wsl-libcuda-shadowed",
)
LOST = ("gpu-fell-off-bus", "gsp-timeout", "gpu-not-answering", "gpu-missing")
FABRIC = ("fabric-manager-version-mismatch", "fabric-manager-not-running")
WRONG_LIBRARIES = ("nvjitlink-clash", "nccl-version-clash", "wheel-files-overwritten", "cuda-lib-shadowed")
WRONG_CUDNN = ("cudnn-shadowed-by-ld-library-path", "cudnn-two-copies", "cudnn-too-old")
# What programs name themselves when they fail.
NAMED = (
    *("cuda-runtime-missing", "cuda-major-mixed", "cudnn-missing", "tf-cannot-dlopen", "ort-cudnn-major-mismatch"),
    *("cuda-core-bindings-mismatch", "cuda-bindings-newer-than-driver", "multiple-cupy", "libcuda-so-symlink-missing"),
    *("extension-abi-mismatch", "glibc-too-old", "libstdcxx-too-old", "host-compiler-too-new"),
    *("toolkit-too-old-for-arch", "arch-dropped-by-toolkit", "gpu-feature-unsupported", "pin-violated"),
    *("known-bad-combination", "numpy-abi-mismatch", "host-compiler-missing", "framework-not-installed"),
)
