"""A few lines as people write them: the fault that they describe is named, and without one nothing is blamed."""

from __future__ import annotations

import pytest

from gpustack.diagnose.engine import judge
from gpustack.model.report import Health
from tests.imports.reading import MATRIX, first, read

FAULTS = {
    "kernel.x86_64  5.14.0-362.8.1.el9_3  @baseos\n"
    "kernel-devel.x86_64  5.14.0-427.el9  @appstream\n"
    "the nvidia module is not loaded, nvidia-smi fails": ("dkms-headers-missing", "5.14.0-362.8.1.el9_3"),
    "modprobe: ERROR: could not insert 'nvidia': Exec format error": ("module-built-for-other-kernel", "another"),
    "UEFI Secure Boot is on, Bumblebee says: Could not load GPU driver": ("secure-boot-key-rejected", "Secure Boot"),
    "GTX 970, nvidia-open-dkms 570.86: it says that this card is not supported": ("open-module-unsupported-gpu", "970"),
    "nvidia-nvswitch0: Version mismatch, kernel version 535.129.03 user version 535.104.05": (
        "fabric-manager-version-mismatch",
        "535.104.05",
    ),
    "fabricmanager 550.54.15 but driver 550.90.07 on a DGX A100, service fails to start": (
        "fabric-manager-version-mismatch",
        "550.54.15",
    ),
    "$ docker run --gpus all nvidia/cuda:12.2.0-base-ubuntu22.04 nvidia-smi\n"
    "NVIDIA-SMI 535.54.03  Driver Version: 535.54.03  CUDA Version: 12.2\n"
    "(jupyter container) $ nvidia-smi\n"
    "bash: nvidia-smi: command not found": ("container-no-gpus-flag", "--gpus"),
    "$ LD_LIBRARY_PATH=/usr/local/cuda-11.4/lib64/stubs/ ./nvtop\nNo GPU to monitor.": ("stub-on-loader-path", "stubs"),
    "Runtime compute cap 52 is not compatible with compile time compute cap 75": ("arch-not-in-build", "Embeddings"),
    "CUDA kernel mul_mat_q has no device code compatible with CUDA arch 520. ggml-cuda.cu was compiled for: 520": (
        "arch-not-in-build",
        "ggml-cuda",
    ),
    "RuntimeError: PyTorch is not linked with support for xpu devices": ("cpu-only-build", "PyTorch"),
    "onnxruntime was installed first and then onnxruntime-gpu, the CPU is used": ("ort-cpu-and-gpu-installed", "gpu"),
    "torch 2.3, /opt/cuda/lib64/libcudnn_cnn_infer.so.8: undefined symbol: "
    "_ZN5cudnn7backend3fooEv\n"
    "unset LD_LIBRARY_PATH helps": ("cudnn-shadowed-by-ld-library-path", "LD_LIBRARY_PATH"),
    "Could not load dynamic library 'libcufft.so.10:No such file or directory; LD_LIBRARY_PATH: /usr/local/cuda-11.2": (
        "tf-cannot-dlopen",
        "libcufft.so.10",
    ),
    "foo_bar-1.2+cuda12.4-cp311-cp311-win_amd64.whl installed\n        cublas64_13.dll => not found": (
        "cuda-major-mismatch-wheel",
        "cublas64_13.dll",
    ),
    "4 GPUs, NCCL WARN NET/IB : Got completion with error 4, opcode 0, len 0, vendor err 81\n"
    "ACSCtl: SrcValid+ ReqRedir+": ("iommu-acs-p2p", "ACS"),
    "pip install onnxruntime-gpu==1.6.0\nOSError: libcudnn.so.8: cannot open shared object file": (
        "ort-cudnn-major-mismatch",
        "1.6.0",
    ),
    "xFormers was built for PyTorch 2.1.2+cu121, you have 2.4.0": ("extension-abi-mismatch", "2.1.2"),
    "torch.__version__ gives 2.6.0+cpu although I have a 4070, nvidia-smi is fine": ("cpu-only-build", "2.6.0+cpu"),
    "onnxruntime 1.19.0, get_available_providers() -> ['CPUExecutionProvider'], RTX 4080, I "
    "wanted CUDAExecutionProvider": ("cpu-only-build", "onnxruntime"),
    "NCCL error in the container, df -h /dev/shm shows 64M, works with --ipc=host": ("container-shm-too-small", "64"),
    "clinfo shows 0 devices as user, with sudo it lists the Arc A770": ("user-not-in-render-group", "render"),
    "WSL2 Ubuntu: libcuda.so.1 is loaded from /opt/cuda/compat instead of /usr/lib/wsl/lib": (
        "wsl-libcuda-shadowed",
        "compat",
    ),
    "warning: not compiled with GPU offload support": ("cpu-only-build", "llama.cpp"),
    "Tesla K40c, pytorch 1.8: PyTorch no longer supports this GPU because it is too old.": ("arch-not-in-build", "3.5"),
    "570.86.10: GSP boot fails on my 2080 Ti, 565.77 works": ("gsp-firmware-regression", "565.77"),
    "the driver was updated to 565.77, module in memory still 560.35.03, nvidia-smi fails": (
        "driver-library-mismatch",
        "560.35.03",
    ),
    "nvidia-modeset: Version mismatch: nvidia.ko(378.13) nvidia-modeset.ko(375.26)": (
        "driver-library-mismatch",
        "nvidia-modeset.ko(375.26)",
    ),
    "The compiler used to compile the kernel (gcc\n4.9) does not exactly match the current compiler\n(gcc 6.2).": (
        "dkms-build-failed",
        "4.9",
    ),
    "factory.go:107] Detected non-NVML platform: could not load NVML library: libnvidia-ml.so.1: cannot open shared": (
        "container-toolkit-missing",
        "non-NVML",
    ),
    "in WSL: NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n"
    "in PowerShell:\n| NVIDIA-SMI 517.48       Driver Version: 517.48       CUDA Version: 11.7     |\n"
    "| GPU  Name            TCC/WDDM | Bus-Id        Disp.A | Volatile Uncorr. ECC |": (
        "wsl-linux-driver-installed",
        "/usr/lib/wsl/lib",
    ),
    "I am in docker here, root@101acc334128:/# rocminfo\n"
    "Unable to open /dev/kfd read-write: No such file or directory\n"
    "Failed to get user name to check for video group membership": ("container-no-gpus-flag", "/dev/kfd"),
    "The card is not seen at all when I use the riser": ("gpu-fell-off-bus", "riser"),
    "nvidia340 fails to build on linux 4.19": ("dkms-build-failed", "nvidia340"),
    "failed to apply mount from Container Device Interface for NVIDIA": ("cdi-spec-stale", "Interface"),
    '17 minutes in, the computer "loses" the eGPU. The kernel log is empty, docker too': (
        "gpu-fell-off-bus",
        "loses",
    ),
}
SOUND = (
    "        Subsystem: Hewlett-Packard Company Device [103c:85fc]",
    "usermod: group 'render' does not exist",
    "Docker images run with nvidia-container-toolkit are missing the /etc/vulkan/icd.d/nvidia_icd.json file",
    "The container toolkit is missing the docs, and nothing else",
    "The riser is fine, the card is seen at x16",
    "Could not start backend: Runtime compute cap 75 is not compatible with compile time compute cap 75",
    "I told pip to install torch into /home/me/.local and it works",
    "Both torch and torchvision live in /usr/lib/python3/dist-packages",
    'File "/home/u/scaffold/torch/lib/python3.10/site-packages/torch/nn/modules/module.py", line 1501',
    "multiple torch jobs use ~/data/x",
    "I tried torch 2.1 and 2.2, both fail the same way",
    "I tested two versions of torch, 2.1 and 2.2",
    "We support multiple versions of PyTorch in CI",
    "I used to have two versions of pytorch, now only one",
    "an old torch extension cache in ~/.cache/torch_extensions",
    "older nvJitLink options are kept in .local/share",
    "thermal: intel: Fix dangling resources on thermal_throttle_online()",
    "Don't need libXext at all - no headers or functions from it are used.",
    "We don't include kernel headers or glibc headers",
    "watch to see if they fall off the bus or not",
    "no source file was found for the CUDA sample",
    "RTX 4090, torch 2.5.1+cu124; it works with --ipc=host too, /dev/shm is 64G",
    "onnxruntime 1.19.0, providers: ['CPUExecutionProvider'], no GPU here",
    "kernel.x86_64  5.14.0-362.el9  @baseos\nkernel-devel.x86_64  5.14.0-427.el9  @appstream\nall is well",
    "onnxruntime and onnxruntime-gpu should not be installed together, they say; I only have onnxruntime-gpu 1.18.0",
    "Thermal throttling was last year's problem, we cleaned the fans and the RTX 2080 runs at 70C now",
    "a friend says this card is great, RTX 4070, driver 550.54.14",
)


@pytest.mark.parametrize("said", FAULTS)
def test_the_fault_that_a_few_lines_tell_is_named(said: str) -> None:
    finding, named = FAULTS[said]
    found, words = first(said)
    assert found == finding
    assert named in words


@pytest.mark.parametrize(
    ("said", "likely"),
    [
        ("vkCreateInstance: Found no drivers!\nERROR_INCOMPATIBLE_DRIVER", "vulkan-icd-broken"),
        ("nvidia_icd.json is missing in this image, vkcube uses llvmpipe", "vulkan-icd-broken"),
        ("/lib/modprobe.d/blacklist-nvidia.conf has: alias nvidia off", "nvidia-module-not-loaded"),
        ("my 3090: after a few prompts the power goes off on my pc", "host-hardware-fault"),
        ("only 7 GPUs are detected by nvidia-smi", "gpu-missing"),
        ("Windows has stopped this device because it has reported problems. (Code 43)", "gpu-missing"),
        ("HiveOS not detecting 4th GPU", "gpu-missing"),
        ("pci 0000:01:00.0: Refused to change power state, currently in D3", "gpu-fell-off-bus"),
        ("pcieport 0000:00:01.0: pciehp: Slot(1): Link Down", "gpu-fell-off-bus"),
        ("after suspend the card is gone from the PCI bus until reboot", "gpu-fell-off-bus"),
        ("GPU 3: detected DEAD (0d:00.0), will execute restart script watchdog.sh", "gpu-not-answering"),
        ("GSP task watchdog timeout @ pc:0x1250c5c, partition:2#0, task:3", "gsp-timeout"),
        ("my desktop powers off instantly when training starts on both cards", "host-hardware-fault"),
        ("ldd: libcuda.so.1 => /usr/local/cuda/lib64/stubs/libcuda.so.1", "stub-on-loader-path"),
        ("NCCL picks the wrong network card and training over two machines never starts", "nccl-network-fault"),
        ("vulkaninfo fails in the container until NVIDIA_DRIVER_CAPABILITIES=all", "container-capabilities-missing"),
        ("the RTX 4060 shows up as Microsoft Basic Display Adapter", "nvidia-driver-missing"),
    ],
)
def test_what_a_program_says_alone_comes_first_among_the_likely_causes(said: str, likely: str) -> None:
    assert [one.id for one in judge(read(said), MATRIX).candidates][:1] == [likely]


# A title or an error line alone, and the cause that an expert names first; the tool may name it third.
ALONE = {
    "RuntimeError: No CUDA GPUs are available": "cuda-visible-devices-invalid",
    "failed call to cuInit: CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected": "cuda-visible-devices-invalid",
    "RuntimeError: Error building extension 'upfirdn2d_plugin'": "cuda-toolkit-missing",
    "RuntimeError: Error compiling objects for extension": "cuda-toolkit-missing",
    "libcublas.so.11: symbol cublasLtGetVersion version libcublasLt.so.11 not defined in file libcublasLt.so.11 with "
    "link time reference": "cuda-lib-shadowed",
    "*ERROR* MES failed to response msg=2": "gpu-not-answering",
    "Xid 79": "gpu-fell-off-bus",
    "GPU has fallen off the bus": "gpu-fell-off-bus",
    "NVML: cannot get current temperature, error 15": "gpu-fell-off-bus",
    "NVIDIA kernel module missing. Falling back to nouveau": "nvidia-module-not-loaded",
    "ollama no GPU - Intel Arc A750 Windows and Linux": "cpu-only-build",
    "UserWarning: DPCPP Device count is zero!": "intel-level-zero-missing",
    "User provided device_type of 'cuda', but CUDA is not available. Disabling": "cpu-only-build",
    "libcuda.so.1: cannot open shared object file: No such file or directory": "libcuda-missing",
    "Cannot load libcuda.so.1": "nvidia-driver-missing",
    "PyTorch erkennt meine GPU nicht": "cpu-only-build",
    "jaxlib CUDA 12 fails to start: Unable to load cuSPARSE": "nvjitlink-clash",
    "cuda不可用": "cpu-only-build",
    "NCCL hangs on 2x RTX 4090": "iommu-acs-p2p",
    "libfoo.so: undefined symbol: cuTensorMapEncodeTiled": "driver-too-old-for-cuda-build",
    "cannot import name 'numpy_support' from 'numba' (unknown location)": "pin-violated",
    "podman --gpus all stops with libnvidia-egl-wayland.so.1.1.13 not found since the update": "cdi-spec-stale",
    "unhandled system error (run with NCCL_DEBUG=INFO for details)": "nccl-network-fault",
}


@pytest.mark.parametrize(("said", "likely"), ALONE.items())
def test_the_cause_of_a_bare_line_is_among_the_first_three(said: str, likely: str) -> None:
    report = judge(read(said), MATRIX)
    assert likely in [*report.verdict.root_causes, *(one.id for one in report.candidates)][:3]


def test_a_cause_of_a_program_that_nothing_names_is_no_candidate() -> None:
    listed = judge(read("failed call to cuInit: CUDA_ERROR_NO_DEVICE"), MATRIX).candidates
    assert not [one.id for one in listed if one.id.startswith(("wsl-", "mig-", "bnb-", "jax-", "ort-"))]


def test_the_first_line_of_nvidia_smi_alone_shows_that_the_driver_works() -> None:
    banner = "| NVIDIA-SMI 450.57       Driver Version: 450.57       CUDA Version: 11.0     |"
    assert judge(read(f"{banner}\nHow does an exporter parse this?"), MATRIX).verdict.status is Health.HEALTHY
    assert judge(read(f"{banner}\nbut torch does not see the GPU"), MATRIX).verdict.status is not Health.HEALTHY


def test_a_device_that_is_busy_or_unavailable_is_not_at_work() -> None:
    for said in ("exclusive-process mode, CUDA-capable device(s) is/are busy or unavailable", "CUDA devices are busy"):
        assert ("works-said" in {one.kind for one in read(said).messages}) is ("unavailable" not in said)


@pytest.mark.parametrize("said", SOUND)
def test_words_that_state_no_fault_blame_nobody(said: str) -> None:
    assert judge(read(said), MATRIX).verdict.root_causes == ()
