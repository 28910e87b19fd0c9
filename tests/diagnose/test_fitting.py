"""Facts of one text that stand apart and do not fit together, without any message: what is wrong comes first."""

from __future__ import annotations

import pytest

from gpustack.diagnose.engine import judge
from gpustack.imports import load_texts
from gpustack.model.report import Health, Report
from tests.schema import MATRIX

APART = {
    "cupy-cuda13x 13.6.0, A10, driver 570.133.20": "driver-too-old-for-cuda-build",
    "win10, geforce 472.12, gtx 1660 super. installed torch-2.3.1+cu121-cp311-cp311-win_amd64.whl, cpu only": (
        "driver-too-old-for-cuda-build"
    ),
    "pip install 'jax[cuda13]'\n| NVIDIA-SMI 575.57.08   Driver Version: 575.57.08   CUDA Version: 12.9 |\n"
    "jax.devices() [CpuDevice(id=0)]": "driver-too-old-for-cuda-build",
    "FROM nvidia/cuda:12.6.3-runtime-ubuntu22.04\nDriver Version: 515.65.01   CUDA Version: 11.7, RTX 3090\n"
    "docker run --gpus all exits at once": "container-requires-newer-driver",
    "V100에 torch 2.9.1+cu130 설치, 드라이버 580.82, 커널 실행이 안 됨": "arch-not-in-build",
    "nvidia-legacy-390xx-driver 390.157 + TU116 [GeForce GTX 1660]": "driver-too-old-for-gpu",
    "GTX1080、ドライバ590.48.01に更新したらnvidia-smiに何も出ない": "legacy-gpu-needs-older-branch",
    "modinfo nvidia | grep license\nlicense: Dual MIT/GPL\nnvidia 565.77, GM206 [GeForce GTX 960]": (
        "open-module-unsupported-gpu"
    ),
    "python3.8 -m pip install torch==2.6.0": "python-version-no-wheel",
    "CUDA 11.5 (apt nvidia-cuda-toolkit), gcc (Ubuntu 12.3.0) 12.3.0, make fails in cuda kernels": (
        "host-compiler-too-new"
    ),
    "cmake -DGGML_CUDA=ON -DCMAKE_CUDA_ARCHITECTURES=61\n/usr/local/cuda-13.0/bin/nvcc": "arch-dropped-by-toolkit",
    "nvcc 11.4 with -gencode arch=compute_120,code=sm_120 does not build": "toolkit-too-old-for-arch",
    "torch==2.1.2+cu118, CUDA_HOME=/usr/local/cuda-12.4, pip install --no-build-isolation mamba-ssm from source": (
        "nvcc-torch-mismatch"
    ),
    "nvidia/cuda:10.1-cudnn7-devel-ubuntu18.04\n| NVIDIA-SMI 525.125.06   Driver Version: 525.125.06"
    "   CUDA Version: 10.1 |\n"
    "CUDA: no CUDA-capable device is detected": "compat-libs-803",
    "Docker Desktop on Ubuntu, docker run --gpus all\nnvidia-container-cli: initialization error: load library failed: "
    "libnvidia-ml.so.1: cannot open shared object file: no such file or directory": "container-toolkit-missing",
    "pip list: torch 2.3.1+cu121, torchvision 0.18.1+cpu, 4090": "torch-torchvision-mismatch",
    "pip install flash_attn-2.7.4.post1+cu12torch2.5cxx11abiFALSE-cp311-cp311-linux_x86_64.whl\ntorch 2.6.0+cu124": (
        "extension-abi-mismatch"
    ),
    "cupy-cuda11x 12.3.0; ls /usr/local: cuda-12.4; A4000 550.54.14": "cuda-major-mixed",
    "tensorflow 2.18.0 and torch 2.5.1 in one env, nvidia-cudnn-cu12 9.1.0.70, TF conv fails": "cudnn-too-old",
    "I have cuda-10 installed on my system, libcudart.so.9.2 missing": "cuda-major-mixed",
    "我用的是cuda10.0,一运行就说找不到 libcudart.so.9.0": "cuda-major-mixed",
    "torch in the image is +cu130\n/dev/dri/renderD129 driver=xe\nIntel Arc": "cpu-only-build",
    "pip install -r requirements.txt\nModuleNotFoundError: No module named 'torch'\nit breaks at flash_attn": (
        "build-isolation-hides-torch"
    ),
    "tensorflow-gpu==1.15.5\nNVIDIA-SMI 390.157 Driver Version: 390.157, GeForce GTX 1060": (
        "driver-too-old-for-cuda-build"
    ),
    "tensorrt-cu12==10.3.0\nnvidia-cuda-runtime-cu12==12.6.68\nTesla T4, 470.223.02": "driver-too-old-for-cuda-build",
    "export CUDA_VISIBLE_DEVICES=2\nGPU 0: NVIDIA A40 (UUID: GPU-aa)\nGPU 1: NVIDIA A40 (UUID: GPU-bb)\n"
    "torch.cuda.device_count() 0": "cuda-visible-devices-invalid",
    "torch==1.7.1+cu101\n01:00.0 VGA compatible controller [0300]: NVIDIA Corporation AD102 [GeForce RTX 4090] "
    "[10de:2684] (rev a1)": "arch-not-in-build",
    "03:00.0 VGA compatible controller [0300]: Intel Corporation DG2 [Arc A770] [8086:56a0] (rev 08)\n"
    "torch==2.7.0+cu126": "cpu-only-build",
    "01:00.0 3D controller: NVIDIA Corporation GA100 [A100 PCIe 40GB] (rev a1)\n"
    "25:00.0 3D controller: NVIDIA Corporation GA100 [A100 PCIe 40GB] (rev a1)\n"
    "GPU 0: NVIDIA A100-PCIE-40GB (UUID: GPU-4b7d1bd2-6c1a-2b1f-8b6f-0a1b2c3d4e5f)": "gpu-missing",
    "ollama in docker, rtx 3060. after a few days it answers on the CPU": "container-cgroup-lost-devices",
    "Cuda compilation tools, release 11.8, V11.8.89\nDriver Version: 470.57.02   CUDA Version: 11.4\n"
    "my kernels: Error in 'load module'": "ptx-newer-than-driver",
    "libcublas.so.8.0: cannot open shared object file: No such file or directory\nthis box has an AMD GPU": (
        "cpu-only-build"
    ),
    "CUDA driver version is insufficient for CUDA runtime version\nWindows 10, AMD Radeon RX 580": "cpu-only-build",
    "FROM nvidia/cuda:12.2.2-cudnn8-runtime-ubuntu22.04\nRUN pip install onnxruntime-gpu==1.20.0": (
        "ort-cudnn-major-mismatch"
    ),
    "torch==2.3.0+cu121\ntorch-scatter==2.1.2+pt21cu121": "extension-abi-mismatch",
    "segfaults since the kernel went to 6.14, back on kernel 6.12 ROCm is fine. RX 7900 XTX": "known-bad-combination",
    "NET/IB : Got async event : port error\nNCCL WARN NET/IB : Got completion from peer 10.0.0.2 with error 12": (
        "rdma-port-degraded"
    ),
    "$ systemctl is-active nvidia-fabricmanager\ninactive\nGPU 0: NVIDIA A100-SXM4-80GB": "fabric-manager-not-running",
    "GLIBC_2.38 not found\nGLIBCXX_3.4.32 not found": "glibc-too-old",
    "WSL: Unable to load /usr/lib/x86_64-linux-gnu/libnvidia-ml.so.535.104.05: nvml vram init failure: 9": (
        "wsl-linux-driver-installed"
    ),
    "ollama answers slowly on my Tesla K40, it does not use the card": "arch-not-in-build",
    "ollama on a Radeon RX 580, it does not use the card": "rocm-gfx-unsupported",
    "the loss is nan with 2x RTX 3090, I can not say why. the image has CUDA 10.1": "arch-not-in-build",
    "pip install flash-attn does not build on an RTX 4090, CUDA 11.4": "toolkit-too-old-for-arch",
    "|   0  A30                     On   | 00000000:17:00.0 Off |                   On |\n"
    "CUDA error: all CUDA-capable devices are busy or unavailable": "mig-enabled-no-instance",
    "no kernel image is available for execution, operation received an exception": "arch-not-in-build",
    "transport/nvls.cc:244 NCCL WARN Cuda failure 1 'invalid argument'": "fabric-state",
    "the vulkan renderer crashes on startup with my gtx 550": "gpu-feature-unsupported",
    "Godot 4: vkEnumerateInstanceVersion not available, gt 530": "gpu-feature-unsupported",
    "GTX 680: vkd3d-proton 2.9 fails to start the game": "gpu-feature-unsupported",
    "This container was built for NVIDIA Driver Release 460.27 or later, but": "container-requires-newer-driver",
    "YOLOv5 torch 1.11.0+cu102 CUDA:0 (NVIDIA GeForce RTX 3050 Ti Laptop GPU, 3911MiB)\n"
    "The current PyTorch install supports CUDA capabilities sm_37 sm_50 sm_60 sm_70.": "arch-not-in-build",
    "glmark2: GL_VENDOR: nouveau, GL_RENDERER: NV137, FPS: 878 on a GTX 1050": "nouveau-loaded",
    "GL context creation failed, since pacman updated nvidia": "driver-library-mismatch",
    "took miner-0.18.0-cuda10.0-windows-amd64.zip, my RTX 3080 is not supported": "arch-not-in-build",
    "[12:00:01] GPU #0: Tesla K80, 1099.78 MH/s\n[12:00:01] GPU #0: invalid device function": "arch-not-in-build",
    "Check failed: allow_missing: Device API gpu is not enabled. Please install the cuda version of dgl": (
        "cpu-only-build"
    ),
    "PreconditionNotMetError: Cannot load cudnn shared library. Cannot invoke method cudnnGetVersion.": "cudnn-missing",
    "CUDA driver version is insufficient for CUDA runtime version\nwith my R9 280X": "cpu-only-build",
}


def _judged(text: str) -> Report:
    return judge(load_texts({"a paste": text.encode()}, MATRIX), MATRIX)


@pytest.mark.parametrize("text", APART)
def test_what_does_not_fit_comes_first(text: str) -> None:
    report = _judged(text)
    named = dict.fromkeys((*report.verdict.root_causes, *(one.id for one in report.candidates)))
    assert next(iter(named), None) == APART[text], list(named)


@pytest.mark.parametrize(
    "text",
    [
        "torch 2.5.1+cu124, driver 535.183.01 (CUDA 12.2), RTX 3090, is_available True, training runs",
        "blender 4.5: cycles on my RTX 3060 renders black, the previous version works on the same card",
        "RX 6600 (gfx1032) with HSA_OVERRIDE_GFX_VERSION=10.3.0, torch rocm6.1, SDXL runs",
    ],
)
def test_what_fits_and_is_said_to_run_is_healthy(text: str) -> None:
    assert _judged(text).verdict.status is Health.HEALTHY


def test_what_is_said_to_run_is_not_healthy_where_versions_do_not_fit() -> None:
    report = _judged("torch 2.3.1+cu121 with torchvision 0.18.1+cpu on a RTX 4090, training runs")
    assert report.verdict.status is not Health.HEALTHY


def test_a_table_of_the_driver_does_not_make_well_what_does_not_fit() -> None:
    report = _judged(
        "NVIDIA-SMI 550.54.15\nGPU 0: NVIDIA L4\ncupy-cuda11x==13.3.0\n/usr/local/cuda -> /usr/local/cuda-12.4"
    )
    assert report.verdict.status is Health.UNKNOWN


def test_the_file_of_a_module_does_not_tell_that_it_is_not_loaded() -> None:
    report = _judged("modinfo nvidia | grep license\nlicense: NVIDIA\nRTX 3060, driver 550.54.14")
    assert "nvidia-module-not-loaded" not in report.verdict.root_causes


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("warning(grid): OpenGL version is too old. Ghostty requires OpenGL 3.3", "gpu-feature-unsupported"),
        ("vulkaninfo --summary lists only llvmpipe, Radeon RX 6600", "vulkan-icd-broken"),
    ],
)
def test_why_a_program_does_not_draw_on_the_gpu_is_listed(text: str, cause: str) -> None:
    assert cause in [one.id for one in _judged(text).candidates]


def test_a_rocm_build_without_code_for_the_gpu_is_one_fault() -> None:
    report = _judged("ROCm error: no kernel image is available for execution on the device")
    assert report.verdict.root_causes == ("rocm-gfx-unsupported",)


def test_a_file_without_an_engine_is_no_engine_of_another_release() -> None:
    told = "The engine plan file is not compatible with this version of TensorRT, expecting library version 5.1.5 got "
    assert _judged(f"{told}0.0.0, please rebuild.").verdict.root_causes == ()
    assert _judged(f"{told}5.0.2, please rebuild.").verdict.root_causes == ("tensorrt-engine-version-mismatch",)


def test_a_queue_that_stopped_is_likely_the_cause_and_what_may_be_behind_it_follows() -> None:
    report = _judged(
        "[drm:amdgpu_job_timedout [amdgpu]] *ERROR* ring gfx_0.0.0 timeout, signaled seq=227004, emitted seq=227006\n"
        "since Mesa 25.2 the game hangs, with Mesa 25.1 it was fine"
    )
    assert report.verdict.root_causes == ("gpu-not-answering",)
    assert "known-bad-combination" in [one.id for one in report.candidates]


def test_a_release_of_the_distribution_is_not_the_torch_that_is_imported() -> None:
    report = _judged("pip list has\ntorch   2.9.1+cu130\nbut `import torch` says no module. Ubuntu 24.04.3")
    assert "duplicate-torch-install" not in report.verdict.root_causes


@pytest.mark.parametrize(
    "text",
    [
        "nvidia_uvm is never unloaded first, so the module is in use",
        "my Radeon 840M is gone from Jan 0.6.10, it used to be listed",
        "the GPU widget disappears all the time",
    ],
)
def test_what_a_program_lists_or_unloads_is_no_fault_of_the_gpu(text: str) -> None:
    assert _judged(text).verdict.root_causes == ()


def test_a_reason_is_shown_for_what_does_not_fit() -> None:
    first = _judged("cmake -DCMAKE_CUDA_ARCHITECTURES=61\n/usr/local/cuda-13.0/bin/nvcc").candidates[0]
    assert first.because[0].value == "cmake -DCMAKE_CUDA_ARCHITECTURES=61"


@pytest.mark.parametrize(
    "text",
    [
        "AssertionError: Torch not compiled with CUDA enabled\non my MacBook Pro",
        "-- The C compiler identification is AppleClang 12.0.5\nCMake Error: Failed to find nvcc.",
        "RuntimeError: CUDA driver version is insufficient for CUDA runtime version\na laptop with only a CPU",
        'WSL2, docker: error gathering device information while adding custom device "/dev/kfd": no such file',
    ],
)
def test_what_no_such_machine_can_have_is_not_at_fault(text: str) -> None:
    assert _judged(text).verdict.root_causes == ()


def test_x_windows_is_not_windows() -> None:
    text = "nvidia340 fails to build on linux4.19. It does not reboot into X Windows"
    assert _judged(text).verdict.root_causes == ("dkms-build-failed",)


@pytest.mark.parametrize(
    "text",
    [
        "Solucionado!! el error era\nRuntimeError: The NVIDIA driver on your system is too old (found version 11040).",
        "已解决:之前报错 Failed to initialize NVML: Driver/library version mismatch\n重启之后正常,关闭 issue",
        "modprobe: ERROR: could not insert 'nvidia': Key was rejected by service\nEDIT: enrolled the key, loaded now",
        "In the docs it says:\n> NVIDIA-SMI has failed because it couldn't communicate with the driver.\nA typo?",
        "Sample line from NVIDIA's docs:\nNVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus.\nregex?",
        '$ grep -rn "GPU has fallen off the bus" modules/\nosinit.c:  "GPU has fallen off the bus."\nwho sets it?',
        "my colleague in Lyon gets CUDA error: no kernel image is available on his K80,\non mine (A100) all passes",
        "login node has no gpus, that is known\nNVIDIA-SMI has failed because it couldn't communicate with the driver.",
    ],
)
def test_what_is_solved_quoted_or_meant_of_another_machine_is_not_at_fault(text: str) -> None:
    assert _judged(text).verdict.root_causes == ()


def test_that_a_lid_can_be_closed_solves_nothing() -> None:
    text = "you can close the lid, then:\nNVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus."
    assert _judged(text).verdict.root_causes == ("gpu-fell-off-bus",)


def test_what_goes_wrong_below_solved_is_at_fault() -> None:
    text = (
        "Solved: the fan.\nBut still RuntimeError: The NVIDIA driver on your system is too old (found version 11040)."
    )
    assert _judged(text).verdict.root_causes == ("driver-too-old-for-cuda-build",)
