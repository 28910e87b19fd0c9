"""Builds and libraries in short words and in newer program output, and the cause that the doctor names for each."""

from __future__ import annotations

import pytest

from tests.imports.reading import first

WIN11 = "Windows 11, RTX 3060\n"
LISTS_NONE = ">>> tf.config.list_physical_devices('GPU')\n[]"
FAULTS = (
    (
        "print(torch.__version__)\nprint(torch.cuda.is_available())\nprint(torch.version.cuda)\n\n1.13.0\nFalse\nNone",
        "cpu-only-build",
    ),
    ("torch.version.cuda is None, torch.cuda.is_available() is False, GTX 1070", "cpu-only-build"),
    ("GPU: Intel Arc A770\ntorch 2.1.0+cu121\nFound no NVIDIA driver on your system.", "cpu-only-build"),
    ("nix-shell -p python3Packages.torch\n>>> torch.cuda.is_available()\nFalse", "cpu-only-build"),
    ("RTX 2070\nGPU Tree Learner was not enabled in this build.", "cpu-only-build"),
    ("Found GPU0 NVIDIA GeForce RTX 5070 which is of compute capability (CC) 12.0.", "arch-not-in-build"),
    (
        (
            "TensorFlow was not built with CUDA kernel binaries compatible with compute capability 12.0a.\n"
            "RTX 5090: CUDA_ERROR_INVALID_PTX"
        ),
        "arch-not-in-build",
    ),
    ("Ollama with ROCm does not use my Radeon RX 6500 XT (gfx1034)", "rocm-gfx-unsupported"),
    ("Radeon RX 7600S\nROCm error: invalid device function", "rocm-gfx-unsupported"),
    ("pip list shows torch 2.1.0\n>>> torch.__version__\n'1.12.1'", "duplicate-torch-install"),
    ("[conda] pytorch 1.4.0 py37_0\n[conda] pytorch-nightly 1.6.0.dev20200401 py3.7_0", "duplicate-torch-install"),
    (f"win11\nTensorFlow version: 2.16.1\n{LISTS_NONE}", "tf-no-native-windows-gpu"),
    (f"{WIN11}TensorFlow version: 2.4.0\nCUDA/cuDNN version: 10.1/7.6\n{LISTS_NONE}", "tf-cannot-dlopen"),
    (
        "Could not find the bitsandbytes CUDA binary at PosixPath('/v/bitsandbytes/libbitsandbytes_cuda128.so')",
        "bnb-binary-missing-for-cuda",
    ),
    ("onnxruntime-gpu 1.24.0\ncublasLt64_13.dll is missing", "cuda-runtime-missing"),
    ("`onnxruntime` and `onnxruntime-gpu` both installed", "ort-cpu-and-gpu-installed"),
    ("onnxruntime-gpu 1.20.1 cannot find libcudnn.so.9, cuDNN 8.9 is installed", "ort-cudnn-major-mismatch"),
    ("torch takes libcublas.so.11 instead of libcublas.so.12, both are installed", "cuda-major-mixed"),
    ("TF was built with cuDNN 8.6 but cuDNN 8.4 is loaded", "cudnn-too-old"),
    (
        (
            "Loaded runtime CuDNN library: 8.2.1 but source was compiled with: 8.6.0.\n"
            "LD_LIBRARY_PATH=/usr/local/cuda/lib64\nnvidia-cudnn-cu11 8.6.0 is installed with pip"
        ),
        "cudnn-shadowed-by-ld-library-path",
    ),
    ("Found cuSPARSE version 12000, but JAX was built against version 12301, which is newer.", "cuda-lib-shadowed"),
    (
        (
            "libcusparse.so.12: symbol __nvJitLinkComplete_12_4, version libnvJitLink.so.12 not defined in file "
            "libnvJitLink.so.12 with link time reference"
        ),
        "nvjitlink-clash",
    ),
    ('all_reduce_perf: undefined symbol: "ncclCommWindowRegister"', "nccl-version-clash"),
    ("I have cupy-cuda117 and cupy-cuda12x installed", "multiple-cupy"),
    ("nvcc is 12.1 and torch.version.cuda is 11.7: the build stops for the mismatch", "nvcc-torch-mismatch"),
    ("CUDA 11.8 nvcc does not know compute_120", "toolkit-too-old-for-arch"),
    ("GTX 1080 Ti\nFeature 'cp.async' requires .target sm_80 or higher", "gpu-feature-unsupported"),
)
WELL = (
    "torch 2.3.0\n>>> torch.cuda.is_available()\nFalse\nmacOS 14.4",
    "print(torch.__version__)\nprint(torch.cuda.is_available())\n\n2.1.0+cu118\nTrue",
    "Intel Arc A770, the node asks for CUDA: Torch not compiled with CUDA enabled",
    "RX 7900 XTX (gfx1100), ROCm 6.2: ollama uses the CPU for some layers only",
    "Is it safe to have onnxruntime and onnxruntime-gpu in one environment?",
    "nvidia-cudnn-cu12==9.1.0.70\ntorch==2.5.1\nLD_LIBRARY_PATH=/usr/local/cuda/lib64\nRTX 4090",
    f"{WIN11}TensorFlow version: 2.10.1\nCUDA/cuDNN version: 11.2/8.1\n{LISTS_NONE}",
    "all works since I went from cupy-cuda11x to cupy-cuda12x",
)


@pytest.mark.parametrize(("text", "cause"), FAULTS)
def test_the_cause_is_named(text: str, cause: str) -> None:
    assert first(text)[0] == cause


@pytest.mark.parametrize("text", WELL)
def test_what_is_healthy_or_only_asked_has_no_cause(text: str) -> None:
    assert first(text)[0] is None


def test_a_tensorflow_names_the_cuda_it_looks_for_and_the_one_here() -> None:
    _, told = first(f"{WIN11}TensorFlow version: 2.1.0\nCUDA/cuDNN version: 10.2.89\n{LISTS_NONE}")

    assert "CUDA 10.1" in told
    assert "10.2.89" in told


def test_the_library_that_jax_finds_is_reported_in_versions_and_as_jax_says_it() -> None:
    _, told = first(
        "Found cuBLAS version 120103, but JAX was built against version 120304.\nnvidia-cublas-cu12 12.4.2.65"
    )

    assert "libcublas 12.1.3 instead of its own 12.3.4" in told
    assert "120304" in told


def test_the_two_nccl_of_a_listing_are_named() -> None:
    _, told = first(
        'perf: undefined symbol: "ncclCommWindowRegister"\n/opt/nccl/lib/libnccl.so.2 -> libnccl.so.2.27.0\n'
        "/usr/lib/x86_64-linux-gnu/libnccl.so.2 -> libnccl.so.2.23.4"
    )

    assert "2.23.4" in told
    assert "2.27.0" in told


def test_a_compiler_in_a_list_of_versions_is_read() -> None:
    _, told = first(
        "- gcc (Ubuntu 13.2.0-23ubuntu4) 13.2.0\n- cuda_12.1\n#error -- unsupported GNU version! gcc "
        "versions later than 12 are not supported!"
    )

    assert "GCC 13.2.0 is newer than CUDA 12.1 accepts" in told
