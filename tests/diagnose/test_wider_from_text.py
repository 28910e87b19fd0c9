"""Faults in other words: what people write about a module, a wheel, a container or firmware; and what is no fault."""

from __future__ import annotations

import json

import pytest

from gpustack.diagnose.engine import judge
from gpustack.imports.texts import take
from gpustack.matrix import Matrix
from gpustack.model.writing import render

MATRIX = Matrix()
FAULTS = (
    ("error: implicit declaration of function 'foo'\nnvidia 535.54.03, linux 6.12", "dkms-build-failed", "6.12"),
    (
        "==> WARNING: `dkms install --no-depmod nvidia/550.54.14 -k 6.8.1-arch1-1' exited 10",
        "dkms-build-failed",
        "6.8.1",
    ),
    ("The driver installation is unable to locate the kernel source.", "dkms-headers-missing", "headers"),
    ("modprobe: FATAL: Module nvidia_340_uvm not found", "nvidia-uvm-missing", "340"),
    ("GTX 680, driver 535, at boot the driver ignores the GPU", "legacy-gpu-needs-older-branch", "470"),
    (
        "Quadro K2000, driver 525.105.17\nmodprobe: ERROR: could not insert 'nvidia': No such device",
        *("legacy-gpu-needs-older-branch", "470"),
    ),
    ("Tesla M40, the driver does not bring up the card, 4G decoding is disabled", "bios-bar-setting", "4G"),
    ("Above 4G decoding fixed it: my Tesla K80 was not seen", "bios-bar-setting", "BAR"),
    ("the GPU exceeds 93 C and the miner quits", "gpu-overheat", "93"),
    ("RTX 4090 runs at PCIe x4 under load instead of x16", "pcie-link-degraded", "4 of 16"),
    ("after the laptop wakes up CUDA is not available", "uvm-stale-after-suspend", "suspend"),
    (
        "!pip install onnxruntime onnxruntime-gpu\nproviders: ['CPUExecutionProvider']",
        "ort-cpu-and-gpu-installed",
        "both",
    ),
    (
        "pip install onnxruntime\npip install onnxruntime-gpu\nproviders ['CPUExecutionProvider']",
        *("ort-cpu-and-gpu-installed", "onnxruntime-gpu"),
    ),
    (
        (
            "installed: flash_attn-2.5.8+cu122torch2.3cxx11abiFALSE-cp310-cp310-linux_x86_64.whl\ntorch 2.4.0\n"
            "flash_attn_2_cuda.cpython-310-x86_64-linux-gnu.so: undefined symbol: _ZN3c105ErrorC2E"
        ),
        *("extension-abi-mismatch", "2.3"),
    ),
    ("module 'jaxlib.xla_client' has no attribute 'make_foo'\njaxlib==0.4.10", "jax-plugin-mismatch", "0.4.10"),
    (
        (
            "RuntimeError: Library libcublas.so.11 is not found or cannot be loaded\ntorch==2.1.0+cu121\n"
            "faster-whisper==1.0"
        ),
        *("cuda-major-mixed", "cublas.so.11"),
    ),
    ("docker is a snap (/snap/bin/docker)\ndocker run --gpus all x: libdxcore.so not found", "docker-snap", "snap"),
    (
        (
            "WSL2\nSetting up nvidia-dkms-470 (470.42.01-0ubuntu1) ...\n"
            "dpkg: error processing package cuda-drivers (--configure):"
        ),
        *("wsl-linux-driver-installed", "WSL"),
    ),
    (
        "WSL2\n/usr/lib/wsl/lib/libcuda.so is there\ndlerror: libcuda.so: cannot open shared object file",
        *("wsl-libcuda-shadowed", "/usr/lib/wsl/lib"),
    ),
    (
        "PyTorch version: 1.9.0+cpu\nCuda compilation tools, release 11.1, V11.1.105\nCUDA is not available",
        *("cpu-only-build", "1.9.0+cpu"),
    ),
    (
        (
            "tensorflow 2.4.1, driver 418.87.00\ncuInit: CUDA_ERROR_UNKNOWN\n"
            "CUDA driver version is insufficient for CUDA runtime version"
        ),
        *("driver-too-old-for-cuda-build", "418.87"),
    ),
    (
        "Python 3.11: Could not find a version that satisfies the requirement torch==1.13.1 (from versions: 2.0.0)",
        *("python-version-no-wheel", "3.11"),
    ),
    ("ROCm only runs for root\ncrw------- 1 root root 234, 0 Mai 21 05:13 kfd", "user-not-in-render-group", "kfd"),
    (
        (
            "vllm==0.16.0\ntorch==2.9.1\nnvidia-nccl-cu12==2.27.5\nnvidia-nccl-cu13==2.28.9\n"
            "libcudart.so.12: cannot open shared object file"
        ),
        *("cuda-major-mismatch-wheel", "vllm"),
    ),
    ("gfx90c works only with HSA_OVERRIDE_GFX_VERSION=9.0.0, ROCm 5.4", "rocm-gfx-unsupported", "gfx90c"),
)
SOUND = (
    "Is it normal that pip install onnxruntime onnxruntime-gpu is recommended? RTX 4090",
    "If the GPU exceeds 95 C it would stop, the docs say. RTX 3060",
    "Should I enable Above 4G decoding? RTX 3090",
    "Setting up nvidia-dkms-535 (535.161.07-0ubuntu0.22.04.1) ...\nnvidia-smi works",
    "WSL2, RTX 4070\nlibcuda.so is in /usr/lib/wsl/lib/libcuda.so\ntorch.cuda.is_available() True",
    "two RTX 3090 at PCIe x8 and x8",
    "PyTorch version: 2.3.0+cpu\nIs CUDA available: False\nno GPU in this machine",
    (
        "error: too few arguments to function 'cudaGraphInstantiate'\n"
        "torch 2.1.0+cu121, kernel 5.15.0-91-generic, driver 550.54"
    ),
)


@pytest.mark.parametrize(("text", "finding", "named"), FAULTS)
def test_the_cause_is_named_with_what_decides(text: str, finding: str, named: str) -> None:
    facts, _ = take([("text", text)], MATRIX)
    report = judge(facts, MATRIX)
    assert report.verdict.root_causes[:1] == (finding,)
    at = next(number for number, one in enumerate(report.findings) if one.id == finding)
    assert named.lower() in json.dumps(json.loads(render(report))["findings"][at], ensure_ascii=False).lower()


@pytest.mark.parametrize("text", SOUND)
def test_a_question_an_advice_and_a_healthy_machine_are_no_fault(text: str) -> None:
    facts, _ = take([("text", text)], MATRIX)
    assert judge(facts, MATRIX).verdict.root_causes == ()
