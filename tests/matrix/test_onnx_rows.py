"""The rows of ONNX and of ONNX Runtime."""

from __future__ import annotations

from itertools import pairwise

import pytest

from gpustack.matrix import Matrix
from gpustack.matrix.subjects import frameworks, libraries, serving
from gpustack.matrix.subjects.ranges import numbers, version_of

MATRIX = Matrix()


def test_opsets_never_go_back() -> None:
    for rows in (frameworks.onnx_releases(MATRIX), frameworks.onnx_runtimes(MATRIX)):
        assert all(old.opset <= new.opset and old.ir <= new.ir for old, new in pairwise(rows))
        assert len({one.version for one in rows}) == len(rows)


def test_a_version_belongs_to_its_minor() -> None:
    known, runtime = frameworks.onnx_of(MATRIX, "1.17.2"), frameworks.onnx_runtime_of(MATRIX, "1.20.1")
    assert known is not None
    assert runtime is not None
    assert (known.opset, runtime.opset) == (22, 21)
    for line in MATRIX.table("onnx")["runtimes"]:
        model, reader = (
            frameworks.onnx_of(MATRIX, line["onnx"]),
            frameworks.onnx_runtime_of(MATRIX, line["onnxruntime"]),
        )
        assert model is not None
        assert reader is not None
        assert reader.opset == model.opset, line["onnxruntime"]
    assert frameworks.onnx_of(MATRIX, "99.0.0") is None
    assert frameworks.onnx_runtime_of(MATRIX, "nightly") is None


def test_each_technique_is_of_a_known_server_and_occurs_once() -> None:
    rows = serving.techniques(MATRIX)
    assert {one.component for one in rows} == {"vllm", "sglang", "tensorrt-llm", "tgi"}
    assert len({(one.component, one.name) for one in rows}) == len(rows)
    assert all(one.newest is None or (one.lowest is not None and one.lowest <= one.newest) for one in rows)
    assert all(one.row.source for one in rows)
    assert all(version_of(one.versions.text.lstrip(">=")) for one in rows)


def test_releases_leave_no_gap_and_agree_with_the_spans_that_the_doctor_reads() -> None:
    found = frameworks.onnxruntime_releases(MATRIX)
    assert all(numbers(new.version)[1] - numbers(old.version)[1] == 1 for old, new in pairwise(found))
    for span in MATRIX.onnxruntime:
        for one in found:
            first, last = numbers(span.first or "0"), numbers(span.last or "99")
            if first <= numbers(one.version) <= last:
                assert one.cuda == span.cuda, one.version


def test_the_libraries_it_links_are_of_its_cuda() -> None:
    for one in frameworks.onnxruntime_releases(MATRIX):
        for name in one.sonames:
            assert one.cuda in libraries.cuda_of_soname(MATRIX, name), (one.version, name)
        assert not one.sonames or f"libcudnn.so.{one.cudnn}" in one.sonames


@pytest.mark.parametrize(("version", "cuda", "cudnn"), [("1.18.1", 11, 8), ("1.19.2", 12, 9), ("1.27.0", 13, 9)])
def test_what_a_version_needs(version: str, cuda: int, cudnn: int) -> None:
    found = frameworks.onnxruntime_of(MATRIX, version)
    assert found is not None
    assert (found.cuda, found.cudnn) == (cuda, cudnn)
    assert frameworks.onnxruntime_of(MATRIX, "99.0") is None


def test_the_feed_for_cuda_12_changes_its_cudnn_with_1_18_1() -> None:
    assert [one.cudnn for one in frameworks.onnxruntime_feeds(MATRIX, "1.18.0")] == [8]
    assert [one.cudnn for one in frameworks.onnxruntime_feeds(MATRIX, "1.18.1")] == [9]
    assert [one.cuda for one in frameworks.onnxruntime_feeds(MATRIX, "1.20.0")] == [11]
    assert frameworks.onnxruntime_feeds(MATRIX, "1.27.0") == ()
