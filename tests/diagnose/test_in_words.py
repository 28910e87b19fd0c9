"""Things that a person mentions together are judged like the same question; "likely" at most, and never on a guess."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpustack.diagnose.engine import judge
from gpustack.imports.texts import take
from gpustack.matrix import Matrix
from gpustack.model.report import Confidence
from tests.build import machine, seen

MATRIX = Matrix()
PAIRS = (
    ("torch 2.0.1 on Python 3.12", "python-version-no-wheel"),
    ("tensorflow 2.16.1, Python 3.8", "python-version-no-wheel"),
    ("gcc 14.2, cuda toolkit 12.1, compiling an extension", "host-compiler-too-new"),
    ("nvcc 11.8 with gcc 13.2", "host-compiler-too-new"),
    ("TensorRT 10.0 on a Tesla P4", "arch-not-in-build"),
    ("Arc A770, torch 2.3.0+cu121", "cpu-only-build"),
    ("torch 2.5.1+cu124, AMD RX 7900 XTX", "cpu-only-build"),
    ("onnxruntime-gpu 1.19.2, CUDA 11.8 installed", "cuda-major-mixed"),
    ("onnxruntime-gpu 1.19.2 driver 470.82", "driver-too-old-for-cuda-build"),
    ("tensorflow 2.10, cuda toolkit 12.1, cudnn 8.9", "tf-cannot-dlopen"),
)
SILENT = (
    "torch 2.0.1 worked on Python 3.10; I am thinking of Python 3.12",
    "tensorflow 2.10 in conda, system CUDA 12.1, trains fine",
    "my laptop has an Arc A770 and a RTX 4090, torch 2.5.1+cu124",
    "Python 3.12 on the host, torch 2.0.1 in a container with python 3.10",
    "CUDA 12.1 docs say gcc 12.2 is the newest; we use gcc 12.2",
    "TensorRT 10.0 engine built on A100, Tesla P4 only for video",
    "onnxruntime-gpu 1.19 with CUDA 12.4 (CUDA 11.8 also installed)",
)


@pytest.mark.parametrize(("words", "finding"), PAIRS)
def test_two_things_that_are_incompatible_are_the_root(words: str, finding: str) -> None:
    facts, _ = take([("paste", f"{words}\n")], MATRIX)
    report = judge(facts, MATRIX)
    assert report.verdict.root_causes == (finding,)
    assert {one.confidence for one in report.findings if one.id == finding} == {Confidence.LIKELY}


@pytest.mark.parametrize("words", SILENT)
def test_what_may_never_meet_is_not_judged(words: str) -> None:
    facts, _ = take([("paste", f"{words}\n")], MATRIX)
    assert judge(facts, MATRIX).verdict.root_causes == ()


def test_a_name_that_is_not_text_loses_no_answer() -> None:
    """A snapshot from someone else may contain anything where a name belongs."""
    copies = seen("kernel-headers", {"key": "0"}, {"key": "1"})
    named = replace(copies, instances=tuple(replace(one, facts={"name": {}}) for one in copies.instances))
    assert judge(replace(machine(named), taken=""), MATRIX).verdict.root_causes == ()


def test_no_release_is_advised_where_the_gpu_lacks_what_an_attention_needs() -> None:
    facts, _ = take([("paste", "Tesla T4, flash-attn 2.5.8, it crashes\n")], MATRIX)
    found = next(one for one in judge(facts, MATRIX).findings if one.id == "gpu-feature-unsupported")
    assert found.fix
    assert "another attention" in found.fix.text
    assert not any("install" in str(one) for one in found.fix.commands)
