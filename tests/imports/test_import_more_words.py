"""Facts in short words: other spellings of a version, whose CUDA it is, updates, systems, packages in a sentence."""

from __future__ import annotations

import pytest

from tests.imports.reading import held, packages, read, version


@pytest.mark.parametrize(
    ("words", "component", "wanted"),
    [
        ("Check cuDNN Ver. 8907", "cudnn", "8.9.7"),
        ("cudnn 90100", "cudnn", "9.1.0"),
        ("Check Torch Ver.2.3.1+cu121", "pytorch", "2.3.1+cu121"),
        ("Tensor Flow Version: 2.12.0", "tensorflow", "2.12.0"),
        ("Cuda-11.1, cuDNN 8.0.5", "cuda-toolkit", "11.1"),
        ("NVIDIA Open GPU Kernel Modules 565.57.01", "nvidia-driver", "565.57.01"),
        ("akmod-nvidia 555.58.02", "nvidia-driver", "555.58.02"),
        ("updated nvidia to 590.44.01", "nvidia-driver", "590.44.01"),
        ("upgraded the driver from 535.54.03 to 550.54.14", "nvidia-driver", "550.54.14"),
        ("self-compiled kernel 4.14.25-surface", "linux-kernel", "4.14.25-surface"),
        ("RTX 3060, using CUDA 12.1", "cuda-toolkit", "12.1"),
        ("Ultralytics YOLOv8.0.20 torch-2.0.0+cpu CPU", "pytorch", "2.0.0+cpu"),
    ],
)
def test_a_version_is_read_however_it_is_written(words: str, component: str, wanted: str) -> None:
    assert version(read(words), component) == wanted


@pytest.mark.parametrize(
    "words",
    [
        "try using CUDA 12.1",
        "you should update the driver",
        "it was compiled for kernel 4.14",
        "would using 12.1 help?",
    ],
)
def test_advice_is_not_a_version(words: str) -> None:
    assert {one.id for one in read(words).components} <= {"environment"}


def test_the_cuda_that_nvidia_smi_shows_is_the_drivers() -> None:
    assert held(read("no nvcc, nvidia-smi shows CUDA 12.2"), "cuda-toolkit")["whose"] == "driver"
    assert held(read("driver 535.54.03, CUDA 12.2"), "cuda-toolkit").get("whose") is None


def test_the_cuda_that_torch_was_built_with_is_of_torch() -> None:
    assert held(read("PyTorch 1.8.0 built with CUDA 11.1"), "pytorch")["cuda"] == "11.1"


@pytest.mark.parametrize(
    ("words", "build"),
    [
        ("pytorch 1.13.1 py3.10_cpu_0 pytorch", "cpu"),
        ("conda list shows pytorch 1.13.1 py3.10_cpu_0", "cpu"),
        ("conda list shows pytorch 2.1.0 py3.10_cuda11.8_cudnn8.7.0_0", "cuda"),
    ],
)
def test_the_build_of_conda_in_a_sentence(words: str, build: str) -> None:
    assert held(read(words), "pytorch")["accelerator"] == build


def test_the_parts_of_jax_in_a_sentence() -> None:
    facts = read("jax 0.4.33, jaxlib 0.4.33, jax-cuda12-plugin 0.4.31, jax-cuda12-pjrt 0.4.31")
    assert held(facts, "jax")["plugins"] == {"jax-cuda12-plugin": "0.4.31", "jax-cuda12-pjrt": "0.4.31"}
    assert packages(facts)["jaxlib"] == "0.4.33"


@pytest.mark.parametrize(
    ("words", "system"),
    [
        ("windows 11, python 3.11, in an anaconda environment", "Windows 11"),
        ("in Windows 10 with a GTX 1650", "Windows 10"),
        ("ubuntu 22.04 server", "ubuntu 22.04"),
    ],
)
def test_a_system_in_words(words: str, system: str) -> None:
    assert read(words).host.os == system


def test_where_it_works_is_another_system() -> None:
    assert read("it works in Ubuntu 20.04").host.os is None


def test_a_table_that_a_person_wrote() -> None:
    facts = read("| Package | Version |\n|---|---|\n| torch | 2.4.1+cpu |\n| GPU | RTX 3060 |")
    assert version(facts, "pytorch") == "2.4.1+cpu"
    assert held(facts, "gpu")["name"] == "RTX 3060"


def test_what_dpkg_sets_up_is_installed() -> None:
    facts = read("Setting up nvidia-compute-utils-460 (460.32.03-0ubuntu1) ...")
    assert held(facts, "nvidia-driver")["package_version"] == "460.32.03"


def test_what_precedes_a_message_in_its_line_is_read() -> None:
    facts = read("tensorflow-gpu==1.15 on python 3.8: No matching distribution found for tensorflow-gpu==1.15")
    assert version(facts, "python") == "3.8"
