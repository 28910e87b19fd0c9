"""What servers can do on the GPUs here, and whether compilers and exporters have what they need."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpustack.diagnose.requirements.serving import abilities
from gpustack.diagnose.requirements.versions import draw
from gpustack.model.report import Contract, Kept
from tests.build import MATRIX, PYTHON, gpu, healthy, libcuda, merged, seen, torch

if TYPE_CHECKING:
    from gpustack.model.facts import Component

HERE = {"environment": PYTHON}


def packages(*names: str) -> Component:
    return seen("packages", {"key": PYTHON, **HERE, "distributions": dict.fromkeys(names, "1.0")})


def server(name: str, version: str) -> Component:
    return seen(name, {"key": name, "version": version, **HERE})


def can(cc: str, count: int, *components: Component) -> dict[str, tuple[Kept, str]]:
    cards = seen("gpu", *(gpu(cc=cc, at=f"0000:0{number}:00.0") for number in range(count)))
    facts = healthy(cards, libcuda(devices=[{"cc": cc}] * count), *components)
    return {one.name: (one.fit.kept, one.fit.found) for one in abilities(facts, MATRIX)}


@pytest.mark.parametrize(
    ("cc", "usable", "not_usable"),
    [
        ("9.0", {"FlashAttention 2", "FlashAttention 3", "KV cache in FP8"}, set()),
        ("8.0", {"FlashAttention 2", "speculative decoding"}, {"FlashAttention 3", "KV cache in FP8"}),
        ("8.9", {"FlashAttention 2", "KV cache in FP8"}, {"FlashAttention 3"}),
        ("10.0", {"FlashAttention 2", "KV cache in FP8"}, {"FlashAttention 3"}),
        ("7.5", {"chunked prefill and prefix caching"}, {"FlashAttention 2", "KV cache in bfloat16"}),
    ],
)
def test_vllm_by_gpu(cc: str, usable: set[str], not_usable: set[str]) -> None:
    told = can(cc, 1, server("vllm", "0.33.0"))
    assert {name for name in usable if told[name][0] is Kept.OK} == usable
    assert {name for name in not_usable if told[name][0] is Kept.LIMITED} == not_usable
    assert all("not usable" in told[name][1] for name in not_usable)
    assert {told[name][0] for name in ("continuous batching", "paged attention")} == {Kept.OK}


@pytest.mark.parametrize(("count", "kept"), [(1, Kept.LIMITED), (2, Kept.OK), (8, Kept.OK)])
def test_tensor_parallelism_takes_two_gpus(count: int, kept: Kept) -> None:
    for name, version in (("vllm", "0.33.0"), ("sglang", "0.5.23"), ("tgi", "3.3.7"), ("tensorrt-llm", "1.2.1")):
        assert can("9.0", count, server(name, version))["tensor parallelism"][0] is kept


def test_without_a_gpu_nobody_can_say() -> None:
    facts = merged(healthy(server("vllm", "0.33.0")), seen("gpu"), libcuda(init=100, devices=[]))
    told = {one.name: one.fit.kept for one in abilities(facts, MATRIX)}
    assert told["FlashAttention 2"] is Kept.UNKNOWN
    assert told["tensor parallelism"] is Kept.UNKNOWN


def test_what_the_build_or_the_python_lacks_cannot_be_used() -> None:
    path = "/s/vllm/vllm_flash_attn/_vllm_fa2_C.abi3.so"
    files = seen("torch-extensions", {"key": path, "path": path, **HERE})
    told = can("9.0", 1, server("vllm", "0.33.0"), files, packages("vllm"))
    assert told["FlashAttention 2"][0] is Kept.OK
    assert told["FlashAttention 3"] == (Kept.LIMITED, "no _vllm_fa3_C in this build: not usable")
    assert told["FlashInfer"] == (Kept.LIMITED, "flashinfer-python is not installed: not usable")
    assert can("9.0", 1, server("vllm", "0.33.0"), packages("flashinfer-python"))["FlashInfer"][0] is Kept.OK


def test_a_release_without_rows_or_without_a_version_is_not_mentioned() -> None:
    assert can("9.0", 1, server("vllm", "0.2.0"), server("sglang", "dev")) == {}


def contracts(*components: Component) -> dict[tuple[str, str, str], Contract]:
    return {(one.from_, one.to, one.kind): one for one in draw(healthy(*components), MATRIX)}


def test_techniques_are_contracts_with_their_row() -> None:
    told = [one for one in draw(healthy(server("vllm", "0.33.0")), MATRIX) if one.kind == "technique"]
    assert {one.from_ for one in told} == {"vllm"}
    assert all(one.row and one.row.source and one.environment == PYTHON for one in told)


@pytest.mark.parametrize(
    ("version", "kept"), [("3.6.0", Kept.OK), ("3.7.0", Kept.LIMITED), ("3.7.0+git1", Kept.UNKNOWN)]
)
def test_triton_beside_torch(version: str, kept: Kept) -> None:
    copy = {"key": "triton", "version": version, "distribution": "triton", **HERE}
    told = contracts(torch("2.11.0"), seen("triton", copy))
    assert told["pytorch", "triton", "compiler"].status is kept
    assert told["triton", "gpu", "architecture"].status is Kept.OK


def test_torch_compile_says_what_it_lacks() -> None:
    whole = {
        "c": {"name": "gcc", "path": "/usr/bin/gcc"},
        "headers": {"path": "/usr/include/python3.12/Python.h", "exists": True},
        "triton": "3.6.0",
    }
    copy = {"key": "/s/torch", "version": "2.11.0", **HERE}
    good = contracts(torch(), seen("torch-compile", {**copy, **whole}))
    assert {one.status for key, one in good.items() if key[0] == "torch-compile"} == {Kept.OK}
    bare = {
        "c": {"name": "/gone/cc", "path": None},
        "headers": {"path": "/x/Python.h", "exists": False},
        "triton": None,
    }
    bad = contracts(torch(), seen("torch-compile", {**copy, **bare}))
    assert {one.status for key, one in bad.items() if key[0] == "torch-compile"} == {Kept.LIMITED}
    assert bad["torch-compile", "gcc", "compiler"].found == "/gone/cc, which does not exist"
    assert bad["torch-compile", "python", "headers"].found == "no /x/Python.h"
    cpu = contracts(torch("2.11.0", "cpu", None, accelerator="cpu"), seen("torch-compile", {**copy, **bare}))
    assert ("torch-compile", "triton", "compiler") not in cpu


@pytest.mark.parametrize(
    ("onnx", "opset", "kept"), [("1.17.0", 21, Kept.OK), ("1.20.0", 21, Kept.LIMITED), ("1.17.0", 25, Kept.LIMITED)]
)
def test_onnx_writes_what_the_runtime_beside_it_reads_or_newer(onnx: str, opset: int, kept: Kept) -> None:
    told = contracts(
        seen("onnx", {"key": "onnx", "version": onnx, "opset": opset, **HERE}),
        seen("onnxruntime", {"key": "ort", "version": "1.20.1", "build": "cpu", **HERE}),
    )
    edge = told["onnxruntime", "onnx", "opset"]
    assert edge.status is kept
    assert edge.needs == "models of opset 21 and IR version 10 or older"


def test_a_tensorflow_for_the_cpu_has_no_contract_with_the_driver() -> None:
    copy = {"key": "tf", "version": "2.17.0", **HERE}
    cuda = contracts(seen("tensorflow", {**copy, "accelerator": "cuda"}))
    cpu = contracts(seen("tensorflow", {**copy, "accelerator": "cpu"}))
    assert ("tensorflow", "nvidia-driver", "cuda") in cuda
    assert ("tensorflow", "nvidia-driver", "cuda") not in cpu
