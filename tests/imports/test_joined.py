"""Facts from different places in a text are judged together; what is merely named, without a fault, is not blamed."""

from __future__ import annotations

import pytest

from gpustack.diagnose.engine import judge
from gpustack.model.report import Confidence, Health
from tests.imports.reading import MATRIX, read

SMI = (
    "| NVIDIA-SMI 535.129.03             Driver Version: 535.129.03   CUDA Version: 12.2     |\n"
    "|   0  NVIDIA GeForce RTX 4090        Off | 00000000:24:00.0 Off |                  Off |\n"
)
OTHER_CUDNN = "/opt/env/bin/../lib/libcudnn_ops_train.so.8"
NO_FIRMWARE = "amdgpu 0000:03:00.0: Direct firmware load for amdgpu/psp_13_0_10_sos.bin"
OUTDATED = (
    "E   Outdated cuDNN installation found.\nE   Version JAX was built against: 8907\n"
    "E   Minimum supported: 9100\nE   Installed version: 8907"
)
TORCH_DLL = r'Error loading "C:\env\Lib\site-packages\torch\lib\{}" or one of its dependencies.'


@pytest.mark.parametrize(
    ("text", "root"),
    [
        ("kernel module 550.90.07, user-space libraries 560.35.03", "driver-library-mismatch"),
        ("module 550.90, libs 560.35", "driver-library-mismatch"),
        ("fabricmanager 535.183.01 with driver 535.216.03 on an HGX H100", "fabric-manager-version-mismatch"),
        ("RTX 5090, proprietary driver 570.124, nvidia-smi: No devices were found", "closed-module-unsupported-gpu"),
        ("RTX 5070 Ti with nvidia-driver-570.\nnvidia-smi: No devices were found", "closed-module-unsupported-gpu"),
        ("I changed my GT 1030 to a RX 580 8GB\nRuntimeError: No CUDA GPUs are available", "cpu-only-build"),
        ("I use an AMD GPU\nRuntimeError: Found no NVIDIA driver on your system.", "cpu-only-build"),
        ("a Radeon 6700XT, clean Ubuntu\nRuntimeError: Found no NVIDIA driver on your system.", "cpu-only-build"),
        ("No module named 'torch' while installing unsloth. It is installed, really", "build-isolation-hides-torch"),
        ("uv builds the hadamard wheel\nModuleNotFoundError: No module named 'torch'", "build-isolation-hides-torch"),
        ("Value 'sm_61' is not defined for option 'cpu-architecture'\nCuda 7.5, GTX 1080", "toolkit-too-old-for-arch"),
        ("cudnnGetVersion() : 7102 , CUDNN_VERSION from cudnn.h : 7401 (7.4.1)", "cudnn-too-old"),
        (f"Could not load library libcudnn_cnn_train.so.8. Error: {OTHER_CUDNN}", "cudnn-two-copies"),
        (
            f"{NO_FIRMWARE} failed with error -2\n[drm] *ERROR* early_init of IP block <psp> failed -19",
            "gpu-firmware-missing",
        ),
        ("gcc-c++ is needed by nvidia-kmod-3:590.48\nakmods: Building rpms failed", "host-compiler-missing"),
        ("[802] Call to cuInit results in UNKNOWN_CUDA_ERROR", "fabric-manager-not-running"),
        (f"OSError: [WinError 126] {TORCH_DLL.format('c10.dll')}", "framework-import-fails"),
        (f"OSError: [WinError 127] {TORCH_DLL.format('shm.dll')}", "framework-import-fails"),
        (r"FileNotFoundError: Could not find module 'D:\x\torch\lib\caffe2_nvrtc.dll'", "framework-import-fails"),
        (OUTDATED, "cudnn-too-old"),
        ("torch 2.1.0, driver 450.80.02, is_available() is False", "driver-too-old-for-cuda-build"),
        ("driver 470 and pytorch cu121: False", "driver-too-old-for-cuda-build"),
        ("Treiber 470, torch 2.9 cu130", "driver-too-old-for-cuda-build"),
        ("nvidia-uvm/uvm_pmm_gpu.c:2631:5: 错误：隐式声明函数‘hmm_range_fault_begin’", "dkms-build-failed"),  # noqa: RUF001
    ],
)
def test_what_is_apart_is_judged_together(text: str, root: str) -> None:
    assert judge(read(text), MATRIX).verdict.root_causes[:1] == (root,)


@pytest.mark.parametrize(
    "text",
    [
        "module 550.90, libs 550.90.07",
        "the kernel module is 550.90.07 and the libraries are 550.90.07",
        "fabricmanager 535.183.01 with driver 535.183.01 on an HGX H100",
        "RTX 5090 with the proprietary driver 575.64, trains fine",
        "RTX 3090 with nvidia-driver-570, nvidia-smi: No devices were found",
        "RTX 5090 with nvidia-driver-570-open, nvidia-smi: No devices were found",
        "I changed my RX 580 to an RTX 3060\nRuntimeError: No CUDA GPUs are available",
        "torch 2.1.0, driver 535.54.03, is_available() is False",
        "cudnnGetVersion() : 7401 , CUDNN_VERSION from cudnn.h : 7401 (7.4.1)",
        "two Radeon VII that compute fine\namdgpu: Direct firmware load for amdgpu/vega20_ta.bin failed with error -2",
        "driver 535 and pytorch cu121: False",
    ],
)
def test_what_works_together_is_not_blamed(text: str) -> None:
    assert judge(read(text), MATRIX).verdict.root_causes == ()


def test_what_words_alone_say_is_likely_at_most() -> None:
    for text in (
        "module 550.90, libs 560.35",
        "fabricmanager 535.183.01 with driver 535.216.03 on an HGX H100",
        "I have an RX 580 and torch says No CUDA GPUs are available",
    ):
        report = judge(read(text), MATRIX)
        assert {one.confidence for one in report.findings if one.severity.value == "error"} == {Confidence.LIKELY}


def test_a_target_that_the_toolkit_dropped_is_the_first_candidate_where_no_such_gpu_is_here() -> None:
    report = judge(read("CUDA toolkit 13.0\nnvcc fatal   : Unsupported gpu architecture 'compute_50'"), MATRIX)
    assert report.candidates[0].id == "arch-dropped-by-toolkit"


@pytest.mark.parametrize(
    "complaint",
    [
        "torch does not see the GPU",
        "torch.cuda.is_available() False",
        "jax does not see the card",
        "but my program says there is no GPU",
        "ollama only uses the CPU",
        "nothing works since the update",
    ],
)
def test_a_table_of_nvidia_smi_beside_a_complaint_is_not_called_healthy(complaint: str) -> None:
    report = judge(read(f"{SMI}{complaint}\n"), MATRIX)
    assert report.verdict.status is Health.UNKNOWN
    assert report.candidates


@pytest.mark.parametrize(
    "text",
    [
        "(Worker_TP0) ERROR torch.OutOfMemoryError",
        "running on device #0 gfx1100\nPASSED!",
        "the current vLLM instance can use total_gpu_memory (8.00GiB) x gpu_memory_utilization (0.70) = 5.60GiB",
        "successful NUMA node read from SysFS had negative value (-1), so returning NUMA node zero\nNum GPUs: 1",
        '"is_cuda_available": "True"\nthe picture is all black',
        "training ends with a CUDA out-of-memory error at step 8900",
        "My training runs on an A5000 GPU and the loss is nan from the second epoch on. What is the reason?",
    ],
)
def test_a_gpu_that_a_program_has_reached_is_called_healthy(text: str) -> None:
    assert judge(read(text), MATRIX).verdict.status is Health.HEALTHY


@pytest.mark.parametrize(
    "text",
    [
        "training is slow since it does not use the GPU, the loss is fine",
        "torch.cuda.is_available() True, but for JAX: No GPU/TPU found, falling back to CPU",
        "my shapes are wrong",
    ],
)
def test_what_shows_no_gpu_at_work_is_not_called_healthy(text: str) -> None:
    assert judge(read(text), MATRIX).verdict.status is not Health.HEALTHY


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (
            (
                "site-packages/jax/lib/xla_bridge.py:130: No GPU/TPU found, falling back to CPU\n"
                "PhysicalDevice(name='/physical_device:GPU:0', device_type='GPU')"
            ),
            "cpu-only-build",
        ),
        ("llama-cpp-python on 2 Nvidia RTX A5000: AVX = 1 | WASM_SIMD = 0 | BLAS = 0 | SSE3 = 1", "cpu-only-build"),
        ("RTX2060, it says 2.0.0+cpu Autocast half", "cpu-only-build"),
        (
            (
                "envs/b/lib/python3.8/site-packages/deepspeed/ops/gemm_test.h:6:10: fatal error: cuda_profiler_api.h:"
                " No such file or directory"
            ),
            "cuda-toolkit-missing",
        ),
        ("/bin/sh: 1: /usr/local/cuda/bin/nvcc: not found", "cuda-toolkit-missing"),
        (
            (
                "bin C:\\Users\\me\\site-packages\\bitsandbytes\\libbitsandbytes_cpu.so\nCUDA SETUP: WARNING!"
                " libcuda.so not found!\nRuntimeError: CUDA Setup failed despite GPU being available."
            ),
            "bnb-binary-missing-for-cuda",
        ),
        (
            (
                "Python 3.10.6 (tags/v3.10.6:9c7b4bd) [MSC v.1932 32 bit (Intel)]\nERROR: Could not find a version that"
                " satisfies the requirement torch==2.0.1 (from versions: none)"
            ),
            "python-version-no-wheel",
        ),
        (
            "The third-party dynamic library (cudnn64_7.dll) that Paddle depends on is not configured correctly.",
            "cudnn-missing",
        ),
        (
            (
                "TensorFlow version: tensorflow-gpu-1.14.0\nCUDA version: 10.1\nGPU: Tesla K80\n"
                "tf.test.is_gpu_available returns False"
            ),
            "tf-cannot-dlopen",
        ),
        ('RTX 4090, slow since the update\nmsg="Dynamic LLM libraries" runners=[cpu cpu_avx]', "cpu-only-build"),
        ("OSError: libnvvm.so: cannot open shared object file: No such file or directory", "cuda-toolkit-missing"),
        ("ggml-cuda was compiled without support for the current GPU architecture.", "arch-not-in-build"),
        (
            (
                'Assertion `size >= bsize && "Mismatch between allocated memory size and expected size of serialized'
                " engine.\"' failed."
            ),
            "tensorrt-engine-version-mismatch",
        ),
    ],
)
def test_a_few_lines_of_a_program_name_the_cause(text: str, cause: str) -> None:
    assert judge(read(text), MATRIX).verdict.root_causes == (cause,)


@pytest.mark.parametrize(
    "text",
    [
        "BLAS = 0 | SSE3 = 1, 12 tokens per second",
        "RuntimeError: Could not find nvcc\nnvcc --version works:\nCuda compilation tools, release 12.8, V12.8.93",
    ],
)
def test_a_program_that_needs_no_gpu_or_misses_what_runs_is_not_blamed_on_the_machine(text: str) -> None:
    assert judge(read(text), MATRIX).verdict.root_causes == ()


@pytest.mark.parametrize("rate", ["about 100 MH/s", "FPS: 47.0", "6.52s/it", "38.2 tokens/s"])
def test_a_rate_beside_a_gpu_is_that_of_a_gpu_at_work(rate: str) -> None:
    assert judge(read(f"My RTX 3090 reports {rate}, is that expected?"), MATRIX).verdict.status is Health.HEALTHY
    assert judge(read(f"It reports {rate}, is that expected?"), MATRIX).verdict.status is not Health.HEALTHY
    slow = f"My RTX 3090 reports {rate}, the GPU is not used"
    assert judge(read(slow), MATRIX).verdict.status is not Health.HEALTHY
