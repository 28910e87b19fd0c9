"""Pasted text about compiled extensions, GPUs too old, Pythons and glibc, and the cause that is named."""

from __future__ import annotations

import pytest

from gpustack.model.report import Severity
from tests.diagnose.test_framework_from_text import report, roots, told

SYMBOL = "_ZN3c104impl3cow11cow_deleterEPv"


@pytest.mark.parametrize(
    ("text", "mentions"),
    [
        (
            "ImportError: libcudart.so.12: cannot open shared object file\nflash-attn==2.7.4\ntorch==2.0.1+cu118",
            ("11.8",),
        ),
        (
            "ImportError: libcublas.so.12: cannot open shared object file\nvllm==0.17.1\ntorch==2.10.0+cu130",
            ("vllm", "cu129"),
        ),
    ],
)
def test_a_wheel_for_another_cuda_than_torch_is_named(text: str, mentions: tuple[str, ...]) -> None:
    assert roots(text) == ("cuda-major-mismatch-wheel",)
    assert all(one in told(text) for one in mentions)


def test_a_library_of_torchs_own_major_accuses_no_wheel() -> None:
    text = "ImportError: libcudart.so.12: cannot open shared object file\nvllm==0.6.3\ntorch==2.4.0+cu121"
    assert "cuda-major-mismatch-wheel" not in roots(text)


def test_bitsandbytes_without_a_binary() -> None:
    text = "Could not find the bitsandbytes CUDA binary at /libbitsandbytes_cuda128.so\nbitsandbytes==0.44.1"
    assert roots(text) == ("bnb-binary-missing-for-cuda",)
    assert "12.8" in told(text)
    assert "0.45.5" in told(text)


def test_bitsandbytes_beside_a_cpu_build_of_torch_is_not_at_fault() -> None:
    text = "torch==2.4.0+cpu\nRTX 3060\nThe installed version of bitsandbytes was compiled without GPU support."
    assert roots(text) == ("cpu-only-build",)


@pytest.mark.parametrize(
    ("text", "mentions"),
    [
        (
            f"flash_attn_2_cuda.so: undefined symbol: {SYMBOL}\nflash-attn 2.5.6, torch 2.2.0",
            ("2.5.6", "2.2.0", SYMBOL),
        ),
        (
            "DLL load failed while importing flash_attn_2_cuda: The specified procedure could not be found.",
            ("flash-attn",),
        ),
        ("xFormers was built for:\n    PyTorch 2.0.1+cu118 with CUDA 1108 (you have 2.1.0+cu118)", ("2.0.1", "2.1.0")),
        (
            "libtorch_cuda_cu.so: cannot open shared object file\nmmcv-full==1.7.0\ntorch==2.0.0+cu118",
            ("mmcv-full 1.7.0",),
        ),
    ],
)
def test_an_extension_for_another_torch_is_named(text: str, mentions: tuple[str, ...]) -> None:
    assert roots(text) == ("extension-abi-mismatch",)
    assert all(one in told(text) for one in mentions)


def test_xformers_for_another_cuda_of_the_same_torch_is_installed_from_the_index_of_that_cuda() -> None:
    text = "xFormers was built for:\n    PyTorch 2.1.0+cu121 with CUDA 1201 (you have 2.1.0+cu118)"
    assert roots(text) == ("cuda-major-mismatch-wheel",)
    (finding,) = (one for one in report(text).findings if one.id == "cuda-major-mismatch-wheel")
    assert finding.fix
    assert finding.fix.commands[0].endswith("xformers==0.0.22.post7 --index-url https://download.pytorch.org/whl/cu118")
    assert roots(text.replace("+cu118", "+cu124")) == ("extension-abi-mismatch",)


def test_wheels_of_pytorch_geometric_for_another_torch_are_named_where_a_symbol_is_missing() -> None:
    text = "pip install torch-sparse -f https://data.pyg.org/whl/torch-1.11.0+cu115.html\ntorch 1.12.1\n"
    assert roots(f"{text}undefined symbol, _spmm_cpu.so") == ("extension-abi-mismatch",)
    assert "torch-1.12.1+cu115.html" in told(f"{text}undefined symbol, _spmm_cpu.so")
    assert roots(text) == ()
    assert roots(text.replace("1.11.0", "1.12.0") + "undefined symbol, _spmm_cpu.so") == ()


@pytest.mark.parametrize("symbol", ["ncclMemFree", "__nvJitLinkComplete_12_4", "cublasLtGetStatusString"])
def test_symbols_of_libraries_accuse_no_extension(symbol: str) -> None:
    assert "extension-abi-mismatch" not in roots(f"ImportError: /x/libtorch_cuda.so: undefined symbol: {symbol}")


@pytest.mark.parametrize(
    ("text", "mentions"),
    [
        ("FlashAttention only supports Ampere GPUs or newer.\nTesla V100-SXM2-32GB", ("7.0", "8.0", "FlashAttention")),
        ("Your setup doesn't support bf16/gpu.\nGTX 1080 Ti", ("6.1", "bf16", "fp16")),
        (
            (
                "Found Tesla P40 which is too old to be supported by the triton GPU compiler, which is "
                "used as the backend."
                " Triton only supports devices of CUDA Capability >= 7.0, but your device is of CUDA capability 6.1"
            ),
            ("6.1", "7.0"),
        ),
        ("type fp8e4nv not supported in this architecture.\nNVIDIA A100-SXM4-80GB", ("8.0", "8.9")),
    ],
)
def test_a_gpu_too_old_for_a_feature_is_named(text: str, mentions: tuple[str, ...]) -> None:
    assert roots(text) == ("gpu-feature-unsupported",)
    assert all(one in told(text) for one in mentions)


@pytest.mark.parametrize(
    "text",
    [
        "Cannot use FlashAttention-2 backend for Volta and Turing GPUs.\nTesla T4",
        "Casting torch.bfloat16 to torch.float16.\nTesla T4",
        "RuntimeError: FlashAttention only support fp16 and bf16 data type\nNVIDIA A100-SXM4-80GB",
        "Your setup doesn't support bf16/gpu.\nNVIDIA A100-SXM4-80GB",
    ],
)
def test_what_a_program_settles_by_itself_or_the_gpu_can_is_not_a_fault_of_the_gpu(text: str) -> None:
    assert "gpu-feature-unsupported" not in roots(text)


NONE_LEFT = "ERROR: Could not find a version that satisfies the requirement {} (from versions: {})"


@pytest.mark.parametrize(
    ("text", "mentions"),
    [
        (f"Python 3.12.1\n{NONE_LEFT.format('tensorflow==2.12.0', '2.16.1, 2.17.0')}", ("3.12", "3.11", "2.12.0")),
        ("ERROR: Package 'vllm' requires a different Python: 3.13.1 not in '<3.13,>=3.9'", ("vllm", "3.13.1", "3.12")),
        (
            "torch-1.10.0-cp39-cp39-linux_x86_64.whl is not a supported wheel on this platform.\nPython 3.10",
            ("3.9",),
        ),
        (
            (
                "Because vllm==0.8.5 depends on Python>=3.9,<3.13 and the current Python version (3.13.2) "
                "does not satisfy"
                " Python>=3.9,<3.13, it cannot be used."
            ),
            ("0.8.5", "3.13.2"),
        ),
    ],
)
def test_a_python_without_wheels_is_named(text: str, mentions: tuple[str, ...]) -> None:
    assert roots(text) == ("python-version-no-wheel",)
    assert all(one in told(text) for one in mentions)


def test_a_python_that_has_wheels_is_not_at_fault() -> None:
    assert roots(f"Python 3.10.4\n{NONE_LEFT.format('torch==2.3.0+cu121', '2.2.0, 2.3.0')}") == ()


@pytest.mark.parametrize(
    ("text", "mentions"),
    [
        (
            "/lib64/libm.so.6: version `GLIBC_2.29' not found (required by /x/libtf.so.2)\nldd (GNU libc) 2.17",
            ("2.17",),
        ),
        (
            (
                "vllm-0.12.0-cp38-abi3-manylinux_2_31_x86_64.whl is not a supported wheel on this "
                "platform.\nldd (GNU libc) 2.28\n"
                "Python 3.11.4"
            ),
            ("2.31", "2.28"),
        ),
        (
            "abc-1-cp310-cp310-manylinux_2_31_x86_64.whl is not a supported wheel on this platform\nrocky8",
            ("2.31",),
        ),
    ],
)
def test_a_glibc_that_is_too_old_is_named(text: str, mentions: tuple[str, ...]) -> None:
    assert roots(text) == ("glibc-too-old",)
    assert all(one in told(text) for one in mentions)


def test_a_complaint_weighs_more_than_what_follows_from_versions() -> None:
    text = "torch==2.5.1\ntorchvision==0.16.0\nRTX 3090"
    found = {one.id: one.severity for one in report(text).findings}
    said = {one.id: one.severity for one in report(f"{text}\noperator torchvision::nms does not exist").findings}
    assert found["torch-torchvision-mismatch"] is Severity.WARNING
    assert said["torch-torchvision-mismatch"] is Severity.ERROR


def test_a_program_that_is_not_pytorch_is_rebuilt_in_its_own_way() -> None:
    ggml = report(
        "CUDA kernel mul has no device code compatible with CUDA arch 600. ggml-cuda.cu was compiled for: 610,700"
    )
    paddle = report(
        "Mismatched GPU Architecture: The installed PaddlePaddle package was compiled for 75 80 86 ,"
        "but your current GPU is 120"
    )
    built, page = (one.findings[0].fix for one in (ggml, paddle))
    assert built is not None
    assert page is not None
    assert "-DCMAKE_CUDA_ARCHITECTURES=60 " in built.commands[0]
    assert "paddlepaddle.org.cn" in page.text
    assert "sm_120" in paddle.findings[0].title


def test_a_module_of_amd_that_does_not_build_is_not_called_nvidias() -> None:
    (found,) = report(
        "Creating symlink /var/lib/dkms/v4l2loopback/0.12.7/source -> /usr/src/v4l2loopback-0.12.7\n"
        "DKMS make.log for amdgpu-6.8.5 for kernel 6.14.0-15-generic (x86_64)\n"
        "/tmp/amd.abc/amd/amdgpu/amdgpu_drv.c:10:5: error: implicit declaration of function 'drm_setup'"
    ).findings
    assert "amdgpu 6.8.5 does not build for kernel 6.14.0-15-generic" in found.title
    assert found.fix
    assert "the kernel's own amdgpu" in found.fix.text
    assert found.fix.verify == "dkms status"
