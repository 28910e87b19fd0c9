"""Questions as people type them in forums and chats, each with an expert's answer."""

from __future__ import annotations

import pytest

from gpustack.ask.words import understood
from gpustack.matrix.subjects import serving
from gpustack.model.matrix_answer import Compatibility
from tests.ask.questions import MATRIX, why

WORKS, LIMITED, FAILS, UNKNOWN = (one.value for one in Compatibility)
# The typed question; the verdict, words that one of the reasons must contain, and words of the first plan.
TYPED = [
    ("ollama rtx 3060 driver 470", FAILS, "Ollama needs a driver branch from 550; given is driver 470", "580-open"),
    ("ollama driver 550 gtx 1060", FAILS, "Ollama needs a driver branch from 570", "nvidia-driver-580"),
    ("ollama rtx 4090 driver 570", WORKS, "neither a toolkit nor PyTorch", ""),
    ("torch 2.2 numpy 2.1", FAILS, "does not know NumPy 2", ""),
    ("tensorflow 2.15 with numpy 2", FAILS, "needs numpy <2.0.0", ""),
    ("nvidia 550 kernel 6.14", WORKS, "needs Linux 3.10 to 6.15", ""),
    ("nvidia 535.54.03 kernel 6.14", UNKNOWN, "needs Linux 3.10 to 6.3, the newest that is known", ""),
    ("nvidia 470.82 kernel 6.12", FAILS, "needs a kernel before Linux 6.12", "nvidia-driver-580"),
    ("ollama tesla k80", FAILS, "compute capability 5.0 or newer", ""),
    ("ollama amd rx 7900xt", WORKS, "given is gfx1100", ""),
    ("ollama on rx 6600", FAILS, "given is gfx1032", ""),
    ("can i run llama.cpp on gtx 1060", WORKS, "nvcc compiles it for the GPU", ""),
    ("llama-cpp-python cuda 12.4 gcc 14", FAILS, "needs GCC 6 to 13", "gcc-13"),
    ("llama.cpp cuda 11.4 rtx 4090", FAILS, "CUDA from 11.8 on to compile for sm_89", "cuda-toolkit-11-8"),
    ("comfyui on rtx 5070", WORKS, "ComfyUI needs torch >=2.4", ""),
    ("comfyui driver 535 4090", FAILS, "needs driver 580.65.06", "torch==2.14.1+cu126"),
    ("comfyui amd 7800xt linux", FAILS, "a ROCm build for gfx1101", "torch==2.14.1+rocm"),
    ("unsloth on rtx 2060", FAILS, "Unsloth needs torch >=2.4,<2.15", "torch==2.14.1"),
    ("unsloth gtx 1080", FAILS, "Unsloth needs compute capability 7.0 or newer", ""),
    ("fp8 on a100", FAILS, "FP8 needs compute capability 8.9", ""),
    ("does l40s do fp8", WORKS, "compute capability 8.9", ""),
    ("bf16 on t4", FAILS, "BF16 needs compute capability 8.0", ""),
    ("nvfp4 on rtx 5090", WORKS, "compute capability 10.0", ""),
    ("flash attn 3 a100", FAILS, "made for Hopper alone", ""),
    ("flash attention 2 turing 2080ti", FAILS, "FlashAttention 1.x and xFormers", ""),
    ("arc a770 ipex", FAILS, "it is retired", "+xpu"),
    ("radeon 780m torch", FAILS, "a ROCm build for gfx1103", "+rocm"),
    ("rx 6600 pytorch rocm", FAILS, "a ROCm build for gfx1032", "HSA_OVERRIDE_GFX_VERSION=10.3.0"),
    ("rx6600 torch", FAILS, "gfx1032", "HSA_OVERRIDE_GFX_VERSION=10.3.0"),
    ("vllm mi300x", FAILS, "a GPU of NVIDIA", "vllm==0.18.0+rocm700 --extra-index-url https://wheels.vllm.ai/rocm"),
    ("torch on mac m2", WORKS, "through Metal: device `mps`", ""),
    ("torch on macbook pro m3 max", WORKS, "no CUDA", ""),
    ("m1 macbook cuda 12", FAILS, "no NVIDIA driver for macOS", ""),
    ("vllm on mac studio", FAILS, "no CUDA", ""),
    ("tensorflow mac m1", LIMITED, "wheels for macOS", ""),
    ("ollama mac mini", WORKS, "through Metal", ""),
    (
        "driver 550 wsl",
        WORKS,
        "the driver is that of Windows, and none is installed in its Linux. 551.78 runs CUDA up to 12.4",
        "",
    ),
    ("win11 torch 2.9 rtx 3080 driver 537", LIMITED, "needs driver 528.33", ""),
    ("which torch for cuda 12.2 gcc 13", LIMITED, "installed as a wheel and needs no compiler", "gcc-12"),
    ("sglang==0.5.20", LIMITED, "pins cuda-tile 1.6.0rc5", ""),
    ("ubuntu 18.04 torch 2.7", FAILS, "glibc 2.28 or newer; given is glibc 2.27", "torch==2.6.0"),
    ("rhel 8 vllm 0.20", FAILS, "glibc 2.35 or newer; given is glibc 2.28", "vllm=="),
    ("ubuntu 20.04 torch 2.8", WORKS, "given is glibc 2.31", ""),
    ("nvidia-smi says 12.2 which torch", FAILS, "given is driver 535", "torch==2.14.1+cu126"),
    ("triton 3.2 torch 2.5", FAILS, "needs triton ==3.1.0", "triton==3.1.0"),
    ("nccl 2.21 torch 2.6", WORKS, "nvidia-nccl-cu12 ==2.21.5", ""),
    ("tf 2.16 cuda 11.8", UNKNOWN, "TensorFlow 2.16.2 needs libraries of CUDA 12", "2.14.1"),
    ("deepspeed torch 2.7 cuda 12.8", LIMITED, "pip compiles it", ""),
    ("does ollama need cuda toolkit? rtx 4070 driver 560", WORKS, "neither a toolkit nor PyTorch", ""),
    ("mps backend torch 2.6 macbook air m4", WORKS, "through Metal", ""),
    ("tensorrt 10 p100", FAILS, "needs compute capability 7.5", ""),
    ("cuda 12.6 ubuntu 18.04", UNKNOWN, "for which releases of this distribution", ""),
    ("cudnn 9 torch 2.6", WORKS, "given is cuDNN 9", ""),
    ("sglang on rtx 3090 ubuntu 20.04", FAILS, "glibc 2.34 or newer; given is glibc 2.31", "sglang==0.5.10"),
    ("can rtx 3090 do fp8 training", FAILS, "FP8 needs compute capability 8.9", ""),
    ("2x3090 vllm driver 525", FAILS, "given is a GPU of sm_86", "vllm==0.19.1"),
]


@pytest.mark.parametrize(("typed", "verdict", "says", "plan"), TYPED, ids=[one[0] for one in TYPED])
def test_a_typed_question_gets_the_answer_of_an_expert(typed: str, verdict: str, says: str, plan: str) -> None:
    answer = why(typed)
    assert answer.verdict.value == verdict
    assert any(says in one.text for one in answer.reasons), [one.text for one in answer.reasons]
    first = answer.alternatives[0] if answer.alternatives else None
    assert plan in (" ".join(first.commands) if first else "")
    assert not any(one.text.startswith("Nothing is known about") for one in answer.reasons)


@pytest.mark.parametrize(
    ("typed", "subjects", "system"),
    [
        ("my 4060ti laptop wont run torch 2.9 whats wrong", ("torch==2.9", "4060ti"), None),
        ("8xh100 sglang", ("sglang", "h100"), None),
        ("wsl2 ubuntu 22.04 driver 535 torch 2.9", ("torch==2.9", "driver==535"), "wsl"),
        ("tesla m4 torch 2.6", ("torch==2.6", "tesla m4"), None),  # not an Apple chip
        ("gtx 780m torch", ("torch", "gtx 780m"), None),  # not a model with 780 million parameters, nor AMD's 780M
    ],
)
def test_words_of_a_chat_are_read_as_they_are_meant(typed: str, subjects: tuple[str, ...], system: str | None) -> None:
    asked = understood((typed,), MATRIX)
    assert (asked.subjects, asked.os) == (subjects, system)
    assert not {*asked.strange} - {"wrong"}


def test_a_package_that_the_matrix_does_not_know_is_not_taken_for_one_that_it_knows() -> None:
    """The answer to Transformers was: did you mean transformer-engine?"""
    assert not any("Did you mean" in one.text for one in why("transformers torch 2.4").reasons)


def test_a_program_with_a_release_is_unknown_where_its_row_is_of_today() -> None:
    assert why("ollama==0.1.5", gpu="RTX 3060").verdict is Compatibility.UNKNOWN


def test_the_formats_have_tensor_cores_from_the_architecture_on_that_their_row_states() -> None:
    for one in serving.programs(MATRIX):
        rates = [cc for cc, arch in MATRIX.architectures.items() if one.component in arch.rates]
        if rates:
            assert one.capability == min(rates), one.component
    assert {"fp4", "fp8", "bf16", "tf32"} <= {one.component for one in serving.programs(MATRIX)}


def test_no_plan_for_macos_names_a_driver_or_cuda() -> None:
    for subject in ("torch", "vllm", "jax", "cuda==12.4", "driver==550"):
        assert not why(subject, os="macos").alternatives
