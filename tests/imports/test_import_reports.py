"""Reports that frameworks print for bug trackers, forms that people fill in, and GPUs that programs list."""

from __future__ import annotations

import pytest

from tests.imports.reading import component, copies, held, packages, read, version

TORCH = """Collecting environment information...
PyTorch version: {torch}
Is debug build: False
CUDA used to build PyTorch: {cuda}
ROCM used to build PyTorch: N/A

OS: Ubuntu 22.04.5 LTS (x86_64)
GCC version: (Ubuntu 11.4.0-1ubuntu1~22.04) 11.4.0
Libc version: glibc-2.35

Python version: 3.10.14 (main, May  6 2024, 19:42:50) [GCC 11.2.0] (64-bit runtime)
Python platform: Linux-6.1.85+-x86_64-with-glibc2.35
Is CUDA available: True
CUDA runtime version: 12.4.131
GPU models and configuration:
GPU 0: NVIDIA H100 80GB HBM3
GPU 1: NVIDIA H100 80GB HBM3

Nvidia driver version: 550.90.07
cuDNN version: Probably one of the following:
/usr/lib/x86_64-linux-gnu/libcudnn.so.8.9.7
/usr/lib/x86_64-linux-gnu/libcudnn_adv_infer.so.8.9.7
/usr/local/cuda/lib64/libcudnn.so.8.9.2

Versions of relevant libraries:
[pip3] torch=={torch}
[conda] cudatoolkit               11.8.0
[conda] torch                     {torch}                   pypi_0    pypi
"""
MMCV = """sys.platform: linux
CUDA available: True
GPU 0,1: Tesla V100-SXM2-32GB
GCC: gcc (Ubuntu 7.4.0-1ubuntu1~18.04.1) 7.4.0
PyTorch: 1.6.0
PyTorch compiling details: PyTorch built with:
  - GCC 7.3
  - CUDA Runtime 10.1
  - NVCC architecture flags: -gencode;arch=compute_70,code=sm_70;-gencode;arch=compute_37,code=compute_37
  - CuDNN 7.6.3
"""
LIGHTNING = """* CUDA:
\t- GPU:
\t\t- NVIDIA GeForce RTX 3090
\t\t- NVIDIA GeForce RTX 3090
\t- available:         True
\t- version:           11.7
* Lightning:
\t- torch:             2.0.0
* System:
\t- OS:                Linux
\t- python:            3.10.9
\t- release:           5.15.0-60-generic
\t- version:           #1 SMP Debian 5.10
"""


def test_pytorchs_report_is_read_whole() -> None:
    facts = read(TORCH.format(torch="2.5.1+cu124", cuda="12.4"))
    torch = held(facts, "pytorch")
    assert (torch["version"], torch["build"], torch["cuda"]) == ("2.5.1+cu124", "cu124", "12.4")
    assert torch["accelerator"] == "cuda"
    assert torch["available"] is True
    assert [gpu.facts["name"] for gpu in copies(facts, "gpu").values()] == ["NVIDIA H100 80GB HBM3"] * 2
    assert version(facts, "nvidia-driver") == "550.90.07"
    assert version(facts, "gcc") == "11.4.0"
    assert held(facts, "python")["glibc"] == "2.35"
    assert (facts.host.os, facts.host.kernel, facts.host.machine) == ("Ubuntu 22.04.5 LTS", "6.1.85+", "x86_64")
    assert packages(facts)["cudatoolkit"] == "11.8.0"


def test_the_cudnn_files_of_a_folder_are_one_copy() -> None:
    found = copies(read(TORCH.format(torch="2.5.1", cuda="12.4")), "cudnn")
    assert {key: copy.version for key, copy in found.items()} == {
        "/usr/lib/x86_64-linux-gnu/libcudnn.so.8.9.7": "8.9.7",
        "/usr/local/cuda/lib64/libcudnn.so.8.9.2": "8.9.2",
    }
    assert found["/usr/lib/x86_64-linux-gnu/libcudnn.so.8.9.7"].facts["parts"] == {"libcudnn_adv_infer": "8.9.7"}


@pytest.mark.parametrize("none", ["None", "Could not collect"])
def test_a_build_for_no_cuda_is_one_for_the_processor(none: str) -> None:
    assert held(read(TORCH.format(torch="2.2.2", cuda=none)), "pytorch")["accelerator"] == "cpu"


def test_what_could_not_be_collected_says_nothing() -> None:
    facts = read("PyTorch version: N/A\nIs CUDA available: N/A\nNvidia driver version: Could not collect\nOS: N/A\n")
    assert facts.components == ()
    assert facts.host.os is None


def test_vllms_layout_has_its_colons_in_a_column() -> None:
    facts = read(
        "==============================\n       PyTorch Info\n==============================\n"
        "PyTorch version              : 2.8.0+cu129\nCUDA used to build PyTorch   : 12.9\n"
        "GPU models and configuration : GPU 0: NVIDIA GeForce RTX 5090\nNvidia driver version        : 580.97\n"
        "vLLM Version                 : 0.11.0\n"
    )
    assert held(facts, "pytorch")["cuda"] == "12.9"
    assert held(facts, "gpu")["name"] == "NVIDIA GeForce RTX 5090"
    assert version(facts, "vllm") == "0.11.0"


def test_windows_is_named_by_its_own_line() -> None:
    facts = read("OS: Microsoft Windows 11 Education\nPython platform: Windows-10-10.0.22631-SP0\n")
    assert facts.host.os == "Windows 11 Education"


@pytest.mark.parametrize(
    ("report", "accelerator", "gpu"),
    [
        (
            (
                "PyTorch version: 2.7.0+xpu\nCUDA used to build PyTorch: None\nXPU used to build PyTorch: 20250000\n"
                "Is CUDA available: False\nIs XPU available: True\n"
                "Intel GPU models onboard:\n* Intel(R) Arc(TM) A770 Graphics\n"
            ),
            "xpu",
            ("intel-gpu", "Intel(R) Arc(TM) A770 Graphics"),
        ),
        (
            (
                "PyTorch version: 2.4.0+rocm6.1\nCUDA used to build PyTorch: N/A\nROCM used to build PyTorch: 6.1\n"
                "Is CUDA available: True\nGPU models and configuration: AMD Instinct MI300X (gfx942:sramecc+:xnack-)\n"
            ),
            "rocm",
            ("amd-gpu", "AMD Instinct MI300X (gfx942:sramecc+:xnack-)"),
        ),
    ],
)
def test_builds_for_other_makers(report: str, accelerator: str, gpu: tuple[str, str]) -> None:
    facts = read(report)
    assert held(facts, "pytorch")["accelerator"] == accelerator
    assert held(facts, "pytorch")["available"] is True
    assert str(held(facts, gpu[0])["name"]) in gpu[1]


def test_mmcv_tells_what_pytorch_was_built_for_and_the_compiler_that_is_here() -> None:
    facts = read(MMCV)
    torch = held(facts, "pytorch")
    assert (torch["version"], torch["cuda"], torch["archs"]) == ("1.6.0", "10.1", ("sm_70", "compute_37"))
    assert len(copies(facts, "gpu")) == 2
    assert version(facts, "gcc") in {None, "7.4.0"}  # not 7.3, which built PyTorch
    assert facts.host.os is None  # the Ubuntu in brackets is the compiler's
    assert facts.find("cudnn") is None


def test_lightning_lists_gpus_by_name() -> None:
    facts = read(LIGHTNING)
    assert len(copies(facts, "gpu")) == 2
    assert held(facts, "pytorch")["cuda"] == "11.7"
    assert facts.host.kernel == "5.15.0-60-generic"
    assert facts.host.os is None


@pytest.mark.parametrize(
    ("report", "wanted"),
    [
        (
            "- `transformers` version: 4.40.1\n- PyTorch version (GPU?): 2.2.2+cu121 (True)\n",
            ("pytorch", "2.2.2+cu121"),
        ),
        ("- PyTorch version (accelerator?): 2.8.0+cu128 (CUDA)\n", ("pytorch", "2.8.0+cu128")),
        ("torch version .................... 2.0.1+cu117\n", ("pytorch", "2.0.1+cu117")),
        ("deepspeed info ................... 0.9.5, unknown, unknown\n", ("deepspeed", "0.9.5")),
        ("- TensorFlow version (use command below): v2.3.0-rc2-23-gb36436b087 2.3.0\n", ("tensorflow", "2.3.0")),
        ("### TensorFlow version\n\ntf 2.12.0\n", ("tensorflow", "2.12.0")),
        ("### ONNX Runtime Version or Commit ID\n\n1.16.3\n", ("onnxruntime", "1.16.3")),
        ("jax:    0.4.31\njaxlib: 0.4.30\n", ("jax", "0.4.31")),
        ("- CUDA/cuDNN version: 10.1 / 7.6.5\n", ("cudnn", "7.6.5")),
        ("- OS Platform and Distribution (e.g., Linux Ubuntu 16.04): Debian 11\n", ("linux-kernel", None)),
    ],
)
def test_forms_and_other_reports(report: str, wanted: tuple[str, str | None]) -> None:
    assert version(read(report), wanted[0]) == wanted[1]


def test_the_example_in_a_question_is_not_an_answer() -> None:
    facts = read("- OS Platform and Distribution (e.g., Linux Ubuntu 16.04): Debian 11\n")
    assert facts.host.os == "Debian 11"


@pytest.mark.parametrize(
    ("line", "key", "wanted"),
    [
        ("pciBusID: 0000:01:00.0 name: GeForce GTX 1080 Ti computeCapability: 6.1", "0", "6.1"),
        ("name: GeForce GTX 1080 major: 6 minor: 1 memoryClockRate(GHz): 1.7335", "0", "6.1"),
        (
            (
                "Created device /job:localhost/device:GPU:0 with 9678 MB:  -> device: 0, name: NVIDIA GeForce RTX 3080,"
                " pci bus id: 0000:01:00.0, compute capability: 8.6"
            ),
            "0",
            "8.6",
        ),
        ("  Device 1: NVIDIA GeForce RTX 3060, compute capability 8.6, VMM: yes", "1", "8.6"),
        (
            "id 0    b'NVIDIA GeForce RTX 3090'           [SUPPORTED]\n                      Compute Capability: 8.6",
            "0",
            "8.6",
        ),
        ('Device 0: "NVIDIA A100"\n  CUDA Capability Major/Minor version number:    8.0', "0", "8.0"),
        (
            'msg="inference compute" id=GPU-x library=CUDA compute=8.6 name="NVIDIA GeForce RTX 3090"',
            "0",
            "8.6",
        ),
    ],
)
def test_programs_name_gpus_with_their_compute_capability(line: str, key: str, wanted: str) -> None:
    gpu = copies(read(line), "gpu")[key]
    assert gpu.facts["cc"] == wanted
    assert str(gpu.facts["name"]).replace("NVIDIA ", "").startswith(("GeForce", "A100"))


def test_a_gpu_that_two_tools_name_is_one() -> None:
    facts = read(
        "GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-01234567-89ab-cdef-0123-456789abcdef)",
        "Device 0: NVIDIA A100-SXM4-40GB, compute capability 8.0, VMM: yes",
    )
    assert len(component(facts, "gpu").instances) == 1
    assert held(facts, "gpu")["cc"] == "8.0"
