"""A gap is not a pass: a row decides each pair that was given, or the answer names the missing row."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given as drawn
from hypothesis import settings
from hypothesis import strategies as some

from gpustack.ask.pairs import related
from gpustack.errors import UsageError
from gpustack.model.matrix_answer import Compatibility
from tests.ask.questions import command, judged, verdict, why
from tests.counting import each

WORKS, LIMITED, FAILS, UNKNOWN = (one.value for one in Compatibility)
# The question, the right answer, and the words that its first reason must contain.
QUESTIONS = [
    # vLLM 0.19.0 pins torch 2.10.0; 0.18.99 has no row, and the row on its GPUs says nothing about its torch
    (("vllm==0.19.0", "torch==2.9.1"), {"driver": "580.95.05", "gpu": "sm_90"}, FAILS, "needs torch ==2.10.0"),
    (("vllm==0.19.0", "torch==2.10.0"), {"driver": "580.95.05", "gpu": "sm_90"}, WORKS, ""),
    (("vllm==0.18.99", "torch==2.9.1"), {}, UNKNOWN, "no row for vllm 0.18.99"),
    (
        ("vllm==0.18.99", "torch==2.9.1"),
        {"driver": "580.95.05", "gpu": "sm_90"},
        UNKNOWN,
        "No row for vLLM 0.18.99 → PyTorch 2.9.1",
    ),
    # the open kernel module was introduced with branch 515
    (("nvidia-driver==390.157",), {"kernel_module": "open"}, FAILS, "branch 515 or newer"),
    (("nvidia-driver==580.95.05",), {"kernel_module": "open"}, WORKS, ""),
    (("nvidia-driver==470.256.02",), {"kernel_module": "open", "gpu": "A100"}, FAILS, "branch 515 or newer"),
    # jaxlib 0.7.0 has wheels up to 3.13, 0.7.1 the first for 3.14; its range of Pythons is open-ended
    (("jax==0.7.0",), {"python": "3.14"}, FAILS, "needs Python 3.11 to 3.13"),
    (("jax==0.7.1",), {"python": "3.14"}, WORKS, ""),
    # a release between two rows: there was no jaxlib 0.4.37
    (("jax==0.4.37",), {"python": "3.12"}, UNKNOWN, "no release of this number"),
    # what cannot be installed: the release of another distribution, a stub, and what requires something withdrawn
    (("flash-attn==4.0.0b36",), {}, UNKNOWN, "no flash-attn 4.0.0b36: flash-attn-4 has it"),
    (("flash-attention==4.0.0b36",), {}, UNKNOWN, "no flash-attn 4.0.0b36: flash-attn-4 has it"),
    (("tensorflow-gpu==2.12.0",), {"gpu": "A100", "python": "3.10"}, FAILS, "a source archive without code"),
    (("tensorflow-gpu==2.10.1",), {"gpu": "A100", "python": "3.10"}, WORKS, ""),
    (("tensorflow-gpu==2.13.0",), {"gpu": "A100", "python": "3.10"}, FAILS, "tensorflow-gpu 2.13.0 does not exist"),
    (("tensorflow-gpu",), {"gpu": "A100", "python": "3.10"}, FAILS, "tensorflow-gpu 2.12.0 is a source archive"),
    (("cudf-cu12==24.8.1",), {"python": "3.12"}, UNKNOWN, "has only its source archive"),
    # a distribution by its own releases, newest first: those of cuDNN for CUDA 12 end earlier
    (("nvidia-cudnn-cu13>=9.28",), {"python": "3.12"}, WORKS, "cuDNN 9.28.1.4 (cu13)"),
    (("cudf-cu12==26.10.2",), {"python": "3.10"}, FAILS, "cudf-cu12 26.10.2 needs Python 3.11 or newer (with the GIL)"),
    (("openvino==2026.4.1",), {"python": "3.9"}, FAILS, "needs Python 3.10"),
    (("ctranslate2==4.8.5",), {"python": "3.8"}, FAILS, "needs Python 3.9"),
    # what METADATA requires once more for extras is said once
    (("jax==0.10.1", "jaxlib==0.10.1"), {}, WORKS, "needs jaxlib <=0.10.1,>=0.10.1; given is"),
    # only source archives: pip compiles them
    (("llama-cpp-python==0.3.1",), {"python": "3.13"}, LIMITED, "llama-cpp-python 0.3.1 needs Python >=3.8"),
    (("llama-cpp-python",), {"python": "3.13", "gpu": "T4"}, LIMITED, "needs Python >=3.8"),
    # the toolkit that nvcc is of, whatever release of the wheels has its number
    (("cuda==12.2.91",), {"clang": "15"}, WORKS, ""),
    (("vllm==0.6.3.post1",), {"gpu": "A100", "driver": "570.195.03"}, LIMITED, "no longer on the package index"),
    # on aarch64 the package index served builds for the CPU up to 2.10
    (("torch==2.9.0",), {"gpu": "GH200"}, FAILS, "it is a build for cpu"),
    (("torch==2.9.0", "GB300"), {}, FAILS, "it is a build for cpu"),
    (("torch==2.9.0",), {"gpu": "GH200", "machine": "x86_64"}, WORKS, ""),
    (("torch==2.9.0",), {"gpu": "H100", "machine": "aarch64"}, FAILS, "it is a build for cpu"),
    (("torch==2.9.0+cu128",), {"gpu": "GH200"}, UNKNOWN, "its list of code was not read"),
    (("torch==2.11.0",), {"gpu": "GH200", "driver": "580.95.05", "python": "3.12"}, WORKS, ""),
    # Blackwell Ultra needs branch 580, Blackwell 570
    (("torch==2.9.1",), {"gpu": "B300", "driver": "570.195.03"}, FAILS, "needs a driver branch from 580"),
    (("torch==2.9.1",), {"gpu": "sm_103", "driver": "570.195.03"}, FAILS, "needs a driver branch from 580"),
    (("torch==2.9.1",), {"gpu": "B200", "driver": "570.195.03"}, WORKS, ""),
    (("torch==2.9.1",), {"gpu": "B300", "driver": "580.95.05"}, WORKS, ""),
    # a driver of the right branch, but older than the first that lists the product
    (("torch==2.7.1",), {"gpu": "H200 NVL", "driver": "535.183.01"}, UNKNOWN, "to be listed"),
    # bitsandbytes loads the library for exactly this CUDA; from 0.50 on, the nearest one of the same major
    (("bitsandbytes==0.45.5", "torch==2.9.0+cu130"), {}, FAILS, "needs a torch for CUDA 11.7"),
    (("bitsandbytes==0.45.5", "torch==2.9.0+cu128"), {}, WORKS, ""),
    (("bitsandbytes==0.50.2", "torch==2.8.0+cu129"), {}, LIMITED, ""),
    # JAX runs with the CUDA of its wheels; this toolkit's nvcc is too old to be used instead
    (("jax", "cuda==12.1"), {}, LIMITED, "needs nvcc >=12.6.85"),
    (("jax==0.9.0", "cuda==12.8"), {}, WORKS, ""),
    (("jax==0.4.20", "cuda==12.3"), {}, UNKNOWN, "No row"),
    # monthly Triton images: the CUDA inside decides which driver is needed; a month without a row decides nothing
    (("tritonserver==24.08",), {"driver": "470.82"}, FAILS, "needs driver 525.60.13 or newer"),
    (("tritonserver==24.08",), {"driver": "535.54"}, LIMITED, "minor-version compatibility"),
    (("tritonserver==24.03",), {"driver": "535.54"}, UNKNOWN, "no row for tritonserver 24.03"),
    (("tritonserver==25.01",), {"driver": "570.86.15", "gpu": "P100"}, FAILS, "needs compute capability 7.5"),
    # extensions that pin their PyTorch
    (("torch-tensorrt==2.13.0", "torch==2.12.0"), {}, FAILS, "needs torch >=2.13,<2.14"),
    (("torch-tensorrt==2.13.0", "torch==2.13.0"), {}, WORKS, ""),
    (("intel-extension-for-pytorch==2.8.10+xpu", "torch==2.7.0+xpu"), {}, FAILS, "needs torch ==2.8.*"),
    (("megatron-core==0.15.3", "torch==2.4.0"), {}, FAILS, "needs torch >=2.6.0"),
    # ROCm with a GPU and nothing else
    (("rocm==6.2",), {"gpu": "RX 7900 XTX"}, WORKS, ""),
    (("rocm==6.2",), {"gpu": "MI60"}, LIMITED, "deprecated"),
    (("rocm==7.0",), {"gpu": "gfx1031"}, UNKNOWN, "no statement known"),
    # free-threaded Pythons are judged separately
    (("torch==2.9.0",), {"python": "3.14t"}, WORKS, ""),
    (("torch==2.8.0",), {"python": "3.14t"}, FAILS, "without the GIL"),
    (("torch==2.8.0",), {"python": "3.13t"}, WORKS, ""),
    (("torch==2.14.1",), {"python": "3.13t"}, FAILS, "without the GIL"),
    (("vllm==0.19.0",), {"python": "3.13t"}, FAILS, "needs Python 3.8 or newer (with the GIL)"),
    (("jax==0.9.0",), {"gpu": "GH200", "python": "3.14t"}, WORKS, ""),
    (("tgi==3.3.7",), {"python": "3.11"}, WORKS, ""),
    (("tensorrt-llm==0.20.0",), {"python": "3.12t"}, UNKNOWN, ""),
    # processors
    (("vllm==0.9.2",), {"machine": "aarch64"}, FAILS, "needs Linux on x86_64"),
    (("vllm==0.24.0",), {"gpu": "GH200"}, UNKNOWN, "on aarch64 → GPU"),
    (("vllm==0.19.0",), {"gpu": "GH200"}, FAILS, "PyTorch 2.10.0 needs a CUDA build"),
    (("onnxruntime-gpu==1.22.0",), {"machine": "aarch64"}, FAILS, "needs Linux on x86_64"),
    (("tensorflow==2.18.0",), {"gpu": "GH200"}, UNKNOWN, "on aarch64 → GPU"),
    (("flash-attn==2.8.3", "torch==2.8.0"), {"machine": "aarch64"}, LIMITED, "pip compiles it"),
    (("cuda==12.8",), {"machine": "aarch64"}, UNKNOWN, "→ aarch64"),
    (("cuda==12.8",), {"machine": "x86_64", "gpu": "H100"}, WORKS, ""),
    (("cuda==12.8",), {"gpu": "GH200"}, WORKS, ""),
    # a server brings the torch that it pins, in the usual build
    (("vllm==0.9.2",), {"gpu": "RTX 5090"}, FAILS, "PyTorch 2.7.0 needs code for sm_120"),
    (("sglang==0.4.10",), {"python": "3.14"}, FAILS, "PyTorch 2.7.1 needs Python 3.9 to 3.13"),
    # two frameworks share the CUDA library wheels, and no row says which versions work together
    (("torch==2.11.0", "jax==0.9.0"), {"driver": "580.95.05"}, UNKNOWN, "JAX 0.9.0"),
    (("vllm==0.9.2", "sglang==0.4.10"), {"gpu": "H100"}, FAILS, "sglang 0.4.10 needs torch ==2.7.1; it brings"),
    (("vllm==0.18.99", "sglang==0.4.10"), {"gpu": "H100"}, UNKNOWN, "No row for vLLM 0.18.99 → sglang 0.4.10"),
    (("transformer-engine==2.18.0", "torch==2.11.0"), {"gpu": "H100"}, UNKNOWN, "→ PyTorch 2.11.0"),
    # combinations known to fail
    (("torch==2.2.0", "numpy==2.0"), {}, FAILS, "does not know NumPy 2"),
    # things that require nothing of each other, and things related only through a third
    (("cuda==12.8",), {"gpu": "H100", "python": "3.12"}, WORKS, ""),
    (("driver==580.95.05",), {"gpu": "H100", "python": "3.14t"}, WORKS, ""),
    (("torch==2.11.0",), {"driver": "580.95.05", "gpu": "H100", "kernel": "6.8.0-50-generic"}, WORKS, ""),
    (("torchvision==0.22.1", "torchaudio==2.7.1", "torch==2.7.1"), {"gpu": "A100", "python": "3.12"}, WORKS, ""),
    (("xformers==0.0.30", "torchvision==0.22.0", "torch==2.7.0"), {"gpu": "A100", "driver": "570"}, WORKS, ""),
    (("torch==2.7.1",), {"os": "wsl", "driver": "551.61", "gpu": "RTX 4090"}, LIMITED, ""),
    (("torch==2.7.1+cu128",), {"os": "wsl", "driver": "551.61", "gpu": "RTX 5090"}, FAILS, "branch from 570"),
]


@each(("subjects", "given", "expected", "words"), QUESTIONS, ids=lambda one: str(one)[:60])
def test_a_gap_is_not_a_tick(subjects: tuple[str, ...], given: dict[str, str], expected: str, words: str) -> None:
    answer = judged(*subjects, **given)
    assert answer.verdict.value == expected, [(one.verdict.value, one.text) for one in answer.reasons]
    deciding = [one.text for one in answer.reasons if one.verdict is answer.verdict]
    assert any(words.lower() in text.lower() for text in deciding), deciding


SUBJECTS = some.sampled_from(
    [
        *("torch==2.9.1", "torch==2.11.0+cu130", "jax==0.9.0", "vllm==0.19.0", "vllm==0.18.99", "tensorflow==2.18.0"),
        *("bitsandbytes==0.45.5", "flash-attn==2.8.3", "xformers==0.0.30", "onnxruntime-gpu==1.22.0", "gcc==13"),
        *("cuda==12.8", "cudnn==9.10.2", "nccl==2.27.7", "tensorrt==10.9.0", "transformer-engine==2.18.0"),
    ]
)
GIVEN = {"driver": "580.95.05", "gpu": "H100", "python": "3.12", "kernel": "6.8.0-50-generic", "machine": "x86_64"}


@settings(max_examples=60)
@drawn(
    subjects=some.lists(SUBJECTS, min_size=1, max_size=3, unique_by=lambda one: one.partition("==")[0]),
    names=some.sets(some.sampled_from(sorted(GIVEN)), max_size=4),
)
def test_every_related_pair_has_a_contract_where_the_answer_is_yes(subjects: list[str], names: set[str]) -> None:
    at = judged(*subjects, **{name: GIVEN[name] for name in names})
    if at.verdict not in {Compatibility.COMPATIBLE, Compatibility.LIMITED}:
        return
    decided = {frozenset({one.from_, one.to}) for one in at.contracts}
    held = {one.id for one in at.facts.components}
    missing = [pair for pair in combinations(sorted(held), 2) if related(*pair) and frozenset(pair) not in decided]
    assert not missing, (subjects, names)


def test_a_processor_that_is_none_is_answered_with_the_nearest() -> None:
    for said, near in (("arm64", "aarch64"), ("amd64", "x86_64"), ("x86-64", "x86_64"), ("banana", "x86_64")):
        with pytest.raises(UsageError, match=near):
            why("torch==2.11.0", machine=said)
    done = command("why", "torch==2.11.0", "--machine", "aarch46")
    assert (done.returncode, done.stdout) == (2, "")
    assert "did you mean aarch64?" in done.stderr


def test_plan_takes_the_processor_too_and_offers_what_it_has_wheels_for() -> None:
    done = command("plan", "torch>=2.9", "--gpu", "GH200", "--python", "3.12")
    assert done.returncode == 0
    assert "torch==2.15.0+cu132" in done.stdout
    assert why("torch==2.9.0", gpu="GH200").alternatives[0].subject == "torch==2.11.0+cu130"


@pytest.mark.parametrize("asked", ["tensorflow-gpu==2.12.0", "tensorflow-gpu==2.13.0"])
def test_in_place_of_a_distribution_that_was_given_up_the_one_with_its_code_is_offered(asked: str) -> None:
    first = why(asked, gpu="T4", python="3.10").alternatives[0]
    assert first.subject == f"tensorflow=={asked[-6:-2]}.*"
    assert first.verdict is Compatibility.COMPATIBLE


def test_another_release_of_any_distribution_with_a_table_comes_with_its_command() -> None:
    first = why("numba==0.68.1", python="3.8").alternatives[0]
    assert first.commands == ("python -m pip install numba==0.58.1",)


@pytest.mark.parametrize(
    ("asked", "beside", "change"),
    [
        ("cudf-cu12==26.10.2", "numba==0.66.0", "numba==0.64.0"),
        ("cuda-cccl==0.5.1", "cuda-pathfinder==1.2.0", "cuda-pathfinder==1.2.3"),
        ("auto-gptq==0.7.1", "torch==1.12.0", "torch==1.13.0"),
    ],
)
def test_a_release_that_no_other_of_its_own_suits_names_that_of_the_one_beside_it(
    asked: str, beside: str, change: str
) -> None:
    (found,) = why(asked, beside).alternatives
    assert found.commands[0] == f"python -m pip install {change}"


def test_on_macos_what_the_matrix_does_not_know_is_unknown_and_mlx_works() -> None:
    assert [why(one, os="macos").verdict.value for one in ("mlx", "catboost==1.2.8", "cudnn")] == [
        WORKS,
        UNKNOWN,
        FAILS,
    ]


def test_what_was_meant_names_the_processor() -> None:
    assert why("torch==2.11.0", gpu="GH200").meant.endswith("takes on Linux aarch64")
    assert why("torch==2.11.0", gpu="H100").meant.endswith("takes on Linux x86-64")
    assert "processor aarch64" in why("torch==2.11.0", machine="aarch64").given


def test_a_missing_row_is_unknown_alone_and_beside_what_holds() -> None:
    for more in ({}, {"gpu": "sm_90"}, {"driver": "580.95.05"}, {"gpu": "sm_90", "driver": "580.95.05"}):
        assert verdict("vllm==0.18.99", "torch==2.10.0", **more) == UNKNOWN
