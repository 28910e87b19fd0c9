"""Texts as people paste them (``pastes.toml``): short, in words, over several lines, and well."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpustack.diagnose.engine import judge
from gpustack.matrix.subjects.codes import FAMILIES, numbers
from gpustack.model.facts import Strength
from gpustack.model.report import Confidence
from tests.imports.reading import MATRIX, read

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from gpustack.model.report import Report

PASTES: Mapping[str, Sequence[Mapping[str, str]]] = tomllib.loads(
    Path(__file__).with_name("pastes.toml").read_text("utf-8")
)
CODES = [one for family in FAMILIES for one in numbers(MATRIX, family) if one.message]
SICK = {"joined": 33, "codes": 37, "states": 27}  # how many of each kind yield their finding first, at the least


@cache
def reports(kind: str) -> tuple[tuple[str, str, Report], ...]:
    """Return text, expected findings and report of each paste of a kind."""
    return tuple((one["text"], one["expect"], judge(read(one["text"]), MATRIX)) for one in PASTES[kind])


@pytest.mark.parametrize("kind", SICK)
def test_what_is_pasted_yields_its_finding(kind: str) -> None:
    right = [text for text, ids, report in reports(kind) if {*report.verdict.root_causes[:1]} & {*ids.split("|")}]
    assert len(right) >= SICK[kind]


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("nvmlInit: NVMLError 999", "nvml-unknown"),
        ("nvml error: driver not loaded", "nvml-not-loaded"),
        ("cudaGetDeviceCount -> 803", "cuda-803"),
        ("cuModuleLoadData failed: 222", "ptx-toolchain"),
        ("cuDNN status 1002", "cudnn-sublibrary-mismatch"),
    ],
)
def test_a_bare_error_code_is_read_as_the_message_that_it_means(line: str, kind: str) -> None:
    assert kind in {one.kind for one in read(line).messages}


@pytest.mark.parametrize(
    "line",
    ["CUDA 12", "CUDA version 803", "cudaMalloc(999)", "torch returned 18", "no NVML error 18", "nvml 12 GPUs"],
)
def test_a_number_beside_a_library_is_no_error_code(line: str) -> None:
    assert not {one.kind for one in read(line).messages} & {one.message for one in CODES}


@pytest.mark.parametrize("kind", PASTES)
def test_what_only_words_support_is_never_certain(kind: str) -> None:
    for text, _, report in reports(kind):
        for found in report.findings:
            words = found.because and all(one.strength is Strength.STATED for one in found.because)
            assert not (words and found.confidence is Confidence.CERTAIN), (text, found.id)


@pytest.mark.parametrize(
    "sentence",
    [
        "GPU 2 reports uncorrectable ECC errors, count goes up every day.",
        "We forgot to start the fabric manager on the DGX; torch says system not yet initialized.",
        "My card is gone: the GPU has fallen off the bus again.",
        "Nobody installed the kernel headers: linux-headers are missing.",
    ],
)
def test_a_sentence_of_a_person_is_stated_also_where_a_program_has_the_same_words(sentence: str) -> None:
    assert {one.strength for one in read(sentence).messages} == {Strength.STATED}


def test_what_is_over_is_no_fault_of_now() -> None:
    assert [text for text, _, report in reports("well") if report.verdict.root_causes][1:] == []


TOO_OLD = "RuntimeError: The NVIDIA driver on your system is too old (found version 11040)."


@pytest.mark.parametrize(
    ("fault", "end"),
    [
        (f"> {TOO_OLD}\n", "Everything works now."),
        ("The old driver gave CUDA error 35 here. ", "With 570.86.15 it runs."),
        ("NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\n", "That was in May with the old card."),
    ],
)
def test_a_fault_that_is_over_counts_no_more(fault: str, end: str) -> None:
    assert judge(read(fault), MATRIX).verdict.root_causes
    assert not judge(read(fault + end), MATRIX).verdict.root_causes


def test_a_fault_that_came_back_counts() -> None:
    told = f"> {TOO_OLD}\nIt worked again for a day, but it still says so in the other environment."
    assert judge(read(told), MATRIX).verdict.root_causes
