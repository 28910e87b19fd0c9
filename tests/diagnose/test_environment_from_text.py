"""Pasted text about permissions, variables, MIG, WSL and paths, and the one cause that must result."""

from __future__ import annotations

import pytest

from tests.diagnose.test_libraries_from_text import told, words

NO_FILE = "cannot open shared object file: No such file or directory"
NO_GPU = "RuntimeError: No CUDA GPUs are available\n"
ORDINAL = "RuntimeError: CUDA error: invalid device ordinal\n"
TWO = "GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-1)\nGPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-2)\n"
SLICES = "GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-1)\n  MIG 1g.5gb     Device  0:\n  MIG 1g.5gb     Device  1:\n"
WSL = "WSL2, Ubuntu 22.04, RTX 3080\n"


@pytest.mark.parametrize(
    ("slug", "text", "mentions"),
    [
        ("cuda-visible-devices-invalid", "export CUDA_VISIBLE_DEVICES=4\n" + NO_GPU + TWO, ["=4", "2 GPUs, 0 to 1"]),
        ("cuda-visible-devices-invalid", "set CUDA_VISIBLE_DEVICES=-1\n" + NO_GPU, ["hides every GPU"]),
        (
            "cuda-visible-devices-invalid",
            "CUDA_VISIBLE_DEVICES=0,1,2,3 python train.py\n" + ORDINAL + "the machine has 2 GPUs",
            ["CUDA_VISIBLE_DEVICES=0,1,2,3", "0 to 1"],
        ),
        ("mig-enabled-no-instance", "slurmd: fatal: MIG mode is enabled, but no MIG devices were found.", ["-cgi"]),
        ("mig-enabled-no-instance", "H100, MIG mode enabled\n" + NO_GPU, ["MIG", "sm_90", "-mig 0"]),
        (
            "mig-multiple-devices",
            "CUDA_VISIBLE_DEVICES=MIG-1111-11,MIG-2222-22 torchrun --nproc_per_node 2 train.py\n" + ORDINAL,
            ["MIG-1111-11,MIG-2222-22", "one process"],
        ),
        (
            "mig-multiple-devices",
            SLICES + "Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 7000",
            ["A100-SXM4-40GB (sm_80)", "first MIG instance"],
        ),
        (
            "user-not-in-render-group",
            (
                "ROCk module is loaded\nUnable to open /dev/kfd read-write: Permission denied\n"
                'navin is not member of "render" group, the default DRM access group.'
            ),
            ["/dev/kfd", "group render", "usermod -aG render"],
        ),
        (
            "user-not-in-render-group",
            "$ ls -l /dev/kfd\ncrw-rw---- 1 root render 235, 0 Mar  2 10:00 /dev/kfd\n$ groups\nme adm sudo\n",
            ["/dev/kfd", "group render"],
        ),
        ("user-not-in-render-group", "libva error: /dev/dri/renderD128: Permission denied", ["/dev/dri/renderD128"]),
        (
            "wsl-libcuda-shadowed",
            WSL + "\tlibcuda.so.1 (libc6,x86-64) => /lib/x86_64-linux-gnu/libcuda.so.1\n" + NO_GPU,
            ["/usr/lib/wsl/lib", "/lib/x86_64-linux-gnu/libcuda.so.1"],
        ),
        (
            "wsl-linux-driver-installed",
            WSL + "$ sudo apt install nvidia-driver-470\nNVIDIA-SMI has failed because it couldn't communicate with "
            "the NVIDIA driver.",
            ["nvidia-driver-470", "/usr/lib/wsl/lib", "purge"],
        ),
        ("libcuda-so-symlink-missing", f"ImportError: libcuda.so.1: {NO_FILE}\n{WSL}", ["/usr/lib/wsl/lib"]),
        (
            "libcuda-so-symlink-missing",
            "AssertionError: libcuda.so cannot found!\nPossible files are located at ['/usr/lib64/libcuda.so.1'].",
            ["ln -s libcuda.so.1 /usr/lib64/libcuda.so"],
        ),
        (
            "cuda-visible-devices-invalid",
            "CUDA_VISIBLE_DEVICES=1 python train.py --device cuda:1\n" + ORDINAL,
            ["CUDA_VISIBLE_DEVICES=1", "cuda:0 only"],
        ),
        (
            "mig-multiple-devices",
            "A100, MIG enabled, 7 MIG compute instances\ncudaGetDeviceCount returns 1",
            ["A100 (sm_80)", "MIG"],
        ),
        (
            "wsl-libcuda-shadowed",
            WSL + "failed call to cuInit: CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected",
            ["/usr/lib/wsl/lib"],
        ),
        (
            "wsl-linux-driver-installed",
            WSL + "| NVIDIA-SMI 470.256.02   Driver Version: 552.22   CUDA Version: 12.4 |\nSegmentation fault",
            ["nvidia-smi 470.256.02", "552.22"],
        ),
        ("oneapi-env-not-sourced", f"OSError: libccl.so.1: {NO_FILE}", ["libccl.so.1", "setvars.sh"]),
        ("oneapi-env-not-sourced", "make: icpx: command not found", ["setvars.sh"]),
    ],
)
def test_the_one_cause_is_named_with_its_commands(slug: str, text: str, mentions: list[str]) -> None:
    said = words(text, slug)
    assert [one for one in mentions if one not in said] == []


@pytest.mark.parametrize(
    "text",
    [
        "CUDA_VISIBLE_DEVICES=0,1 python train.py\nValueError: bad batch size\n" + TWO,
        "CUDA_VISIBLE_DEVICES=0,1 python train.py\n" + ORDINAL + TWO,
        SLICES + "torch.OutOfMemoryError: CUDA out of memory",
        WSL + "nvidia-smi works, torch.cuda.is_available() True; ValueError: max_model_len is too large",
        WSL + "| NVIDIA-SMI 550.76.01   Driver Version: 552.22   CUDA Version: 12.4 |\nSegmentation fault",
        "A100, MIG mode enabled, one MIG 3g.20gb instance\ncudaGetDeviceCount returns 1",
        "ldconfig: /usr/lib/wsl/lib/libcuda.so.1 is not a symbolic link",
        'user is not member of "video" group, the default DRM access group.\nHSA System Attributes\nAgent 2: gfx906',
        "Could not load dynamic library 'libcuda.so.1'; dlerror: libcuda.so.1: " + NO_FILE + "\nI have no GPU here",
    ],
)
def test_what_is_in_order_is_not_blamed(text: str) -> None:
    mine = {
        "cuda-visible-devices-invalid",
        "mig-enabled-no-instance",
        "mig-multiple-devices",
        "user-not-in-render-group",
    }
    assert mine.isdisjoint(told(text).verdict.root_causes)
    assert not [root for root in told(text).verdict.root_causes if root.startswith(("wsl-", "libcuda-", "oneapi-"))]
