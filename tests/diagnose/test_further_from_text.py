"""Faults in other words, single messages without their usual neighbours, and which of two faults comes first."""

from __future__ import annotations

import json

import pytest

from gpustack.diagnose.engine import judge
from gpustack.imports.texts import take
from gpustack.matrix import Matrix
from gpustack.model.writing import render

MATRIX = Matrix()
LOST = "container-cgroup-lost-devices"
FAULTS = (
    ("conda install pytorch cudatoolkit=10.1\n  ::pytorch-1.10.0-py3.6_cpu_0", "cpu-only-build", "1.10.0"),
    ("Jetson nano, torch.cuda.is_available() returns false", "cpu-only-build", "Jetson"),
    ("uv pip install torch on Windows, RTX 5080\ntorch.cuda.is_available()\nFalse", "cpu-only-build", "5080|CPU-only"),
    ("Please compile with -DSHERPA_ONNX_ENABLE_GPU=ON. Fallback to cpu!", "cpu-only-build", "sherpa-onnx"),
    (
        "RTX 5070 Ti\nThe current PyTorch install supports CUDA capabilities sm_37 sm_80 sm_90 compute_37.",
        *("arch-not-in-build", "sm_120"),
    ),
    (
        "cudatoolkit 10.2.89, pytorch 1.6.0, driver 419.17, Windows 10\ntorch.cuda.is_available() False",
        *("driver-too-old-for-cuda-build", "10.2"),
    ),
    ("with AMDGPU version : gfx1031. The supported AMDGPU versions are gfx1030", "rocm-gfx-unsupported", "gfx1031"),
    (
        "RX 580\nhipErrorNoBinaryForGpu: Unable to find code object for all current devices!",
        *("rocm-gfx-unsupported", "gfx803"),
    ),
    (
        "PyTorch has CUDA Version=9.0 and torchvision has CUDA Version=10.0.",
        *("torch-torchvision-mismatch", "9.0 and CUDA 10.0"),
    ),
    (
        (
            'File "torchaudio/_extension.py"\nOSError: libtorch_cuda_cpp.so: cannot open shared object file\n'
            "torch==2.0.0 torchaudio==0.13.1"
        ),
        *("torch-torchvision-mismatch", "0.13.1"),
    ),
    (
        "import nixl_ep\n  from . import nixl_ep_cpp\nImportError: libcudart.so.13: cannot open shared object file",
        *("cuda-major-mismatch-wheel", "nixl"),
    ),
    # from the release alone: none of its CUDA builds has code for this GPU
    ("pip install torch==2.4.0\nmy gpu: RTX 5090, training does not start", "arch-not-in-build", "sm_120"),
    ("torch==2.8.0 from pip, my GPU is a GTX 780", "arch-not-in-build", "sm_35"),
    ("cuInit gives CUDA_ERROR_STUB_LIBRARY", "stub-on-loader-path", "stub library"),
    (
        (
            "Found GTX 1080 Ti which is too old to be supported by the triton GPU compiler, which is used as the "
            "backend. Triton only supports devices of CUDA Capability >= 7.0"
        ),
        *("gpu-feature-unsupported", "torch.compile"),
    ),
    ("headers of the new kernel are not installed; nvidia-driver-455", "dkms-headers-missing", "headers"),
    ("in 6.15 kernel the nvidia module cannot be built", "dkms-build-failed", "6.15"),
    (
        "HGX with 8 A100 GPUs\nCUDA workloads fail\nUnit nvidia-fabricmanager.service could not be found.",
        *("fabric-manager-not-running", "A100"),
    ),
    ("CUDA error: unspecified launch failure; the machine was suspended before", "uvm-stale-after-suspend", "suspend"),
    ("--device /dev/nvidia-uvm was forgotten, CUDA is not available", "nvidia-uvm-missing", "/dev/nvidia-uvm"),
    (
        "loaded kernel module is 470.103.01, the user-space libraries are 470.129.06",
        *("driver-library-mismatch", "470.129.06"),
    ),
    ("Creating app_run ... done\nRuntimeError: Found no NVIDIA driver on your system.", "container-no-gpus-flag", ""),
    ("pod spec without nvidia.com/gpu limits\nnvidia-smi: command not found", "container-no-gpus-flag", "reservation"),
    ("docker\nthe GPU is lost in a running container\nFailed to initialize NVML: Unknown Error", LOST, "cgroup"),
    ("docker: torch.cuda.is_available() False after `systemctl daemon-reload` on the host", LOST, "daemon-reload"),
    ('container: openat("/dev/nvidiactl") = -1 EPERM (Operation not permitted); works after a restart', LOST, "cgroup"),
    ("num_workers=8 in docker: Bus error; --ipc=host fixes it", "container-shm-too-small", "shm"),
    (
        "TITAN X, device 0\nCUDA_VISIBLE_DEVICES=$0 ./demo.py\nno CUDA-capable device is detected",
        *("cuda-visible-devices-invalid", "$0"),
    ),
    ("CUDA_VISIBLE_DEVICES=\u201c0\u201d\ntorch.cuda.is_available() False", "cuda-visible-devices-invalid", "hides"),
    (
        "nvidia-smi mig -lgi\nNo GPU instances found: Not Found\nNo CUDA GPUs are available",
        *("mig-enabled-no-instance", "MIG"),
    ),
    ("WSL2: CUDA is not available; LD_LIBRARY_PATH=/usr/lib/wsl/lib fixes it", "wsl-libcuda-shadowed", "wsl/lib"),
    ("tf.test.is_built_with_cuda() False\nGTX 1650, Win 10", "tf-no-native-windows-gpu", "2.10"),
    (
        "sycl-ls shows no GPU; sudo sycl-ls shows Arc A770\ncrw-rw---- 1 root render 226, 128 /dev/dri/renderD128",
        *("user-not-in-render-group", "render"),
    ),
    ("conda list: pytorch 1.13.1\npip show torch: 2.1.0", "duplicate-torch-install", "1.13.1"),
)
WELL = (
    "RTX 4070. The wheel does not support gfx1031 of course.\nRuntimeError: shape is invalid",
    "single H100 VM, nvidia-fabricmanager.service could not be found, torch.cuda.is_available() True",
    "Attaching to web-1\nweb-1  | ValueError: unsupported model type",
    "after systemctl daemon-reload all containers see their GPU; torch.cuda.is_available() True",
    "A100, torch.cuda.get_arch_list(): ['sm_70', 'sm_80', 'sm_90']\nExpected all tensors on the same device",
    "RTX 4080, torch 2.1.0 in one environment and torch 2.2.0 in another, both work",
    "CUDA_VISIBLE_DEVICES is set to 1. The machine has 2 GPUs. mat1 and mat2 shapes cannot be multiplied",
    "the kernel headers for the kernel 6.8.0-40 are installed, nvidia 550.107 works",
    "My other computer works:\ntorch 2.0.1+cpu\n\nRTX 4080, torch 2.3.1+cu121, IndexError: list index out of range",
    "The loaded kernel module is 535.129.03, the user-space libraries are 535.129.03. nvidia-smi works.",
)


@pytest.mark.parametrize(("words", "finding", "names"), FAULTS)
def test_the_fault_is_the_first_root_and_names_what_decides(words: str, finding: str, names: str) -> None:
    facts, _ = take([("paste", f"{words}\n")], MATRIX)
    report = judge(facts, MATRIX)
    assert report.verdict.root_causes[:1] == (finding,)
    place = next(number for number, one in enumerate(report.findings) if one.id == finding)
    said = json.dumps(json.loads(render(report))["findings"][place], ensure_ascii=False)
    assert any(one.lower() in said.lower() for one in names.split("|"))


@pytest.mark.parametrize("words", WELL)
def test_what_is_not_a_fault_of_the_stack_gives_no_root(words: str) -> None:
    facts, _ = take([("paste", f"{words}\n")], MATRIX)
    assert judge(facts, MATRIX).verdict.root_causes == ()
