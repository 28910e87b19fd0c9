"""Pasted text about missing, foreign and mixed libraries, and the one cause that must result."""

from __future__ import annotations

import io

import pytest

from gpustack.diagnose.engine import judge
from gpustack.imports import load
from gpustack.model.report import Report, Severity
from tests.build import MATRIX

ORT = "Failed to load library libonnxruntime_providers_cuda.so with error: "
NO_FILE = "cannot open shared object file: No such file or directory"
NVCC_124 = "Cuda compilation tools, release 12.4, V12.4.131"


def told(text: str) -> Report:
    """Return the report on a pasted text."""
    return judge(load(["-"], io.BytesIO(text.encode()), MATRIX), MATRIX)


def words(text: str, slug: str) -> str:
    """Return the finding's text, its fix included; it must be the only root."""
    report = told(text)
    assert report.verdict.root_causes == (slug,)
    (one,) = [finding for finding in report.findings if finding.id == slug]
    fix = f"{one.fix.text} {one.fix.commands}" if one.fix else ""
    return f"{one.title} {one.detail} {fix} {[ground.value for ground in one.because]}"


@pytest.mark.parametrize(
    ("text", "mentions"),
    [
        ("RuntimeError: Library libcublas.so.12 is not found or cannot be loaded", ["CUDA 12", "nvidia-cublas-cu12"]),
        ("RuntimeError: Library cublas64_12.dll is not found or cannot be loaded\nWindows 11", ["CUDA 12"]),
        (f"./server: error while loading shared libraries: libcurand.so.10: {NO_FILE}", ["libcurand.so.10"]),
        (
            f"NVIDIA-SMI 535.183.01   Driver Version: 535.183.01   CUDA Version: 12.2\nlibcudart.so.11.0: {NO_FILE}",
            ["libcudart.so.11.0", "CUDA 11", "driver can run CUDA 12.2"],
        ),
        (f"OSError: libcufft.so.11: {NO_FILE}\nno CUDA toolkit 12.4 here", ["CUDA 12"]),
        (f"libcudart.so.12: {NO_FILE}\n{NVCC_124}", ["CUDA 12.4 is installed, but the loader does not look there"]),
    ],
)
def test_a_runtime_that_is_not_here_is_named_with_its_cuda(text: str, mentions: list[str]) -> None:
    said = words(text, "cuda-runtime-missing")
    assert [one for one in mentions if one not in said] == []


@pytest.mark.parametrize(
    ("text", "mentions"),
    [
        (f"OSError: libcublas.so.11: {NO_FILE}\n{NVCC_124}", ["libcublas.so.11", "CUDA 11", "CUDA 12.4"]),
        (f"{ORT}libcufft.so.10: {NO_FILE}\nonnxruntime-gpu==1.16.3\ntorch==2.3.1+cu121", ["CUDA 11", "1.16.3", "12.1"]),
        (
            (
                'Error loading "onnxruntime_providers_cuda.dll" which depends on "cublasLt64_12.dll" which is missing. '
                "nvcc: release 11.8\nCuda compilation tools, release 11.8, V11.8.89\nonnxruntime-gpu==1.20.1"
            ),
            ["CUDA 12", "CUDA 11.8", "1.18"],
        ),
        (
            "Failed to create CUDAExecutionProvider. Require cuDNN 9.* and CUDA 13.*\nonnxruntime-gpu==1.29.0\n"
            + NVCC_124,
            ["CUDA 13", "CUDA 12.4", "1.26"],
        ),
    ],
)
def test_libraries_of_another_major_are_told_from_none_at_all(text: str, mentions: list[str]) -> None:
    said = words(text, "cuda-major-mixed")
    assert [one for one in mentions if one not in said] == []


@pytest.mark.parametrize(
    ("text", "mentions"),
    [
        (
            f"{ORT}libcudnn.so.8: {NO_FILE}\nnvidia-cudnn-cu12==9.1.0.70\nonnxruntime-gpu==1.17.1",
            ["cuDNN 8", "9.1.0.70"],
        ),
        (
            (
                'Error loading "onnxruntime_providers_cuda.dll" which depends on "cudnn64_9.dll" which is missing.\n'
                "cuDNN 8.9.7, CUDA 12.4"
            ),
            ["cuDNN 9", "8.9.7"],
        ),
        (
            (
                "Failed to create CUDAExecutionProvider. Require cuDNN 9.* and CUDA 12.*\nnvidia-cudnn-cu12==8.9.2.26\n"
                f"onnxruntime-gpu==1.19.2\n{NVCC_124}"
            ),
            ["cuDNN 9", "8.9.2.26", "1.19.2"],
        ),
    ],
)
def test_onnxruntime_needs_one_major_of_cudnn(text: str, mentions: list[str]) -> None:
    said = words(text, "ort-cudnn-major-mismatch")
    assert [one for one in mentions if one not in said] == []


@pytest.mark.parametrize(
    "text",
    [
        "onnxruntime==1.18.0\nonnxruntime-gpu==1.18.0\n>>> ort.get_available_providers()\n['CPUExecutionProvider']",
        "onnxruntime 1.19.2 and onnxruntime-gpu 1.19.2 are both installed",
        (
            "Found existing installation: onnxruntime 1.20.0\nFound existing installation: onnxruntime-gpu 1.20.0\n"
            "UserWarning: Specified provider 'CUDAExecutionProvider' is not in available provider names."
        ),
    ],
)
def test_two_packages_of_onnxruntime_are_one_too_many(text: str) -> None:
    assert "pip uninstall -y onnxruntime onnxruntime-gpu" in words(text, "ort-cpu-and-gpu-installed")


def test_onnxruntime_for_the_gpu_alone_is_not_blamed_for_a_list_of_providers() -> None:
    assert told("onnxruntime-gpu==1.20.0\n['CUDAExecutionProvider', 'CPUExecutionProvider']").verdict.root_causes == ()


@pytest.mark.parametrize(
    ("text", "mentions"),
    [
        (
            (
                "cuDNN version incompatibility: PyTorch was compiled  against (9, 1, 0) but found runtime version "
                "(8, 9, 7).\nexport LD_LIBRARY_PATH=/usr/local/cuda-12.1/lib64:$LD_LIBRARY_PATH"
            ),
            ["9.1.0", "8.9.7", "LD_LIBRARY_PATH", "-e /usr/local/cuda-12.1/lib64"],
        ),
        (
            "RuntimeError: cuDNN version mismatch: PyTorch was compiled against 7005 but linked against 6021",
            ["7.0.5", "6.0.21", "unset LD_LIBRARY_PATH"],
        ),
    ],
)
def test_pytorch_that_loads_a_foreign_cudnn_is_shadowed(text: str, mentions: list[str]) -> None:
    said = words(text, "cudnn-shadowed-by-ld-library-path")
    assert [one for one in mentions if one not in said] == []


@pytest.mark.parametrize(
    ("text", "mentions"),
    [
        (
            "Loaded runtime CuDNN library: 7102 (compatibility version 7100) but source was compiled with 7200 (x).",
            ["7.1.2", "7.2.0"],
        ),
        (
            (
                "RuntimeError: Outdated cuDNN installation found.\nVersion JAX was built against: 90800\n"
                "Minimum supported: 90100\nInstalled version: 8907"
            ),
            ["8.9.7", "9.8.0", ">=9.1.0,<10"],
        ),
    ],
)
def test_a_cudnn_older_than_the_build_is_too_old(text: str, mentions: list[str]) -> None:
    said = words(text, "cudnn-too-old")
    assert [one for one in mentions if one not in said] == []


@pytest.mark.parametrize(
    ("text", "mentions"),
    [
        (
            (
                "Could not load library libcudnn_cnn_train.so.8. Error: /usr/local/cuda-12.1/lib/libcudnn_cnn_train"
                ".so.8: undefined symbol: _ZN5cudnn3cnn9somethingEv, version libcudnn_cnn_infer.so.8"
            ),
            ["libcudnn_cnn_train.so.8"],
        ),
        (
            "CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH\nnvidia-cudnn-cu12==9.5.1.17\nsystem cuDNN 9.8.0",
            ["9.5.1.17", "9.8.0"],
        ),
        (
            (
                "CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH\n/venv/site-packages/nvidia/cudnn/lib/libcudnn.so.9\n"
                "/usr/lib/aarch64-linux-gnu/libcudnn_ops.so.9"
            ),
            ["/usr/lib/aarch64-linux-gnu", "site-packages/nvidia/cudnn/lib"],
        ),
    ],
)
def test_parts_of_two_cudnn_are_named_with_versions_and_folders(text: str, mentions: list[str]) -> None:
    said = words(text, "cudnn-two-copies")
    assert [one for one in mentions if one not in said] == []


@pytest.mark.parametrize(
    ("text", "mentions"),
    [
        (
            (
                f"Could not load dynamic library 'libcudnn.so.8'; dlerror: libcudnn.so.8: {NO_FILE}\n"
                "TensorFlow 2.9.1, CUDA 11.2, cuDNN 7.6.5"
            ),
            ["libcudnn.so.8", "cuDNN 7.6.5", "CUDA 11.2 and cuDNN 8.1"],
        ),
        (
            "Cannot dlopen some GPU libraries. Please make sure the missing libraries\ntensorflow==2.16.1",
            ["TensorFlow 2.16.1", "CUDA 12.3", "tensorflow[and-cuda]==2.16.1"],
        ),
        (
            "ImportError: Could not find 'cudart64_100.dll'. TensorFlow requires that this DLL be installed",
            ["cudart64_100.dll", "CUDA 10.0"],
        ),
        (
            f"ImportError: libcublas.so.10.0: {NO_FILE}\nFailed to load the native TensorFlow runtime.\nCUDA 10.1",
            ["libcublas.so.10.0", "CUDA 10.1"],
        ),
    ],
)
def test_tensorflow_names_what_it_cannot_open(text: str, mentions: list[str]) -> None:
    said = words(text, "tf-cannot-dlopen")
    assert [one for one in mentions if one not in said] == []


@pytest.mark.parametrize(
    ("slug", "text", "mentions"),
    [
        (
            "cuda-lib-shadowed",
            (
                "torch/lib/libtorch_cuda.so: undefined symbol: cublasLtMatmulDescInit, version libcublasLt.so.12\n"
                "image nvidia/cuda:12.1.0-runtime-ubuntu22.04"
            ),
            ["libcublasLt.so.12", "cublasLtMatmulDescInit", "CUDA 12.1"],
        ),
        (
            "cuda-lib-shadowed",
            (
                "/usr/local/cuda/lib64/libcublas.so.12: version `libcublas.so.12' not found (required by "
                "/venv/lib/python3.11/site-packages/torch/lib/libtorch_cuda.so)"
            ),
            ["libcublas.so.12", "libtorch_cuda.so"],
        ),
        (
            "nvjitlink-clash",
            (
                "/venv/nvidia/cusolver/lib/libcusolver.so.11: undefined symbol: __nvJitLinkCreate_12_8, version "
                "libnvJitLink.so.12\nLD_LIBRARY_PATH=/usr/local/cuda-12.6/lib64"
            ),
            ["CUDA 12.8", "/usr/local/cuda-12.6/lib64", "libcusolver.so.11"],
        ),
        (
            "nccl-version-clash",
            "/venv/torch/lib/libtorch_cuda.so: undefined symbol: ncclGroupSimulateEnd\nlibnccl2 2.18.3 of the system",
            ["ncclGroupSimulateEnd", "2.18.3"],
        ),
        (
            "nccl-version-clash",
            (
                "NCCL WARN NCCL library is too old. This application was compiled with NCCL version 2.28.9, but is "
                "running with NCCL library version 2.21.5."
            ),
            ["2.21.5 and 2.28.9"],
        ),
        (
            "multiple-cupy",
            (
                "CuPy may not function correctly because multiple CuPy packages are installed\n  in your environment:"
                "\n\n    cupy, cupy-cuda11x\nCUDA 11.8"
            ),
            ["pip uninstall -y cupy cupy-cuda11x", "pip install cupy-cuda11x"],
        ),
        ("cudnn-missing", "Unable to load any of {libcudnn_ops.so.9.1.0, libcudnn_ops.so.9}", ["cuDNN 9"]),
    ],
)
def test_a_foreign_copy_is_named_with_what_it_lacks(slug: str, text: str, mentions: list[str]) -> None:
    said = words(text, slug)
    assert [one for one in mentions if one not in said] == []


@pytest.mark.parametrize(
    "text",
    [
        f"Could not load dynamic library 'libnvinfer.so.7'; dlerror: libnvinfer.so.7: {NO_FILE}",
        (
            f"Could not load dynamic library 'libcudart.so.11.0'; dlerror: libcudart.so.11.0: {NO_FILE}\n"
            "PhysicalDevice(name='/physical_device:GPU:0', device_type='GPU')"
        ),
        "Successfully opened dynamic library libcudart.so.11.0\nLoaded cuDNN version 8600",
        "NCCL version 2.21.5+cuda12.4\nnvidia-nccl-cu12==2.21.5\ntorch==2.5.1",
        "The installed Paddle is compiled with CUDNN 9.9, but CUDNN version in your machine is 9.5",
        (
            "PyTorch version: 2.4.0+cu121\nCUDA runtime version: 11.8.89\nIs CUDA available: True\n"
            "cuDNN version: Probably one of the following:\n/usr/lib/libcudnn.so.8.9.7\n/opt/lib/libcudnn.so.9.1.0"
        ),
        "nvidia-nccl-cu11==2.14.3\nnvidia-nccl-cu12==2.27.3",
        "undefined symbol: some_function_of_a_program",
    ],
)
def test_what_healthy_machines_print_is_not_a_fault(text: str) -> None:
    report = told(text)
    assert report.verdict.root_causes == ()
    assert [one.id for one in report.findings if one.severity in {Severity.ERROR, Severity.WARNING}] == []
