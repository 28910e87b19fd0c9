"""What people write in their own words, and which of it is not about this machine."""

from __future__ import annotations

import pytest

from tests.imports.reading import copies, held, packages, read, version


@pytest.mark.parametrize(
    ("words", "component", "wanted"),
    [
        ("NVIDIA driver's version:384.130", "nvidia-driver", "384.130"),
        ("nvidia-open-dkms 610.57.04, kernel 7.2.3-arch1-3", "nvidia-driver", "610.57.04"),
        ("The CUDA version is 12.2 (only this version installed)", "cuda-toolkit", "12.2"),
        ("- PyTorch: `2.12.0.dev20260408+rocm7.2`", "pytorch", "2.12.0.dev20260408+rocm7.2"),
        ("torch.version = 1.7.1+cu110", "pytorch", "1.7.1+cu110"),
        ("Pytorch version: '1.3.1'", "pytorch", "1.3.1"),
        ("vllm version is 0.2.0", "vllm", "0.2.0"),
        ("I'm using python 3.9", "python", "3.9"),
        ("driver 550.54.14, CUDA 12.4, cudnn9-cuda-12-4 9.1.1.17-1", "cudnn", "9.1.1.17"),
        ("tensorflow-rocm 2.9.1, Pop! OS 22.04", "tensorflow", "2.9.1"),
        ("I upgraded to CUDA 12.8 yesterday", "cuda-toolkit", "12.8"),
    ],
)
def test_versions(words: str, component: str, wanted: str) -> None:
    assert version(read(words), component) == wanted


@pytest.mark.parametrize(
    "words",
    [
        "this needs driver 550.54.14 or newer",
        "please upgrade to CUDA 12.8",
        "xformers was built with CUDA 11.8",
        "works on CUDA 12.1",
        "requires torch 2.6.0",
        "CUDA 12.8 or newer is needed",
        "you could try torch 2.0.1",
        "Successfully uninstalled torchvision 0.23.0",
        "it fails than before torch 2.0",
        "supports CUDA 11.8",
    ],
)
def test_what_is_required_or_elsewhere_is_not_here(words: str) -> None:
    facts = read(words)
    assert {one.id for one in facts.components} <= {"environment"}


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ("3x RTX A6000", ["RTX A6000"] * 3),
        ("tesla p40 in a dell r730", ["tesla p40"]),
        ("geforce gt 710, quadro m4000", ["geforce gt 710", "quadro m4000"]),
        ("titan xp and 2x h100", ["titan xp", *["h100"] * 2]),
        ("a 5090D, a mx150 and an a100", ["5090D", "mx150", "a100"]),
        ("2xRTX 5000 16GB (driver version: 590.48.01) with nvlink", ["RTX 5000"] * 2),
        ("8 NVIDIA H100s (Lambda Hyperplane)", ["NVIDIA H100"] * 8),
        ("Kubeflow, 4 T4 GPUs", ["T4"] * 4),
        ("a node with A100 x 4", ["A100"] * 4),
        ("GPU: GTX 1080Ti and RTX 2080Ti", ["GTX 1080Ti", "RTX 2080Ti"]),
        ("RTX 6000 Ada, RTX 4500 Ada, Rocky 9.6", ["RTX 6000 Ada", "RTX 4500 Ada"]),
        ("GPU: 2080ti", ["2080ti"]),
        ("GPU model and memory: 4080 RTX", ["4080 RTX"]),
        ("Ubuntu 20.04.6 LTS, GPU 4090", ["4090"]),
        ("GTX1080 Driver Version: 375.26", ["GTX1080"]),
        ("NVIDIA GeForce RTX 5060 Max-Q / Mobile [Discrete]", ["NVIDIA GeForce RTX 5060 Max-Q"]),
        ("Titan V: 95C under load", ["Titan V"]),
        ("NVIDIA GeForce RTX 3090 (GeForce RTX 3090)", ["NVIDIA GeForce RTX 3090"]),
        ("RTX 4090, 24GB VRAM\nthe authors used an A100 80GB", ["RTX 4090"]),
        ("fails on my RTX 3090, works on A100", ["RTX 3090"]),
        ("encoded with H264 on port B2000, see model A1000000", []),
    ],
)
def test_gpus(words: str, names: list[str]) -> None:
    facts = read(words)
    found = [str(gpu.facts["name"]) for gpu in copies(facts, "gpu").values()] if facts.find("gpu") else []
    assert found == names


@pytest.mark.parametrize(
    ("words", "component", "name"),
    [
        ("GPU: AMD Radeon RX Vega 56", "amd-gpu", "AMD Radeon RX Vega 56"),
        ("RX470 (gfx803)", "amd-gpu", "RX470"),
        ("Arc 770, WSL2", "intel-gpu", "Arc 770"),
    ],
)
def test_gpus_of_other_makers(words: str, component: str, name: str) -> None:
    assert held(read(words), component)["name"] == name


@pytest.mark.parametrize(
    ("words", "system"),
    [
        ("openSUSE Leap 15.2, 5.3.18-lp152.106-default", "openSUSE Leap 15.2"),
        ("Pop! OS 22.04", "Pop! OS 22.04"),
        ("Python 3.11.1 (Windows)", "Windows"),
        ("Windows 11, WSL 2, Ubuntu 22.10", "Ubuntu 22.10"),
        ("GCC: gcc (Ubuntu 7.4.0-1ubuntu1~18.04.1) 7.4.0", None),
        ("image nvidia/cuda:11.3.1-cudnn8-runtime-ubuntu20.04", None),
    ],
)
def test_systems(words: str, system: str | None) -> None:
    assert read(words).host.os == system


def test_a_line_that_also_holds_a_message_is_read_for_the_rest() -> None:
    facts = read("2x RTX 5880 Ada, driver 580.82.09, CUDA 13.0 host / 12.8 container, NCCL 2.25.1, Linux 6.16.3\n")
    assert version(facts, "nvidia-driver") == "580.82.09"
    assert facts.host.kernel == "6.16.3"
    assert len(copies(facts, "gpu")) == 2


def test_a_message_of_a_program_is_not_told_by_a_person() -> None:
    facts = read(
        "RuntimeError:\nThe detected CUDA version (12.6) mismatches the version that was used to compile\n"
        "PyTorch (11.8). Please make sure to use the same CUDA versions.\n"
    )
    assert version(facts, "cuda-toolkit") in {None, "12.6"}
    assert version(facts, "pytorch") is None


def test_a_command_that_asks_for_versions_is_not_a_list_of_what_is_here() -> None:
    facts = read("$ pip install torch==2.1.0 vllm==0.2.0\ntorch==2.0.1\n")
    assert packages(facts) == {"torch": "2.0.1"}
