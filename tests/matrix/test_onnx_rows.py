"""The rows of ONNX and of what servers can do."""

from __future__ import annotations

from itertools import pairwise

from gpustack.matrix import Matrix
from gpustack.matrix.subjects import frameworks, serving
from gpustack.matrix.subjects.ranges import version_of

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


def test_each_technique_is_of_a_known_server_and_stands_once() -> None:
    rows = serving.techniques(MATRIX)
    assert {one.component for one in rows} == {"vllm", "sglang", "tensorrt-llm", "tgi"}
    assert len({(one.component, one.name) for one in rows}) == len(rows)
    assert all(one.newest is None or (one.lowest is not None and one.lowest <= one.newest) for one in rows)
    assert all(one.row.source for one in rows)
    assert all(version_of(one.versions.text.lstrip(">=")) for one in rows)
