"""Common lines of programs: the cause that an expert names first comes first, as a root or as the likeliest."""

from __future__ import annotations

import pytest

from gpustack.diagnose.engine import judge
from gpustack.imports import load_texts
from gpustack.model.report import Health
from tests.schema import MATRIX

SMI = "NVIDIA-SMI couldn't find libnvidia-ml.so library in your system. Please make sure that the NVIDIA Display Driver"
FIRST = {
    f"{SMI} is properly installed and present in your system.": "nvidia-driver-missing",
    "FileNotFoundError: [Errno 2] No such file or directory: '/usr/local/cuda/bin/nvcc'": "cuda-toolkit-missing",
    "/usr/bin/ld: cannot find -lcudart\ncollect2: error: ld returned 1 exit status": "cuda-toolkit-missing",
    "/usr/bin/ld: cannot find -lcuda: No such file or directory": "libcuda-so-symlink-missing",
    "program crashed but device 0 memory hasn't been released\nGPU 0: NVIDIA TITAN X": "gpu-memory-held",
    "nothing provides __cuda >=12 needed by jaxlib-0.4.23-cuda120py310h": "driver-too-old-for-cuda-build",
    "Numba needs NumPy 2.0 or less. Got NumPy 2.1.": "pin-violated",
    "nvidia-container-cli: initialization error: driver rpc error: timed out": "nvml-slow",
    "NCCL WARN Call to ibv_create_cq failed with error Cannot allocate memory": "memlock-too-small",
    "libGL error: failed to open drm device: Permission denied": "user-not-in-render-group",
    "训练意外中止之后出现僵尸进程 显存一直占着释放不了": "gpu-memory-held|gpu-process-stuck",
    "ImportError: libtorch_cuda.so: cannot open shared object file: No such file or directory": "cpu-only-build",
    "$ pip freeze | grep torch -> torch==2.3.1+cpu": "cpu-only-build",
    "The GPU compute capability in your current machine is 120, which is not supported by Paddle": "arch-not-in-build",
    "no text is recognised\ndevice: 0, GPU Compute Capability: 12.0, Driver API Version: 12.9, Runtime API Version: "
    "12.6": "arch-not-in-build",
    'Steam draws nothing, it says "LLVM doesn\'t support gfx1100"': "driver-too-old-for-gpu",
    "[    8.09] pc : sdma_v6_0_mqd_init+0xe4/0x148 [amdgpu]": "kernel-fault",
    "jaxlib 0.1.55+cuda110\nCould not load dynamic library 'libcudnn.so.8'; dlerror: libcudnn.so.8: cannot open shared "
    "object file: No such file or directory": "cudnn-missing",
    "container nvidia/cuda:11.8.0-devel-ubuntu18.04, driver of the host 470.182.03\ncuda_diagnostics.cc:312] kernel "
    "version 470.182.3 does not match DSO version 520.61.5 -- cannot find working devices": "compat-libs-803",
    "kernel version 470.82.1 does not match DSO version 470.103.1 -- cannot find working": "driver-library-mismatch",
    "nvidia: version magic '6.1.0-MANJARO SMP mod_unload retpoline ' should be '6.1.0-MANJARO SMP mod_unload '": (
        "module-built-for-other-kernel"
    ),
    "Tesla T4, driver 535.161.07\nflash-attn 2.5.8, torch 2.2.2+cu121\ngenerate() crashes": "gpu-feature-unsupported",
    "image: nvidia/cuda:12.2.2-cudnn8-runtime-ubuntu22.04\npip: onnxruntime-gpu==1.16.3\nslow": "cuda-major-mixed",
    "LD_LIBRARY_PATH=/usr/local/cuda-12.2/compat\nlibcuda.so.1 -> libcuda.so.535.104.05\n"
    "$ cat /sys/module/nvidia/version\n550.54.15": "compat-libs-803",
    "Fabric\n    State : In Progress\nH100 SXM, nvidia-fabricmanager active (running)": "fabric-state",
    "Setting up nvidia-driver-550 ...\nIt is likely that 6.6.36.3-microsoft-standard-WSL2 belongs to a chroot's host\n"
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.": "wsl-linux-driver-installed",
    "01:00.0 VGA compatible controller [0300]: NVIDIA Corporation Device [10de:2882] (rev a1)\n"
    "ii  nvidia-driver-515   515.105.01-0ubuntu1\n$ nvidia-smi\nNo devices were found": "driver-too-old-for-gpu",
    "capabilities: [utility]\n$ docker compose exec t nvidia-smi -L\nGPU 0: NVIDIA GeForce RTX 3090\n"
    "OSError: libcuda.so.1: cannot open shared object file": "container-capabilities-missing",
    "setting up CDI devices: unresolvable CDI devices nvidia.com/gpu=1\n"
    "-rw-r--r-- 1 root root 21984 Jan 14  2024 /etc/cdi/nvidia.yaml": "cdi-spec-stale",
    "setting up CDI devices: unresolvable CDI devices nvidia.com/gpu=1": "container-toolkit-missing",
    "P100. pip install -U torch brought 2.8.0+cu128. cuda.is_available() is True, a+b crashes": "arch-not-in-build",
    "index, name, power.limit [W], clocks.max.sm [MHz]\n0, NVIDIA H100 80GB HBM3, 700.00 W, 1980 MHz\n"
    "1, NVIDIA H100 80GB HBM3, 400.00 W, 1980 MHz\n2, NVIDIA H100 80GB HBM3, 700.00 W, 1980 MHz": "sibling-differs",
    "AttributeError: 'DeepSpeedCPUAdam' object has no attribute 'ds_opt_adam'": "nvcc-torch-mismatch",
}


@pytest.mark.parametrize("text", FIRST)
def test_the_cause_comes_first(text: str) -> None:
    report = judge(load_texts({"a paste": text.encode()}, MATRIX), MATRIX)
    named = dict.fromkeys((*report.verdict.root_causes, *(one.id for one in report.candidates)))
    assert next(iter(named), None) in FIRST[text].split("|"), list(named)


def test_a_gpu_whose_links_are_inactive_is_not_called_healthy_for_them() -> None:
    text = "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-1)\n\t Link 0: <inactive>\n\t Link 1: <inactive>"
    report = judge(load_texts({"a paste": text.encode()}, MATRIX), MATRIX)
    assert report.verdict.status is Health.UNKNOWN
    assert report.candidates[0].id == "nvlink-inactive"


@pytest.mark.parametrize(
    "text",
    [
        "Since 1.4.0 the gpu bar below the cores is gone, before it showed usage",
        "With a 3080 the DLSS section disappears from the GPU menu once the game has loaded",
        "xFormers was built for:\n  PyTorch 2.0.0 with CUDA None (you have 2.0.0)\n  Python  3.10.11 (you have 3.10.1)",
        'OSError: [WinError 1455] The paging file is too small. Error loading "C:\\venv\\torch\\lib\\cublas64_11.dll"',
        "Debian, 2x Vega64\n[coproc] NVIDIA: libcuda.so: cannot open shared object file: No such file or directory",
        "no nvidia here, all set to cpu, yet: AssertionError: Torch not compiled with CUDA enabled",
    ],
)
def test_a_part_of_a_window_that_is_gone_a_cpu_that_is_wanted_and_a_build_that_fits_are_no_root_cause(
    text: str,
) -> None:
    assert not judge(load_texts({"a paste": text.encode()}, MATRIX), MATRIX).verdict.root_causes
