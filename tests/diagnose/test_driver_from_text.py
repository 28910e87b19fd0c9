"""Pasted text about drivers that do not match a build, an image or their own parts, and the one cause of it."""

from __future__ import annotations

import pytest

from gpustack.model.report import Severity
from tests.diagnose.test_libraries_from_text import told, words

SMI = "| NVIDIA-SMI {0}   Driver Version: {0}   CUDA Version: {1}     |\n"
DRIVER_TOO_OLD = "driver-too-old-for-cuda-build"
INSUFFICIENT = "CUDA driver version is insufficient for CUDA runtime version\n"
TOOLCHAIN = "RuntimeError: CUDA error: the provided PTX was compiled with an unsupported toolchain.\n"
MISMATCH = "Failed to initialize NVML: Driver/library version mismatch\n"
MANAGER = (
    "nv-fabricmanager[1]: fabric manager NVIDIA GPU driver interface version {} don't match with driver version {}."
)
COLLECTED = (
    "PyTorch version: {version}\nCUDA used to build PyTorch: {cuda}\nOS: {os}\nPython platform: {platform}\n"
    "Is CUDA available: False\nGPU models and configuration: GPU 0: {gpu}\nNvidia driver version: {driver}\n"
)


@pytest.mark.parametrize(
    ("slug", "text", "mentions"),
    [
        (
            "driver-too-old-for-cuda-build",
            SMI.format("460.91.03", "11.2") + "cudaGetDevice() failed. Status: " + INSUFFICIENT,
            ["driver 460.91.03 (CUDA 11.2)", "CUDA 12.0", "525.60.13"],
        ),
        (
            "driver-too-old-for-cuda-build",
            "CUDARuntimeError: cudaErrorInsufficientDriver: "
            + INSUFFICIENT
            + "cupy-cuda12x==13.0.0\n"
            + SMI.format("470.57.02", "11.4"),
            ["470.57.02", "CUDA 12.0", "525.60.13"],
        ),
        (
            "driver-too-old-for-cuda-build",
            "CUDA initialization: The NVIDIA driver on your system is too old (found version 12040).",
            ["CUDA 12.4", "CUDA 13.0", "580.65.06"],
        ),
        (
            "driver-too-old-for-cuda-build",
            "The NVIDIA driver on your system is too old (found version 9010).\nTesla V100-PCIE-16GB",
            ["CUDA 9.1", "CUDA 9.2", "396.26", "sm_70"],
        ),
        (
            "driver-too-old-for-cuda-build",
            COLLECTED.format(
                version="2.9.1+cu130",
                cuda="13.0",
                os="Ubuntu 22.04",
                platform="Linux-5.15.0-72-generic-x86_64-with-glibc2.35",
                gpu="NVIDIA A100-SXM4-80GB",
                driver="550.54.15",
            ),
            ["550.54.15", "CUDA 13.0", "580.65.06", "sm_80"],
        ),
        (
            "driver-too-old-for-cuda-build",
            COLLECTED.format(
                version="2.8.0+cu129",
                cuda="12.9",
                os="Microsoft Windows 10 Pro",
                platform="Windows-10-10.0.19045-SP0",
                gpu="NVIDIA GeForce GTX 1080",
                driver="512.15",
            ),
            ["512.15", "528.33"],
        ),
        (
            "container-requires-newer-driver",
            (
                "nvidia-container-cli: requirement error: unsatisfied condition: cuda>=11.6, please update\n"
                "NVIDIA driver 470.103.01, CUDA Version 11.4"
            ),
            ["cuda>=11.6", "470.103.01", "510.39.01", "CUDA 11.4 or older"],
        ),
        (
            "container-requires-newer-driver",
            (
                "ERROR: This container was built for NVIDIA Driver Release 535.54 or later, but\n"
                "       version 470.57.02 was detected and compatibility mode is UNAVAILABLE."
            ),
            ["535.54", "470.57.02"],
        ),
        (
            "ptx-newer-than-driver",
            TOOLCHAIN + SMI.format("525.105.17", "12.0") + "Cuda compilation tools, release 12.3, V12.3.107\n"
            "GPU 0: NVIDIA GeForce RTX 4090 (UUID: GPU-1)",
            ["525.105.17", "CUDA 12.3", "545.23.06", "-arch=sm_89"],
        ),
        (
            "ptx-newer-than-driver",
            "ptxas application ptx input, line 9; fatal   : Unsupported .version 8.4; current version is '8.2'",
            ["PTX 8.4", "8.2 (CUDA 12.2)", "CUDA 12.4", "550.54.14"],
        ),
        (
            "driver-library-mismatch",
            (
                "E external/xla: kernel version 470.182.3 does not match DSO version 470.223.2 -- cannot find working "
                "devices in this configuration"
            ),
            ["470.182.03", "470.223.02"],
        ),
        (
            "driver-library-mismatch",
            MISMATCH + "NVML library version: 550.54\n"
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  545.23.08  Mon Nov  6 23:49:37 UTC 2023",
            ["550.54", "545.23.08"],
        ),
        (
            "driver-library-mismatch",
            MISMATCH + "RuntimeError: Error 804: forward compatibility was attempted on non supported HW",
            ["Driver/library version mismatch"],
        ),
        (
            "fabric-manager-not-running",
            "RuntimeError: CUDA error: system not yet initialized\n8x H100 SXM, driver 535.129.03",
            ["802", "fabric manager 535.129.03", "sm_90"],
        ),
        (
            "fabric-manager-not-running",
            (
                "Unit nvidia-fabricmanager.service could not be found.\n>>> torch.cuda.is_available()\nFalse\n"
                "GPU 0: NVIDIA H200 (UUID: GPU-1)"
            ),
            ["fabric manager", "could not be found"],
        ),
        (
            "fabric-manager-version-mismatch",
            MANAGER.format("550.127.05", "550.120") + "\nError 802: system not yet initialized",
            ["fabric manager is 550.127.05", "driver is 550.120", "fabric manager 550.120"],
        ),
        (
            "fabric-manager-version-mismatch",
            "Error 802: system not yet initialized\nnvidia-fabricmanager-535 535.161.07, driver 535.183.01",
            ["535.161.07", "535.183.01"],
        ),
        (
            "forward-compat-804",
            "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE\nGPU 0: NVIDIA GeForce RTX 2080 (UUID: GPU-1)\n"
            + SMI.format("470.161.03", "12.2"),
            ["470.161.03", "sm_75", "own branch supports CUDA 11.4", "CUDA 12.2 came with driver 535.54.03"],
        ),
        (
            "compat-libs-803",
            "cudaGetDeviceCount returned 803\nLD_LIBRARY_PATH=/usr/local/cuda/compat\n"
            + SMI.format("535.54.03", "12.2"),
            ["803", "535.54.03", "remove /usr/local/cuda/compat from"],
        ),
        (
            "intel-level-zero-missing",
            (
                "Intel Arc A770, Ubuntu 22.04\n>>> torch.xpu.is_available()\nFalse\n$ sycl-ls\n"
                "[opencl:gpu:0] Intel(R) OpenCL Graphics, Intel(R) Arc(TM) A770"
            ),
            ["libze_intel_gpu.so.1", "OpenCL lists the GPU", "libze-intel-gpu1"],
        ),
        (
            "intel-level-zero-missing",
            (
                "$ sycl-ls\n[opencl:cpu:0] Intel(R) OpenCL, Intel(R) Core(TM) i9-12900K 3.0\n"
                "$ dpkg -l | grep intel\nii  intel-opencl-icd  23.43.27642.40  amd64  Intel graphics compute runtime"
            ),
            ["intel-opencl-icd 23.43.27642.40", "libze_intel_gpu.so.1"],
        ),
    ],
)
def test_the_one_cause_is_named_with_what_decides_it(slug: str, text: str, mentions: list[str]) -> None:
    said = words(text, slug)
    assert [one for one in mentions if one not in said] == []


@pytest.mark.parametrize(
    "text",
    [
        "The NVIDIA driver's CUDA version is 11.8 which is older than the PTX compiler version (12.2.140). XLA is "
        "disabling parallel compilation.\n" + SMI.format("520.61.05", "11.8"),
        (
            "NOTE: CUDA Forward Compatibility mode ENABLED.\nUsing CUDA 12.2 driver version 535.86.10 with kernel "
            "version 470.182.03."
        ),
        "RuntimeError: CUDA error: out of memory at line 802 of kernel.cu, and 804 tokens later again",
        "driver 535.104.05, CUDA 12.2, torch 2.5.1+cu124 works; the loss is NaN",
        "nvidia-fabricmanager.service: inactive (dead)\nRTX 4090, training works",
        (
            "failed to load adapter 'libur_adapter_cuda.so.0' with error: libcuda.so.1: cannot open shared object\n"
            "libze_intel_vpu.so.1: cannot open shared object file\n[level_zero:gpu] Intel(R) Arc(TM) A770"
        ),
    ],
)
def test_what_programs_print_on_healthy_machines_is_not_a_fault(text: str) -> None:
    report = told(text)
    assert report.verdict.root_causes == ()
    assert not [one for one in report.findings if one.severity is Severity.ERROR]


@pytest.mark.parametrize(
    ("text", "slug", "command"),
    [
        ("nvcr.io/nvidia/pytorch:24.05-py3, RTX 5090, driver 570.124.06", "arch-not-in-build", "pytorch:25.01-py3"),
        ("nvcr.io/nvidia/pytorch:25.10-py3, Tesla P100, driver 580.65.06", "arch-not-in-build", "pytorch:24.10-py3"),
        ("nvcr.io/nvidia/tritonserver:26.02-py3, L40S, driver 550.90.07", DRIVER_TOO_OLD, "tritonserver:25.10-py3"),
        ("nvcr.io/nvidia/pytorch:25.10-py3, RTX 3090, driver 535.183.01", DRIVER_TOO_OLD, "pytorch:25.06-py3"),
        ("nvcr.io/nvidia/pytorch:25.10-py3, A100, driver 535.183.01", None, ""),
        ("nvcr.io/nvidia/pytorch:25.01-py3, RTX 5090, driver 570.124.06", None, ""),
        ("You could try nvcr.io/nvidia/pytorch:24.05-py3. RTX 5090, driver 570.124.06", None, ""),
        ("nvcr.io/nvidia/pytorch:24.05-py3, RTX 5090\n>>> torch.cuda.is_available()\nTrue", None, ""),
    ],
)
def test_an_image_is_replaced_by_one_of_another_month(text: str, slug: str | None, command: str) -> None:
    found = [one for one in told(text).findings if one.severity is Severity.ERROR]
    assert [one.id for one in found] == ([slug] if slug else [])
    typed = [str(line) for one in found if one.fix for line in one.fix.commands]
    assert typed == [f"docker pull nvcr.io/nvidia/{command}"] * len(found)
