"""What names of wheels, folders and images reveal about a machine, and which of them are only mentioned."""

from __future__ import annotations

import pytest

from tests.imports.reading import held, packages, read, version

FLASH = "flash_attn-2.6.3+cu123torch2.4cxx11abiTRUE-cp310-cp310-linux_x86_64.whl"


@pytest.mark.parametrize("before", ["installed: ", "pip install ./", "Processing ./", ""])
def test_a_wheel_that_was_installed_is_a_package(before: str) -> None:
    assert packages(read(before + FLASH))["flash-attn"] == "2.6.3+cu123torch2.4cxx11abiTRUE"


def test_a_wheel_of_torch_names_its_build() -> None:
    facts = read("Downloading torch-2.1.0%2Bcu121-cp310-cp310-linux_x86_64.whl (2200.7 MB)")
    assert held(facts, "pytorch")["cuda"] == "12.1"


@pytest.mark.parametrize(
    "text",
    [
        f"{FLASH} is not a supported wheel on this platform",
        f"should I install {FLASH}?",
        f"you could try {FLASH} instead",
        "\n".join(f"torch-2.{minor}.0-cp310-cp310-linux_x86_64.whl" for minor in range(5)),
    ],
)
def test_a_wheel_that_is_only_mentioned_is_none(text: str) -> None:
    assert read(text).find("packages") is None


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        ("/home/u/venv/lib/python3.11/site-packages/torch/lib/libtorch.so", "3.11"),
        (r"C:\\Users\\u\\Python310\\lib\\site-packages\\torch", "3.10"),
        ("causal_conv1d_cuda.cpython-312-x86_64-linux-gnu.so", "3.12"),
    ],
)
def test_a_folder_names_its_python(path: str, wanted: str) -> None:
    assert version(read(path.replace("\\\\", "\\")), "python") == wanted


def test_what_is_said_of_python_goes_before_a_folder() -> None:
    assert version(read("Python 3.9.18\n/opt/lib/python3.11/site-packages/x.so"), "python") == "3.9.18"


def test_an_image_names_what_is_in_it() -> None:
    facts = read("docker run --gpus all pytorch/pytorch:2.1.0-cuda12.1-cudnn8-runtime python x.py")
    assert (version(facts, "pytorch"), held(facts, "pytorch")["cuda"]) == ("2.1.0", "12.1")
    assert facts.host.container == "docker"
    assert version(read("vllm/vllm-openai:v0.6.3"), "vllm") == "0.6.3"


@pytest.mark.parametrize(
    "command",
    [
        "conda install pytorch torchvision cudatoolkit=10.1 -c pytorch",
        "pip install torch torchvision --index-url https://download.pytorch.org/whl/cu101",
    ],
)
def test_the_command_that_installed_torch_names_its_cuda(command: str) -> None:
    asked = ">>> torch.cuda.is_available()\nFalse\n"
    assert held(read(asked + command), "pytorch")["cuda"] == "10.1"
    assert read(command).find("pytorch") is None


@pytest.mark.parametrize("build", ["2.0.0+cpu", "2.3.1+cu121", "2.4.0+rocm6.1"])
def test_a_build_tag_alone_is_that_of_torch(build: str) -> None:
    assert version(read(f"System Info says ({build}) Autocast half"), "pytorch") == build


@pytest.mark.parametrize("text", ["vllm 1.2.0+cu118", "mmcv_full 1.7.0+cu113", "driver 1.0.0+cpus", "0.15.2+cpu"])
def test_the_build_tag_of_another_package_is_not_that_of_torch(text: str) -> None:
    assert read(text).find("pytorch") is None


def test_a_folder_of_windows_names_the_system() -> None:
    path = r"C:\ai\venv\lib\site-packages\torch\lib\c10.dll"
    assert read(path).host.os == "Windows"
    assert read(f"Linux 6.8.0-31-generic\n{path}").host.os != "Windows"
    assert held(read("Python 3.10.6 [MSC v.1932 32 bit (Intel)]"), "python")["bits"] == 32
