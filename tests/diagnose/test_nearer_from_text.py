"""Faults in sentences and short answers: which of two comes first, what is over, and what people quote."""

from __future__ import annotations

import pytest

from gpustack.diagnose.engine import judge
from gpustack.model.report import Severity
from tests.imports.reading import MATRIX, first, read

ASKED = 'python -c "import torch; print({})"\n'
INSIDE = "docker run --gpus all x\nFailed to initialize NVML: Unknown Error"
HUB = ">>> torch.hub.load('pytorch/vision', 'resnet18')\nRuntimeError: operator torchvision::nms does not exist\n"
FAULTS = (
    (
        ASKED.format(
            "'torch:', torch.__version__); print('CUDA:', torch.version.cuda); print(torch.cuda.is_available()"
        )
        + "torch: 2.7.1+cpu\nCUDA: None\nFalse",
        "cpu-only-build",
        "2.7.1+cpu",
    ),
    (
        ASKED.format("torch.__version__, torch.version.cuda, torch.cuda.is_available()") + "2.6.0+cpu None False",
        "cpu-only-build",
        "2.6.0+cpu",
    ),
    ("RTX 3060\n$ pip show torch | grep Version\nVersion: 2.2.2+cpu", "cpu-only-build", "2.2.2+cpu"),
    (
        "warning: not compiled with GPU offload support, --n-gpu-layers option will be ignored",
        "cpu-only-build",
        "llama",
    ),
    (
        ">>> torch.__version__\n'1.3.0'\n>>> torch.version.cuda\n'10.1.243'\nit says that my driver is too old",
        "driver-too-old-for-cuda-build",
        "418",
    ),
    (
        "driver 390.116, torch 1.3.1 (CUDA 10.1): AssertionError: The NVIDIA driver on your system is too old",
        "driver-too-old-for-cuda-build",
        "390.116",
    ),
    ('Tesla K40c under torch 1.13.1+cu117 raises "no kernel image is available"', "arch-not-in-build", "1.13.1"),
    ("GTX 960, torch.cuda.get_arch_list() gives ['sm_70', 'sm_75', 'sm_80', 'sm_90']", "arch-not-in-build", "sm_52"),
    (
        "Error: Could not load UVM kernel module. Is nvidia-modprobe installed?",
        "nvidia-uvm-missing",
        "nvidia-modprobe",
    ),
    (
        "NVRM:  supported through the NVIDIA 470.xx Legacy drivers.\nNVRM:  The 545.29.06 NVIDIA driver will ignore",
        "legacy-gpu-needs-older-branch",
        "545.29.06",
    ),
    ("== PyTorch ==\nWARNING: The NVIDIA Driver was not detected.", "container-no-gpus-flag", "--gpus"),
    (
        "NCCL WARN Call to ibv_reg_mr_iova2 failed with error Cannot allocate memory",
        "memlock-too-small",
        "ulimit -l",
    ),
    ("UCX  ERROR ibv_create_cq(cqe=4096) failed: Cannot allocate memory", "memlock-too-small", "ulimit -l"),
    (
        (
            "GPU  Temp (DieEdge)  AvgPwr  SCLK    MCLK     Fan  Perf  PwrCap  VRAM%  GPU%\n"
            "0    105.0c          300.0W  500Mhz  1600Mhz  0%   auto  300.0W    0%   99%"
        ),
        "gpu-overheat",
        "105 °C",
    ),
    ("GPU[1]\t\t: Temperature (Sensor junction) (C): 112.0", "gpu-overheat", "112 °C"),
    ("NCCL WARN Call to ibv_reg_mr_iova2 failed with error Bad address", "nccl-network-fault", "InfiniBand"),
    (
        "in the container ls /dev/nvidia* shows nothing; the compose file has no resources.reservations.devices",
        "container-no-gpus-flag",
        "reservation",
    ),
    (
        "TensorFlow 2.4.1\nlibcusolver.so.10 and libcudnn.so.8 can't be loaded",
        "tf-cannot-dlopen",
        "libcudnn.so.8",
    ),
    (
        "NCCL hangs with 4 GPUs\nACSCtl: SrcValid+ TransBlk- ReqRedir- CmpltRedir- UpstreamFwd-",
        "iommu-acs-p2p",
        "ACS",
    ),
    (
        "nvidia fails:\nThere is no /var/lib/dkms/nvidia/kernel-5.4.2-desktop-1-x86_64 for the new kernel",
        "dkms-headers-missing",
        "5.4.2",
    ),
    ("nvidia-smi fails, lsmod | grep nouveau shows it is loaded", "nouveau-loaded", "nouveau"),
    ("RTX 4090 in an x16 slot runs at PCIe 1.0 x1 under load", "pcie-link-degraded", "x1"),
    (
        f"{INSIDE}\nUnable to determine the device handle for GPU 0000:09:00.0: Unknown Error",
        "container-cgroup-lost-devices",
        "cgroup",
    ),
    (
        f"{INSIDE}\nUnable to determine the device handle for GPU 0000:09:00.0: GPU is lost.",
        "gpu-fell-off-bus",
        "The GPU at 0000:09:00.0 has fallen off",
    ),
)
WELL = (
    f"{HUB}torch==2.4.0\ntorchvision==0.19.0",
    "Error getting cuda arch: Torch not compiled with CUDA enabled",
    "torch 1.13.1 worked on this machine; now torch 2.5.1+cu124, is_available() is True",
    "the forum said my driver was too old; with 560.35.03 torch.cuda.is_available() True",
    "docker run --gpus all --ipc=host works nicely here, driver 550.90.07",
    'I had "Driver/library version mismatch" last week, a reboot cured it; nvidia-smi shows 550.144.03 and an L4',
    "ACSCtl: SrcValid- TransBlk- ReqRedir- CmpltRedir- UpstreamFwd-\n8x A100, NCCL is fast",
    "would pip install torch==2.5.1 do for CUDA 12.4? driver 550.54.15, RTX A5000",
)


@pytest.mark.parametrize(("text", "root", "names"), FAULTS)
def test_a_fault_is_named_with_what_decides(text: str, root: str, names: str) -> None:
    found, said = first(text)
    assert found == root
    assert names.lower() in said.lower()


@pytest.mark.parametrize("text", WELL)
def test_what_works_or_is_over_is_not_a_fault(text: str) -> None:
    report = judge(read(text), MATRIX)
    assert [one.id for one in report.findings if one.severity is Severity.ERROR] == []


@pytest.mark.parametrize(
    "line",
    [
        "The container toolkit is installed, the NVIDIA driver is not.",
        "libcudart.so.11.0: Kann die Shared-Object-Datei nicht öffnen: Datei oder Verzeichnis nicht gefunden",
    ],
)
def test_a_line_that_is_read_in_other_words_is_quoted_as_it_was_written(line: str) -> None:
    facts = read(line)
    assert all(one.line in line for one in facts.messages)


def test_a_word_of_a_source_line_is_not_a_file_that_asks_for_a_symbol() -> None:
    lines = "    from bitblas.utils import tensor_remove_make_int4\nundefined symbol: ncclCommRegister"
    root, said = first(lines)
    assert root == "nccl-version-clash"
    assert "tensor_remove_make_int4 was built" not in said
    assert "libtorch_cuda.so was built" in first("/x/torch/lib/libtorch_cuda.so: undefined symbol: ncclMemFree")[1]


def test_advice_for_those_who_see_a_fault_is_not_a_sign_of_it() -> None:
    said = "if nvidia-smi says Driver/library version mismatch, reboot. Mine shows driver 550.120 and works"
    assert first(said)[0] is None
    assert first("nvidia-smi says Driver/library version mismatch")[0] == "driver-library-mismatch"
