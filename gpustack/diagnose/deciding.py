"""What to run or paste to settle whether a likely cause is the cause: for each finding the commands that show it."""

from __future__ import annotations

from collections.abc import Mapping

from gpustack.model.command import Command, sh
from gpustack.model.report import Decide

KERNEL_LOG = sh("sudo dmesg | grep -iE 'nvrm|xid|nvidia|nouveau|amdgpu|kfd|xe |i915'")
SMI = sh("nvidia-smi")
MODULE = sh("cat /proc/driver/nvidia/version")
LOADED = sh("lsmod | grep -E 'nvidia|nouveau|nova|amdgpu'")
ON_BUS = sh("lspci -nnk | grep -A3 -Ei 'vga|3d|display'")
TORCH = sh("python -m torch.utils.collect_env")
PACKAGES = sh("pip freeze | grep -iE 'torch|cuda|nvidia|cudnn|nccl|jax|tensorflow|onnxruntime|cupy|triton|vllm|flash'")
LOADER = sh("ldconfig -p | grep -E 'libcuda|libcudart|libcudnn|libnvidia-ml|libnccl|libnvJitLink'")
LIBRARY_PATH = sh("env | grep -E 'LD_LIBRARY_PATH|LD_PRELOAD|CUDA_|NVIDIA_|HIP_|ROCR_'")
NVCC = sh("nvcc --version")
DKMS = sh("dkms status")
HEADERS = sh("ls -d /lib/modules/$(uname -r)/build")
SECURE = sh("mokutil --sb-state")
DETAILS = sh("nvidia-smi -q")
DOCKER = sh("docker info | grep -iE 'runtime|cdi|root dir'")
IN_CONTAINER = sh("docker run --rm --gpus all ubuntu nvidia-smi")
CAPABILITY = sh("nvidia-smi --query-gpu=name,compute_cap,driver_version --format=csv")
LINK = sh(
    "nvidia-smi --query-gpu=pcie.link.gen.current,pcie.link.gen.max,pcie.link.width.current,pcie.link.width.max"
    " --format=csv"
)
NODES = sh("ls -l /dev/nvidia* /dev/kfd /dev/dri")
ROCM = sh("rocminfo | grep -E 'Name:|gfx'")
SYCL = sh("sycl-ls")
TOPOLOGY = sh("nvidia-smi topo -m")
FABRIC = sh("systemctl status nvidia-fabricmanager")
DEEP = sh("gpustack doctor --deep")

_VERSIONS = "Compare the CUDA versions of build and driver, and the GPU's compute capability with the build's list."
_DRIVER = "Compare the releases of the module in memory, the libraries and the packages."
_MODULE = "The kernel log shows whether the module is built, loaded or refused."
_BUILD = "The log of the build names what failed; its first error counts."
_LIBRARIES = "See which copy of the library the loader finds first."
_PACKAGES = "Compare the versions and build tags of the packages that must match."
_LOG = "The kernel log around the failure names the fault and the GPU."
_CONTAINER = "The same command on the host and in a container shows which of the two is at fault."
_AMD = "See which GPUs the kernel driver supports and who may open its nodes."
_INTEL = "See whether the runtime lists a GPU, and which libraries it finds."
_FABRIC = "Check the fabric manager's state, and compare its release with the driver's."

# What decides, and for which findings.
_TABLE: tuple[tuple[str, tuple[Command, ...], str], ...] = (
    (
        _VERSIONS,
        (CAPABILITY, TORCH),
        (
            "arch-not-in-build arch-by-ptx-only cpu-only-build driver-too-old-for-cuda-build ptx-newer-than-driver"
            " gpu-feature-unsupported forward-compat-804 cuda-bindings-newer-than-driver bnb-binary-missing-for-cuda"
            " framework-fails-on-gpu cuda-init-failed tf-no-native-windows-gpu"
        ),
    ),
    (
        _DRIVER,
        (SMI, MODULE, LOADER),
        (
            "driver-library-mismatch nvml-init-failed process-on-deleted-driver libcuda-missing nvidia-driver-missing"
            " libcuda-so-symlink-missing gpu-not-listed gpu-missing compat-libs-803 driver-packages-conflict"
        ),
    ),
    (
        _MODULE,
        (KERNEL_LOG, LOADED, SECURE),
        (
            "secure-boot-key-rejected nouveau-loaded nova-loaded nvidia-module-not-loaded nvidia-uvm-missing"
            " uvm-hmm-bug uvm-stale-after-suspend device-nodes-not-accessible"
        ),
    ),
    (
        "Compare the GPU's PCI id with the flavour and branch of the module.",
        (KERNEL_LOG, MODULE, ON_BUS),
        (
            "open-module-unsupported-gpu closed-module-unsupported-gpu"
            " legacy-gpu-needs-older-branch gsp-firmware-regression"
        ),
    ),
    (
        _BUILD,
        (DKMS, HEADERS, sh("sudo tail -n 60 /var/lib/dkms/nvidia/*/build/make.log")),
        "dkms-build-failed dkms-headers-missing module-built-for-other-kernel",
    ),
    (
        _LOG,
        (KERNEL_LOG, DETAILS),
        (
            "gpu-fell-off-bus gsp-timeout gpu-ecc-error gpu-recovery-needed nvlink-error application-fault gpu-xid"
            " inforom-corrupted host-hardware-fault gpu-overheat gpu-hw-slowdown ecc-corrected-high gpu-memory-hot"
            " gpu-power-limited gpu-process-stuck gpu-not-answering gpu-sensor-error kernel-fault nvml-slow"
        ),
    ),
    (
        "Check the link width and speed of the GPU and the ports above it under load, and the firmware's BAR windows.",
        (LINK, sh("sudo lspci -vv | grep -E 'LnkCap|LnkSta|Region|ACSCtl'"), KERNEL_LOG),
        "bios-bar-setting pcie-link-degraded pcie-errors",
    ),
    (
        "Check whether direct copies are correct, and what is between the GPUs.",
        (TOPOLOGY, sh("sudo lspci -vvv | grep -i acsctl"), sh("cat /proc/cmdline")),
        "iommu-acs-p2p nvlink-inactive rdma-port-degraded nccl-network-fault",
    ),
    (
        _FABRIC,
        (FABRIC, sh("journalctl -b -u nvidia-fabricmanager"), SMI),
        "fabric-manager-not-running fabric-manager-version-mismatch fabric-state",
    ),
    (
        "Check the MIG mode, the instances, and those that the program was given.",
        (sh("nvidia-smi -L"), sh("nvidia-smi mig -lgi"), LIBRARY_PATH),
        "mig-enabled-no-instance mig-multiple-devices cuda-visible-devices-invalid",
    ),
    (
        _CONTAINER,
        (SMI, IN_CONTAINER, DOCKER),
        (
            "container-toolkit-missing container-no-gpus-flag container-requires-newer-driver"
            " container-cgroup-lost-devices docker-snap container-capabilities-missing cdi-spec-stale"
        ),
    ),
    ("Check the size of shared memory inside the container.", (sh("df -h /dev/shm"),), "container-shm-too-small"),
    ("Check the limit inside the job or container.", (sh("ulimit -l"),), "memlock-too-small"),
    (
        _LIBRARIES,
        (LOADER, LIBRARY_PATH, PACKAGES),
        (
            "cuda-lib-shadowed cudnn-shadowed-by-ld-library-path cudnn-too-old cudnn-two-copies cudnn-missing"
            " several-cudnn-copies nccl-version-clash nvjitlink-clash cuda-runtime-missing cuda-major-mixed"
            " ort-cudnn-major-mismatch stub-on-loader-path stub-on-library-path tf-cannot-dlopen wsl-libcuda-shadowed"
        ),
    ),
    (
        _PACKAGES,
        (PACKAGES, TORCH),
        (
            "extension-abi-mismatch torch-torchvision-mismatch cuda-major-mismatch-wheel duplicate-torch-install"
            " jax-plugin-mismatch multiple-cupy ort-cpu-and-gpu-installed cuda-core-bindings-mismatch pin-violated"
            " wheel-files-overwritten framework-import-fails known-bad-combination numpy-abi-mismatch"
            " build-isolation-hides-torch framework-not-installed tensorrt-engine-version-mismatch"
        ),
    ),
    (
        "Check the Python version, and which releases are offered for it.",
        (sh("python -VV"),),
        "python-version-no-wheel",
    ),
    (
        "Compare the C and C++ libraries here with what the program needs.",
        (sh("ldd --version"), sh("strings /lib/x86_64-linux-gnu/libstdc++.so.6 | grep GLIBCXX | tail -n 3")),
        "glibc-too-old libstdcxx-too-old",
    ),
    (
        "Compare the versions of the toolkit and the compiler, and the GPU's architecture.",
        (NVCC, sh("gcc --version"), CAPABILITY, TORCH),
        (
            "toolkit-too-old-for-arch arch-dropped-by-toolkit"
            " host-compiler-too-new host-compiler-missing nvcc-torch-mismatch cuda-toolkit-missing"
        ),
    ),
    (
        _AMD,
        (ROCM, NODES, sh("id"), KERNEL_LOG),
        "rocm-gfx-unsupported gpu-unsupported-by-kfd user-not-in-render-group amdgpu-not-loaded",
    ),
    (_INTEL, (SYCL, sh("clinfo -l"), NODES), "intel-level-zero-missing oneapi-env-not-sourced xe-survivability-mode"),
    (
        "See where libcuda comes from inside WSL.",
        (LOADER, sh("ls -l /usr/lib/wsl/lib"), sh("dpkg -l | grep nvidia")),
        "wsl-linux-driver-installed",
    ),
    (
        "See what the loaders of OpenCL and Vulkan find.",
        (sh("clinfo -l"),),
        "opencl-icd-broken vulkan-icd-broken",
    ),
    ("See who holds memory on the GPU.", (SMI,), "gpu-memory-held sibling-differs"),
    ("See which driver the GPU is bound to.", (ON_BUS, LOADED), "gpu-passed-through"),
)
_BY_FINDING: Mapping[str, Decide] = {
    finding: Decide(text=text, commands=commands) for text, commands, findings in _TABLE for finding in findings.split()
}
ANY = Decide(text="Run gpustack on the machine itself.", commands=(DEEP,))


def decide(finding: str) -> Decide:
    """Return what settles whether this finding holds."""
    return _BY_FINDING.get(finding, ANY)
