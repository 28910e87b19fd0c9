"""Rarer faults in many wordings: peers, Level Zero, two PyTorches, links, nodes, toolkits; and what is not a fault."""

from __future__ import annotations

import pytest

from tests.imports.reading import first

ASKED = "pcie.link.gen.current, pcie.link.gen.max, pcie.link.width.current, pcie.link.width.max"
FAULTS = (
    ("dual RTX 4090: training hangs at the first all_reduce, IOMMU enabled in BIOS", "iommu-acs-p2p", "IOMMU"),
    ("4x A40: P2P=Enabled bandwidth 0.02 GB/s; P2P disabled 12 GB/s", "iommu-acs-p2p", "0.02 GB/s"),
    ("AMD-Vi: Event logged [IO_PAGE_FAULT device=c1:00.0 domain=0x42]\nmulti GPU runs hang", "iommu-acs-p2p", "P2P"),
    ("Arc B580, Ubuntu 24.04\nlibze-intel-gpu1 is missing", "intel-level-zero-missing", "libze-intel-gpu1"),
    ("The level zero loader dynamic library could not be opened.", "intel-level-zero-missing", "libze_loader"),
    ("ImportError: /x/torch/lib/libTHC.so.1: undefined symbol: THLongStorage_size", "duplicate-torch-install", "Two"),
    ("pip has torch 1.7.1\ntorch imports 1.8.0a0", "duplicate-torch-install", "1.8.0a0"),
    ("$ singularity shell nemo.sif\nBut your machine only has: []", "container-no-gpus-flag", "--nv"),
    (
        "$ docker run -it some/image:gpu ipython\nIn [2]: torch.cuda.is_available()\nOut[2]: False",
        "container-no-gpus-flag",
        "--gpus",
    ),
    (
        "in the container: Found no NVIDIA driver on your system\nhost nvidia-smi works",
        "container-no-gpus-flag",
        "--gpus",
    ),
    ("rocminfo works with sudo only\n$ groups\nalice wheel", "user-not-in-render-group", "render"),
    (
        "WSL2\nerror: no CUDA-capable device is detected while calling init (cuInit)",
        "wsl-libcuda-shadowed",
        "wsl/lib",
    ),
    ("A4000: PCIe degraded from version 4.0 to 1.0 while it trains", "pcie-link-degraded", "Gen1"),
    ("RTX 4090 PCIe link at x8 under load, expected x16, copies are slow", "pcie-link-degraded", "8 of 16"),
    (
        f"name, {ASKED}\nNVIDIA GeForce RTX 3090, 1, 4, 1, 16",
        "pcie-link-degraded",
        "1 of 16",
    ),
    ("undefined symbol: _nvJitLinkGetErrorLogSize_12_9", "nvjitlink-clash", "12.9"),
    ("the libnvJitLink of CUDA 12.1 is older than libcusparse needs", "nvjitlink-clash", "older"),
    (
        "Cuda compilation tools, release 11.6, V11.6.124\nPyTorch: 2.4.0+cu121\nfatal error: cuda_fp8.h: No such file",
        "nvcc-torch-mismatch",
        "11.6",
    ),
    (
        "calling init: /v/site-packages/cudnn/libcudnn.so.9\ncalling init: /lib/x86_64-linux-gnu/libcudnn_ops.so.9",
        "cudnn-two-copies",
        "x86_64-linux-gnu",
    ),
    ("an older cuDNN in LD_LIBRARY_PATH is loaded", "cudnn-shadowed-by-ld-library-path", "cuDNN"),
    ("pip install cupy and later pip install cupy-cuda12x; import fails", "multiple-cupy", "cupy-cuda12x"),
    ("cupy-cuda110      9.6.0\ncupy-cuda113      9.6.0", "multiple-cupy", "cupy-cuda113"),
    (
        "RTX 5090, driver 575.57, nvidia-smi works\nCUDA driver initialization failed, you might not have a CUDA gpu.",
        "uvm-hmm-bug",
        "HMM",
    ),
    (
        "tf 2.13.0, CUDA 12.0, driver 525.125\nCould not find cuda drivers on your machine, GPU will not be used.",
        "tf-cannot-dlopen",
        "12.0",
    ),
    ("A100 MIG 3g.20gb\n2 x A100-SXM4-40GB MIG 3g.20gb, only one device is visible", "mig-multiple-devices", "MIG"),
    ("sycl-ls prints nothing; after . setvars.sh it lists the devices", "oneapi-env-not-sourced", "setvars"),
    ("GPU 温度过高, 训练变慢", "gpu-overheat", "heat"),
)
LINK = (
    "pci 0000:02:00.0: 7.876 Gb/s available PCIe bandwidth, limited by 8.0 GT/s PCIe x1 link at 0000:00:1c.0 "
    "(capable of 31.504 Gb/s with 8.0 GT/s PCIe x4 link)"
)
WELL = (
    "ROCm docs list gfx1031 as not supported; my card is a Radeon RX 7900 XTX gfx1100 and it works",
    "RX 7900 XTX, ROCm 6.2, HSA_OVERRIDE_GFX_VERSION is not needed",
    "uvm_disable_hmm is not set; CUDA works on the RTX 4090",
    "two GPUs, IOMMU enabled, 25 GB/s, no problem",
    "[Hardware Error]: Corrected error, no action required.",
    "{2}[Hardware Error]: event severity: corrected\nnvidia-smi is fine",
    "RTX 4090 idle: PCIe gen 1, max 4",
    LINK,
    "nvcc 12.1, torch 2.3.0+cu121\nRuntimeError: Error building extension 'fused_adam'",
    "I have torch 2.1 from apt; the one of the venv, 2.5.1, is imported and works",
    "In the container nvidia-smi works, and on the host as well",
)


@pytest.mark.parametrize(("text", "root", "names"), FAULTS)
def test_a_fault_is_known_by_what_people_say_of_it(text: str, root: str, names: str) -> None:
    found, said = first(text)
    assert found == root
    assert names.lower() in said.lower()


@pytest.mark.parametrize("text", WELL)
def test_what_works_is_not_blamed(text: str) -> None:
    assert first(text)[0] is None
