"""Facts from different places in a text are judged together; what is merely named, without a fault, is not blamed."""

from __future__ import annotations

import pytest

from gpustack.diagnose.engine import judge
from gpustack.model.report import Confidence, Health
from tests.imports.reading import MATRIX, read

SMI = (
    "| NVIDIA-SMI 535.129.03             Driver Version: 535.129.03   CUDA Version: 12.2     |\n"
    "|   0  NVIDIA GeForce RTX 4090        Off | 00000000:24:00.0 Off |                  Off |\n"
)
OUTDATED = (
    "E   Outdated cuDNN installation found.\nE   Version JAX was built against: 8907\n"
    "E   Minimum supported: 9100\nE   Installed version: 8907"
)
TORCH_DLL = r'Error loading "C:\env\Lib\site-packages\torch\lib\{}" or one of its dependencies.'


@pytest.mark.parametrize(
    ("text", "root"),
    [
        ("kernel module 550.90.07, user-space libraries 560.35.03", "driver-library-mismatch"),
        ("module 550.90, libs 560.35", "driver-library-mismatch"),
        ("fabricmanager 535.183.01 with driver 535.216.03 on an HGX H100", "fabric-manager-version-mismatch"),
        ("RTX 5090, proprietary driver 570.124, nvidia-smi: No devices were found", "closed-module-unsupported-gpu"),
        ("RTX 5070 Ti with nvidia-driver-570.\nnvidia-smi: No devices were found", "closed-module-unsupported-gpu"),
        ("I changed my GT 1030 to a RX 580 8GB\nRuntimeError: No CUDA GPUs are available", "cpu-only-build"),
        ("[802] Call to cuInit results in UNKNOWN_CUDA_ERROR", "fabric-manager-not-running"),
        (f"OSError: [WinError 126] {TORCH_DLL.format('c10.dll')}", "framework-import-fails"),
        (f"OSError: [WinError 127] {TORCH_DLL.format('shm.dll')}", "framework-import-fails"),
        (r"FileNotFoundError: Could not find module 'D:\x\torch\lib\caffe2_nvrtc.dll'", "framework-import-fails"),
        (OUTDATED, "cudnn-too-old"),
        ("torch 2.1.0, driver 450.80.02, is_available() is False", "driver-too-old-for-cuda-build"),
        ("nvidia-uvm/uvm_pmm_gpu.c:2631:5: 错误：隐式声明函数‘hmm_range_fault_begin’", "dkms-build-failed"),  # noqa: RUF001
    ],
)
def test_what_is_apart_is_judged_together(text: str, root: str) -> None:
    assert judge(read(text), MATRIX).verdict.root_causes[:1] == (root,)


@pytest.mark.parametrize(
    "text",
    [
        "module 550.90, libs 550.90.07",
        "the kernel module is 550.90.07 and the libraries are 550.90.07",
        "fabricmanager 535.183.01 with driver 535.183.01 on an HGX H100",
        "RTX 5090 with the proprietary driver 575.64, trains fine",
        "RTX 3090 with nvidia-driver-570, nvidia-smi: No devices were found",
        "RTX 5090 with nvidia-driver-570-open, nvidia-smi: No devices were found",
        "I changed my RX 580 to an RTX 3060\nRuntimeError: No CUDA GPUs are available",
        "torch 2.1.0, driver 535.54.03, is_available() is False",
    ],
)
def test_what_works_together_is_not_blamed(text: str) -> None:
    assert judge(read(text), MATRIX).verdict.root_causes == ()


def test_what_words_alone_say_is_likely_at_most() -> None:
    for text in (
        "module 550.90, libs 560.35",
        "fabricmanager 535.183.01 with driver 535.216.03 on an HGX H100",
        "I have an RX 580 and torch says No CUDA GPUs are available",
    ):
        report = judge(read(text), MATRIX)
        assert {one.confidence for one in report.findings if one.severity.value == "error"} == {Confidence.LIKELY}


def test_a_target_that_the_toolkit_dropped_is_the_first_candidate_where_no_such_gpu_is_here() -> None:
    report = judge(read("CUDA toolkit 13.0\nnvcc fatal   : Unsupported gpu architecture 'compute_50'"), MATRIX)
    assert report.candidates[0].id == "arch-dropped-by-toolkit"


@pytest.mark.parametrize("complaint", ["torch does not see the GPU", "torch.cuda.is_available() False"])
def test_a_table_of_nvidia_smi_beside_a_complaint_is_not_called_healthy(complaint: str) -> None:
    report = judge(read(f"{SMI}{complaint}\n"), MATRIX)
    assert report.verdict.status is Health.UNKNOWN
    assert report.candidates


@pytest.mark.parametrize("text", ["(Worker_TP0) ERROR torch.OutOfMemoryError", "running on device #0 gfx1100\nPASSED!"])
def test_what_shows_a_gpu_at_work_is_called_healthy(text: str) -> None:
    assert judge(read(text), MATRIX).verdict.status is Health.HEALTHY
