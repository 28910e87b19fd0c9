"""Pasted text about packages and libraries that conflict, and the one cause that is named."""

from __future__ import annotations

import pytest

from tests.diagnose.test_framework_from_text import roots, told

NO_FILE = "cannot open shared object file: No such file or directory"
CUDNN_FAILS = "RuntimeError: cuDNN error: CUDNN_STATUS_NOT_INITIALIZED"
NO_CUSPARSE = "RuntimeError: Unable to load cuSPARSE. Is it installed?"
PTX = "[cudaErrorUnsupportedPtxVersion] the provided PTX was compiled with an unsupported toolchain."
VISION = "torchvision/_C.so: undefined symbol: _ZN2at11getNonVariableTypeEN3c107BackendENS0_10ScalarTypeE"


@pytest.mark.parametrize(
    ("slug", "text", "mentions"),
    [
        ("duplicate-torch-install", f"torch and torch-nightly are installed side by side\n{VISION}", ("nightly",)),
        ("duplicate-torch-install", "I have both pytorch 1.0 and pytorch-nightly installed with conda", ("nightly",)),
        (
            "duplicate-torch-install",
            "pip list shows torch 2.3.1, but python imports 1.13.1 from ~/.local/lib/python3.10/site-packages",
            ("2.3.1", "1.13.1", ".local"),
        ),
        (
            "cuda-major-mismatch-wheel",
            f"    from sgl_kernel import common_ops\nImportError: libcudart.so.13: {NO_FILE}\nsgl-kernel==0.3.20",
            ("sgl-kernel", "CUDA 13", "libcudart.so.13"),
        ),
        (
            "cuda-major-mismatch-wheel",
            f"vllm 0.2.2\nfrom vllm import cuda_utils\nImportError: libcudart.so.12: {NO_FILE}",
            ("vllm 0.2.2", "CUDA 12"),
        ),
        ("cuda-runtime-missing", f"from myprogram import ops\nImportError: libcudart.so.12: {NO_FILE}", ("CUDA 12",)),
        (
            "ptx-newer-than-driver",
            f"CUDA Runtime Version: 12020\nDriver Version: 535.183.01\n{PTX}\nnvcc is of cuda 12.6",
            ("CUDA 12.6", "535.183.01"),
        ),
        (
            "ptx-newer-than-driver",
            f"Driver Version: 535.183.01\n{PTX}\nThe kernel was compiled with nvcc from CUDA 12.6",
            ("CUDA 12.6", "535.183.01"),
        ),
        (
            "ort-cpu-and-gpu-installed",
            (
                "pip uninstall onnxruntime\nAttributeError: module 'onnxruntime' has no attribute 'InferenceSession'\n"
                "onnxruntime-gpu==1.17.1"
            ),
            ("onnxruntime-gpu", "empty"),
        ),
        (
            "ort-cpu-and-gpu-installed",
            "onnxruntime==1.16.0\nonnxruntime-gpu==1.16.0\nCUDAExecutionProvider is not among the providers",
            ("onnxruntime-gpu", "1.16.0"),
        ),
        ("ort-cpu-and-gpu-installed", "onnxruntime was already installed, then onnxruntime-gpu", ("onnxruntime-gpu",)),
        (
            "nvjitlink-clash",
            (
                f"{NO_CUSPARSE}\n   881:\t  trying file=/usr/local/cuda-12.0/lib64/libnvJitLink.so.12\n"
                "   881:\tcalling init: /usr/local/cuda-12.0/lib64/libnvJitLink.so.12"
            ),
            ("cuda-12.0", "libnvJitLink.so.12"),
        ),
        ("nvjitlink-clash", f"LD_LIBRARY_PATH=/apps/cuda/12.2/lib64\njax 0.5.0\n{NO_CUSPARSE}", ("/apps/cuda/12.2",)),
        (
            "cudnn-shadowed-by-ld-library-path",
            f"nvidia-cudnn-cu12==9.1.0.70\n{CUDNN_FAILS}\n 12:\tcalling init: /opt/cudnn-8.9/lib/libcudnn.so.9",
            ("/opt/cudnn-8.9", "9.1.0.70"),
        ),
        (
            "cudnn-two-copies",
            "CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH\nlibcudnn9-cuda-12 9.5.1\nnvidia-cudnn-cu12==9.1.0.70",
            ("9.5.1", "9.1.0"),
        ),
        (
            "jax-plugin-mismatch",
            "jaxlib 0.4.36 is not compatible with jax-cuda12-plugin 0.4.35, no GPU",
            ("0.4.36", "0.4.35"),
        ),
        ("nvcc-torch-mismatch", "nvcc is 12.6 but torch was built with cu118: apex fails", ("12.6", "11.8")),
    ],
)
def test_what_is_in_the_way_is_the_one_cause(slug: str, text: str, mentions: tuple[str, ...]) -> None:
    assert roots(text) == (slug,)
    found = told(text)
    assert [one for one in mentions if one not in found] == []


@pytest.mark.parametrize(
    "text",
    [
        "Should I install torch and torch_nightly together?",
        "torch 2.5.1 works; I removed pytorch-nightly before. Loss is nan.",
        "We tested both torch 2.5 and torch-nightly: the same NaN in the loss",
        "onnxruntime is already installed; onnxruntime-gpu is not needed, the CPU is enough",
        "AttributeError: module 'onnxruntime' has no attribute 'get_device'\na file onnxruntime.py lay in my folder",
        "libnvJitLink.so.12 => /usr/local/cuda-12.4/lib64/libnvJitLink.so.12 (0x00007f)\ntorch 2.6.0+cu124 works",
        "LD_LIBRARY_PATH=/usr/local/cuda/lib64\njax works with 8 GPUs",
        "nvcc 12.4 but torch cu121: building works, only a warning",
        "from vllm import LLM\nValueError: max seq len is larger than the KV cache",
    ],
)
def test_what_merely_sounds_alike_is_not_a_fault(text: str) -> None:
    assert roots(text) == ()
