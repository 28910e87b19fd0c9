"""What names of wheels, folders and images reveal about a machine, and which of them are only mentioned."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpustack.matrix.subjects import toolkits
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


def image_in(text: str) -> tuple[object, ...]:
    """Return the monthly image that a text says is in use: its name, month and the rest of its tag."""
    found = read(text).find("image")
    return (found.facts.get("name"), found.version, found.build) if found else ()


@pytest.mark.parametrize(
    ("text", "kind", "month", "build"),
    [
        ("docker run --gpus all -it nvcr.io/nvidia/pytorch:23.11-py3 bash", "pytorch", "23.11", "-py3"),
        ("FROM nvcr.io/nvidia/tritonserver:24.05-trtllm-python-py3", "tritonserver", "24.05", "-trtllm-python-py3"),
        ("apptainer pull docker://nvcr.io/nvidia/tensorrt:24.05-py3", "tensorrt", "24.05", "-py3"),
        ("I use the NGC container PyTorch 23.11 on H100", "pytorch", "23.11", None),
        ("We run Triton 24.03 in Kubernetes", "tritonserver", "24.03", None),
        ("nvcr.io/nvidia/pytorch:24.10-py3 works, nvcr.io/nvidia/pytorch:25.01-py3 fails", "pytorch", "25.01", "-py3"),
        ("=============\n== PyTorch ==\n=============\n\nNVIDIA Release 24.12 (build 1)", "pytorch", "24.12", None),
    ],
)
def test_a_month_beside_a_framework_is_that_of_an_image(text: str, kind: str, month: str, build: str | None) -> None:
    assert image_in(text) == (f"nvcr.io/nvidia/{kind}", month, build)
    assert version(read(text), kind) is None


@pytest.mark.parametrize(
    "text",
    [
        "You could try nvcr.io/nvidia/pytorch:25.10-py3 instead.",
        "Should I use nvcr.io/nvidia/pytorch:25.03-py3?",
        "Fixed by switching to nvcr.io/nvidia/tensorrt:24.05-py3",
        "It works with nvcr.io/nvidia/pytorch:24.10-py3",
        "The notes say that nvcr.io/nvidia/pytorch:25.10-py3 requires driver 580",
        "nvcr.io/nvidia/pytorch:24.10-py3 fails like nvcr.io/nvidia/pytorch:25.01-py3 does",
        "nvcr.io/nvidia/pytorch:23.13-py3",
        "mirror.example/nvcr.io/nvidia/pytorch:23.11-py3",
        "pytorch 2.4, tensorflow 2.16, Ubuntu 24.04",
    ],
)
def test_an_image_that_is_advised_or_one_of_several_is_not_in_use(text: str) -> None:
    assert image_in(text) == ()


@given(st.integers(10, 39), st.integers(0, 19), st.sampled_from(["", "-py3", "-tf2-py3", ".1-py3"]))
def test_a_tag_is_read_only_if_it_is_a_month(year: int, month: int, build: str) -> None:
    tag = f"nvcr.io/nvidia/pytorch:{year}.{month:02}{build}"
    found = toolkits.NGC.fullmatch(tag)
    assert (found is not None) == (17 <= year <= 29 and 1 <= month <= 12)
    assert found is None or f"{found['name']}:{found['month']}{found['build']}" == tag


@pytest.mark.parametrize(
    ("tag", "component", "wanted"),
    [
        ("ghcr.io/huggingface/text-generation-inference:3.0.1", "tgi", "3.0.1"),
        ("ghcr.io/huggingface/text-generation-inference:2.4.0-rocm", "tgi", None),
        ("rocm/vllm:0.6.3", "tgi", None),
        ("pytorch/pytorch:2.3.1", "tgi", None),
        ("intel/intel-extension-for-pytorch:2.7.10-xpu", "tgi", None),
    ],
)
def test_the_release_in_a_tag_is_that_of_its_program(tag: str, component: str, wanted: str | None) -> None:
    assert version(read(f"docker run {tag}"), component) == wanted


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
