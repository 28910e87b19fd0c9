"""Generated tables as shipped: whole, the same as rows made by hand, and what the matrix answers from them."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from gpustack.ask import answering
from gpustack.ask.given import Given
from gpustack.matrix import Matrix
from gpustack.matrix.subjects import generated, torch
from gpustack.matrix.subjects.ranges import version_of
from gpustack.model.matrix_answer import Compatibility, MatrixAnswer
from tests.counting import each
from tools.matrix.__main__ import GENERATED

MATRIX = Matrix()
TABLES = sorted(path.stem for path in GENERATED.glob("*.toml"))


@each("name", TABLES)
def test_the_shipped_tables_are_whole(name: str) -> None:
    rows, table = generated.releases(MATRIX, name), MATRIX.table(generated.table(name))
    versions = [version_of(one.version) for one in rows]
    assert versions == sorted(versions, key=lambda one: one or version_of("0"))  # type: ignore[arg-type,return-value]
    assert len(set(versions)) == len(versions)
    assert table["index_seen"] == rows[-1].version
    assert table["distribution"] == name
    assert rows[-1].requires is not None or not rows[-1].wheels


def test_hand_made_rows_of_torch_say_the_same_as_the_index() -> None:
    made = {one.version: one for one in generated.releases(MATRIX, "torch")}
    by_hand = {one.version: one for one in torch.releases(MATRIX)}
    assert set(made) == set(by_hand)
    for version, one in made.items():
        pythons = [python for python in one.wheels["linux-x86_64"] if not python.endswith("t")]
        assert pythons == list(by_hand[version].pythons), version
        assert ("windows" in one.wheels) == any(name.startswith("windows") for name in by_hand[version].wheels), version


WORKS, FAILS, UNKNOWN = Compatibility.COMPATIBLE, Compatibility.INCOMPATIBLE, Compatibility.UNKNOWN


def why(*texts: str, **given: str) -> MatrixAnswer:
    return answering.why(texts, Given(**given), None, MATRIX)


@pytest.mark.parametrize(
    ("texts", "given", "verdict"),
    [
        (("torch==2.5.1",), {"python": "3.13", "machine": "aarch64"}, FAILS),
        (("torch==2.5.1",), {"python": "3.12", "machine": "aarch64"}, WORKS),
        (("torch==2.5.1",), {"python": "3.13", "os": "windows"}, FAILS),
        (("torch==2.5.1",), {"python": "3.13"}, WORKS),
        (("torch==2.8.0", "triton==3.4.0"), {}, WORKS),
        (("vllm==0.9.2", "torch==2.6.0"), {}, FAILS),
        (("vllm==0.9.1", "torch==2.7.0"), {}, WORKS),
        (("vllm==0.9.2", "xformers==0.0.31"), {}, FAILS),
        (("vllm==0.9.2", "numba==0.61.2"), {"python": "3.9"}, FAILS),
        (("vllm==0.9.2", "numba==0.61.2"), {"python": "3.10"}, WORKS),
        (("vllm==0.9.2",), {"os": "windows"}, FAILS),
        (("xformers==0.0.30", "torch==2.7.0"), {}, WORKS),
        (("xformers==0.0.30", "torch==2.7.1"), {}, FAILS),
        (("numba==0.61.0", "numpy==2.1.3"), {}, WORKS),
        (("numba==0.61.0", "numpy==2.2.0"), {}, FAILS),
        (("numba==0.66.0",), {"python": "3.14t"}, WORKS),
        (("numba==0.61.0",), {"python": "3.13", "os": "windows"}, WORKS),
        (("jax==0.4.30", "cudnn==8.9.7"), {}, FAILS),
        (("jax==0.4.30", "cudnn==9.1.0"), {}, WORKS),
        (("jax==0.12.0", "cuda==12.1"), {}, Compatibility.LIMITED),
        (("numba==0.999", "numpy==2.0"), {}, UNKNOWN),
        (("numba==0.61.0",), {"glibc": "2.12"}, FAILS),
        (("xformers==0.0.30",), {"glibc": "2.27"}, FAILS),
        (("xformers==0.0.30",), {"glibc": "2.28"}, WORKS),
        (("tensorflow-gpu==2.10.0",), {"python": "3.8", "machine": "aarch64"}, FAILS),
        (("tensorflow==2.10.0",), {"python": "3.8", "machine": "aarch64"}, WORKS),
        (("flash-attn-4==4.0.0b36",), {"python": "3.12"}, WORKS),  # it has only pre-releases
        (("tensorrt-llm==1.2.1",), {"python": "3.12t"}, UNKNOWN),  # a source archive: does it build without the GIL?
        (("keras==3.15.1",), {"python": "3.10"}, FAILS),
        (("cuda-python==13.4.4", "cuda-bindings==13.3.0"), {}, FAILS),
        (("torch-tensorrt==2.13.0",), {"python": "3.14"}, FAILS),
        (("nvidia-cuda-runtime==13.5.99",), {}, UNKNOWN),
        (("cupy-cuda12x==13.4.0",), {"python": "3.14"}, FAILS),
        (("cupy-cuda12x==13.4.0",), {"python": "3.13", "machine": "aarch64"}, WORKS),
        (("bitsandbytes==0.46.0",), {"python": "3.8"}, FAILS),
        (("bitsandbytes==0.45.5",), {"machine": "aarch64"}, FAILS),
        (("flash-attn==2.7.3",), {"python": "3.8"}, FAILS),  # only a source archive, but it names its Pythons
        (("flash-attn==2.7.3",), {"python": "3.12"}, WORKS),
        (("tensorflow==2.16.0",), {"python": "3.12"}, UNKNOWN),  # the index has 2.16.1 and 2.16.2, and no 2.16.0
        (("sglang==0.5.23", "torch==2.13.0"), {}, FAILS),
        (("vllm==0.2.1",), {"python": "3.10"}, Compatibility.LIMITED),  # withdrawn
        (("torch==2.11.0", "cuda==13.1"), {}, WORKS),  # a toolkit beside it, but not the wheel cuda-toolkit
        (("cudnn==9.10.2",), {"gpu": "H100"}, WORKS),  # on the index as 9.10.2.21
        (("cudnn==9.10",), {"gpu": "H100"}, WORKS),
        (("cudnn==9.10.9",), {"gpu": "H100"}, UNKNOWN),  # between two releases
        (("tensorrt==10.3.0.26",), {"gpu": "H100"}, WORKS),  # the archive's number; on the index it is 10.3.0
        (("torchcodec==0.14.0",), {"python": "3.12", "machine": "aarch64"}, WORKS),
        (("cuda-bindings==12.9.4",), {"python": "3.14", "os": "windows"}, WORKS),
        (("cuda-bindings==12.9.4",), {"python": "3.8"}, FAILS),
        (("torch==2.12.1", "nvidia-cudnn-cu13==9.20.0.48"), {}, WORKS),
        (("torch==2.12.1", "nvidia-cudnn-cu13==9.20.1"), {}, Compatibility.LIMITED),  # pip refuses, the loader does not
        (("torch==2.8.0", "nvidia-nccl-cu12==2.26.0"), {}, UNKNOWN),  # older than what it was built with
        (("nvidia-cudnn-cu12==9.23.2.1",), {"machine": "aarch64"}, WORKS),
        (("nvidia-cudnn-cu12==8.9.2.26",), {"machine": "aarch64"}, FAILS),  # its wheels were for x86-64 only
        (("nvidia-cudnn-cu12==8.9.5.29",), {"python": "3.12"}, FAILS),  # only a wheel for Windows
        (("nvidia-cudnn-cu12==9.0.0.312.post1",), {}, FAILS),  # for ARM only; the default is x86-64
        (("nvidia-nccl-cu12==2.27.3",), {"os": "windows"}, FAILS),
        (("jax==0.7.0", "jaxlib==0.7.0"), {}, WORKS),
        (("jaxlib==0.7.1", "jax==0.7.0"), {}, FAILS),
        (("jax==0.12.0", "jaxlib==0.11.1"), {}, FAILS),
        (("jax==0.7.0", "jaxlib==0.6.0"), {}, FAILS),
        (("jax==0.4.30", "jax-cuda12-plugin==0.4.31"), {}, FAILS),
        (("jax-cuda12-plugin==0.7.0", "jax-cuda12-pjrt==0.7.0"), {}, WORKS),
        (("jax-cuda12-plugin==0.7.0", "jax-cuda12-pjrt==0.7.1"), {}, FAILS),
        (("torch==2.9.0",), {"os": "windows", "machine": "aarch64"}, UNKNOWN),  # the table does not cover its wheels
        (("vllm==0.1.0", "torch==2.0.0"), {}, UNKNOWN),  # only a source archive: its requirements were not read
        (("cuda-cccl==0.5.1", "cuda-pathfinder==1.2.0"), {}, FAILS),
        (("cuda-cccl==1.0.0", "numba==0.59.0"), {}, UNKNOWN),  # of its extras alone
        (("cuda-cccl==0.3.2",), {"python": "3.12", "os": "windows"}, FAILS),
        (("nvmath-python==0.8.0", "cuda-core==1.0.0"), {}, FAILS),
        (("cuml-cu12==26.10.0", "cudf-cu12==26.8.0"), {}, FAILS),
        (("cuml-cu12==26.10.0", "cudf-cu12==26.10.2"), {}, WORKS),
        (("cuml-cu12==25.8.0",), {"python": "3.12"}, UNKNOWN),  # fetched from NVIDIA's own index
        (("lightgbm==4.7.0", "numpy==1.20.0"), {}, FAILS),
        (("torch-scatter==2.1.2",), {"python": "3.12"}, Compatibility.LIMITED),  # compiled by pip
        (("torch-scatter==2.1.2", "torch==2.7.1"), {"python": "3.12"}, UNKNOWN),
        (("torch-cluster==1.6.3",), {"python": "3.7"}, FAILS),
        (("torch-sparse==0.6.17",), {"python": "3.7"}, Compatibility.LIMITED),
        (("auto-gptq==0.7.1", "torch==1.12.0"), {}, FAILS),
        (("auto-gptq==0.7.1",), {"python": "3.12"}, FAILS),
        (("autoawq==0.2.6", "torch==2.5.1"), {}, FAILS),
        (("autoawq==0.2.9", "torch==2.6.0"), {"python": "3.12"}, UNKNOWN),  # a source archive
        (("pytorch-triton-rocm==2.1.0",), {"python": "3.12"}, FAILS),
        (("intel-extension-for-pytorch==2.8.0", "torch==2.8.0"), {"python": "3.13"}, WORKS),
        (("intel-extension-for-pytorch==2.8.0", "torch==2.7.1"), {}, FAILS),
        (("intel-extension-for-pytorch==2.5.0",), {"python": "3.12"}, Compatibility.LIMITED),  # withdrawn
        (("dpctl==0.22.1",), {"python": "3.12", "machine": "aarch64"}, FAILS),
        (("dpctl==0.22.1", "torch==2.8.0"), {"python": "3.12"}, UNKNOWN),  # torch's Python says nothing about the two
        (("mlx==0.29.0",), {"python": "3.12", "machine": "aarch64"}, FAILS),
        (("mlx==0.30.0",), {"python": "3.12", "machine": "aarch64"}, WORKS),
        (("mlx==0.32.0",), {"python": "3.12", "os": "windows"}, WORKS),
    ],
)
def test_what_the_index_says_is_what_the_matrix_answers(
    texts: tuple[str, ...], given: dict[str, str], verdict: Compatibility
) -> None:
    answer = why(*texts, **given)
    assert answer.verdict is verdict, [one.text for one in answer.reasons]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("vllm==99.0", "The newest that was read, on 20"),
        ("tensorflow==2.16.0", "The package index has no such release."),
    ],
)
def test_why_a_release_has_no_row_is_said(asked: str, said: str) -> None:
    assert said in why(asked, python="3.12").reasons[0].text


def test_no_shipped_table_has_lost_a_release_that_the_index_had() -> None:
    with Path(__file__).with_name("covered.csv").open(encoding="utf-8", newline="") as file:
        counted = {row["distribution"]: int(row["releases"]) for row in csv.DictReader(file)}
    assert set(counted) == set(TABLES)
    assert {name: len(generated.releases(MATRIX, name)) for name in TABLES} == counted
