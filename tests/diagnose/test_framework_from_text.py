"""Pasted text about frameworks and wheels, and the cause that the doctor names for it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from gpustack.diagnose.engine import judge
from gpustack.imports.texts import take
from gpustack.matrix import Matrix
from gpustack.model.writing import render

if TYPE_CHECKING:
    from gpustack.model.report import Report

MATRIX = Matrix()
NO_KERNEL = "CUDA error: no kernel image is available for execution on the device"
NOT_CUDA = "AssertionError: Torch not compiled with CUDA enabled"
WINDOWS = "Windows 11, RTX 4070\nPackage     Version\n----------- -------\ntorch       2.3.1\n\n"


def report(*texts: str) -> Report:
    """Return the report on texts of one machine."""
    facts, _ = take([(f"{number}.txt", text) for number, text in enumerate(texts)], MATRIX)
    return judge(facts, MATRIX)


def roots(*texts: str) -> tuple[str, ...]:
    """Return the causes that the doctor names, likeliest first."""
    return report(*texts).verdict.root_causes


def told(*texts: str) -> str:
    """Return everything that the doctor says about the first cause, as JSON."""
    found = report(*texts)
    first = found.verdict.root_keys[0]
    findings = json.loads(render(found))["findings"]
    return json.dumps(next(one for one in findings if one["key"] == first), ensure_ascii=False)


@pytest.mark.parametrize(
    "text",
    [
        "RTX 3060, driver 531.79, Windows 10\n>>> torch.__version__\n'2.1.0+cpu'\n>>> torch.cuda.is_available()\nFalse",
        f"{WINDOWS}>>> torch.cuda.is_available()\nFalse",
        NOT_CUDA,
        "Could not run 'aten::empty.memory_format' with arguments from the 'CUDA' backend.",
        "An NVIDIA GPU may be present on this machine, but a CUDA-enabled jaxlib is not installed.\njaxlib==0.4.30",
        "ValueError: This CTranslate2 package was not compiled with CUDA support",
        "onnxruntime==1.19.2\nSpecified provider 'CUDAExecutionProvider' is not in available provider names.",
        "Radeon RX 7900 XTX\ntorch==2.4.1+cu121\n>>> torch.cuda.is_available()\nFalse",
        f"  pytorch  pkgs/main/linux-64::pytorch-2.0.1-cpu_py310hab5cca8_0\n{NOT_CUDA}",
    ],
)
def test_a_build_for_the_cpu_is_named(text: str) -> None:
    assert roots(text) == ("cpu-only-build",)


@pytest.mark.parametrize(
    "text",
    [
        f"{WINDOWS}>>> torch.cuda.is_available()\nTrue",
        WINDOWS,
        "PyTorch version: 2.4.0+cpu\nCUDA used to build PyTorch: None\nGPU models and configuration: No CUDA",
    ],
)
def test_a_build_for_the_cpu_is_not_a_fault_where_the_gpu_is_not_needed(text: str) -> None:
    assert roots(text) == ()


@pytest.mark.parametrize(
    ("text", "mentions"),
    [
        (
            (
                "UserWarning: NVIDIA GeForce RTX 5070 Ti with CUDA capability sm_120 is not compatible "
                "with the current "
                "PyTorch installation.\nThe current PyTorch install supports CUDA capabilities sm_75 sm_80 sm_86 sm_90."
            ),
            ("sm_120", "12.8", "sm_90"),
        ),
        (
            (
                "Ignoring visible gpu device (device: 0, name: GeForce GT 730, compute capability:"
                " 3.0) with Cuda compute capability 3.0. The minimum required Cuda capability is 3.5."
            ),
            ("3.0", "3.5", "TensorFlow"),
        ),
        (
            "CUDA kernel mul has no device code compatible with CUDA arch 600. ggml-cuda.cu was compiled for: 610,700",
            ("sm_60", "610,700"),
        ),
        (
            f"RTX 5090, torch 2.5.1+cu124\n{NO_KERNEL}",
            ("12.8", "cu124"),
        ),
        (
            f"Tesla P100, vllm 0.6.3, torch 2.4.0\n{NO_KERNEL}",
            ("7.0",),
        ),
    ],
)
def test_a_build_without_code_for_the_gpu_is_named(text: str, mentions: tuple[str, ...]) -> None:
    assert roots(text)[0] == "arch-not-in-build"
    assert all(one in told(text) for one in mentions)


def test_a_newer_gpu_of_the_newest_generation_is_only_warned_of() -> None:
    text = (
        "Found GPU0 NVIDIA GB10 which is of cuda capability 12.1.\n"
        "Minimum and Maximum cuda capability supported by this version of PyTorch is\n(8.0) - (12.0)"
    )
    assert roots(text) == ()
    assert roots(f"{text}\n{NO_KERNEL}")


def test_a_guessed_build_alone_blames_nothing() -> None:
    assert roots("torch 2.6.0 on Ubuntu 24.04, RTX 5090, works with the cu128 wheel") == ()


@pytest.mark.parametrize(
    ("text", "mentions"),
    [
        ("HIP error: invalid device function\nGPU: AMD Radeon RX 6600 XT\ntorch==2.3.1+rocm6.0", ("gfx1032", "10.3.0")),
        ('msg="amdgpu is not supported" gpu=0 gpu_type=gfx803 supported_types="[gfx1030 gfx900]"', ("gfx803",)),
        (
            "rocBLAS error: Cannot read /opt/rocm/lib/TensileLibrary.dat: No such file for GPU arch : gfx1036",
            ("gfx1036",),
        ),
        ("hipErrorNoBinaryForGpu: Unable to find code object for all current devices!\n  Name:  gfx1032", ("gfx1032",)),
        ("HIP error: no kernel image is available for execution on the device\nGPU: gfx1010", ("gfx1010",)),
    ],
)
def test_an_amd_gpu_without_code_is_named(text: str, mentions: tuple[str, ...]) -> None:
    assert roots(text) == ("rocm-gfx-unsupported",)
    assert all(one in told(text) for one in mentions)


def test_hipblaslt_that_is_skipped_is_harmless() -> None:
    assert roots("Attempting to use hipBLASLt on an unsupported architecture! gfx1100, torch 2.6.0+rocm6.2.4") == ()


@pytest.mark.parametrize(
    ("text", "mentions"),
    [
        ("torch==2.1.0\ntorchvision==0.15.2\nCouldn't load custom C++ ops.", ("0.16.0", "2.0.1")),
        (
            "Could not run 'torchvision::nms' with arguments from the 'CUDA' backend.\ntorchvision==0.15.2+cpu",
            ("+cpu",),
        ),
        ("torchvision 0.16.0 requires torch==2.1.0, but you have torch 2.2.0 which is incompatible.", ("0.17.0",)),
        (
            (
                "Detected that PyTorch and torchaudio were compiled with different CUDA versions. PyTorch has CUDA"
                " Version=12.1 and TorchAudio has CUDA Version=11.8."
            ),
            ("12.1", "11.8", "torchaudio"),
        ),
        ("torch==2.5.1\ntorchvision==0.16.0", ("0.20.1",)),
    ],
)
def test_torch_and_its_companions_of_other_releases_are_named(text: str, mentions: tuple[str, ...]) -> None:
    assert roots(text) == ("torch-torchvision-mismatch",)
    assert all(one in told(text) for one in mentions)


@pytest.mark.parametrize(
    "listed", ["torch==2.5.1+cu124\ntorchvision==0.20.1+cu124", "torch==2.13.0\ntorchaudio==2.11.0"]
)
def test_matching_companions_are_fine(listed: str) -> None:
    assert roots(listed) == ()


@pytest.mark.parametrize(
    "text",
    [
        "PyTorch version: 2.0.1+cu117\nIs CUDA available: True\n[pip3] torch==1.13.1",
        "Name: torch\nVersion: 2.4.0\n$ python -c 'import torch; print(torch.__version__)'\n2.1.2+cu121",
        ">>> torch.__version__\n'2.6.0'\nSuccessfully uninstalled torch-2.8.0",
        "a second torch lies in ~/.local/lib/python3.9/site-packages",
    ],
)
def test_two_copies_of_torch_are_named(text: str) -> None:
    assert roots(text) == ("duplicate-torch-install",)


def test_an_upgrade_is_not_a_second_copy() -> None:
    steps = "Successfully uninstalled torch-2.5.1\nSuccessfully installed torch-2.6.0\n"
    assert roots(f"{steps}>>> torch.__version__\n'2.6.0+cu124'") == ()


def test_tensorflow_on_native_windows() -> None:
    text = "tensorflow==2.15.0\nGTX 1660, CUDA 12.2\n[]"
    assert roots(f"Windows 10\n{text}") == ("tf-no-native-windows-gpu",)
    assert "2.10" in told(f"Windows 10\n{text}")
    assert "tf-no-native-windows-gpu" not in roots(f"Windows 10, WSL2\n{text}")
    assert "tf-no-native-windows-gpu" not in roots("Windows 10\ntensorflow==2.10.1\nGTX 1660")


@pytest.mark.parametrize(
    ("text", "mentions"),
    [
        ("jaxlib==0.4.34\njax==0.4.35\njax-cuda12-plugin==0.4.33", ("0.4.34", "0.4.33")),
        ("jaxlib version 0.4.30 is newer than and incompatible with jax version 0.4.26.", ("0.4.30", "0.4.26")),
        ("Mismatched PJRT plugin PJRT API version (0.61) and framework PJRT API version 0.57).", ("0.61", "0.57")),
    ],
)
def test_jax_and_its_plugin_of_other_releases_are_named(text: str, mentions: tuple[str, ...]) -> None:
    assert roots(text) == ("jax-plugin-mismatch",)
    assert all(one in told(text) for one in mentions)


@pytest.mark.parametrize(
    ("listed", "said"),
    [
        ("numba==0.61.0\nnumpy==2.2.0", "numba 0.61.0 requires numpy <2.2,>=1.24, but numpy 2.2.0 is installed"),
        ("vllm==0.9.2\ntorch==2.6.0", "vLLM 0.9.2 requires torch ==2.7.0; this machine has torch 2.6.0"),
        ("torch==2.7.1\nnvidia-cudnn-cu12==9.1.0.70", "torch 2.7.1 requires nvidia-cudnn-cu12 ==9.5.1.17"),
        ("numba==0.61.0\nnumpy==2.1.3", None),
        ("vllm==0.9.2\ntorch==2.7.0", None),
        ("vllm==0.2.7\ntorch==2.1.0", None),  # only the last number differs: a list does not show whether that matters
        ("bitsandbytes==0.46.0\ntorch==1.0.0", "bitsandbytes requires torch <3,>=2.2; this machine has torch 1.0.0"),
        ("numba==99.0\nnumpy==2.2.0", None),
        ("autoawq==0.2.6\ntorch==2.5.1", "autoawq 0.2.6 requires torch ==2.3.1, but torch 2.5.1 is installed"),
        ("autoawq==0.2.6\ntorch==2.3.0", None),
        ("cuml-cu12==26.10.0\ncudf-cu12==26.8.0", "cuml-cu12 26.10.0 requires cudf-cu12 ==26.10.*"),
        ("mlx==0.32.4\ntorch==2.3.0", None),  # of an extra alone
    ],
)
def test_a_mere_list_of_packages_is_checked_against_what_the_index_says_of_them(listed: str, said: str | None) -> None:
    found = [one.title for one in report(listed).findings if one.id == "pin-violated" and one.severity.value != "info"]
    assert [one.startswith(said or "") for one in found] == [True] * (said is not None)
