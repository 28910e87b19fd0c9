"""The rows on JAX, TensorFlow, and ONNX with its runtime: their releases, and what each needs."""

from __future__ import annotations

from itertools import pairwise

import pytest

from gpustack.matrix import Matrix
from gpustack.matrix.subjects import frameworks, libraries, serving
from gpustack.matrix.subjects.ranges import numbers, version_of, within
from gpustack.model.versions import ComputeCapability, CudaVersion

MATRIX = Matrix()


def test_releases_go_from_old_to_new_and_builds_are_of_releases_and_their_majors() -> None:
    found = {one.version: one for one in frameworks.jax_releases(MATRIX)}
    assert all(numbers(old) < numbers(new) for old, new in pairwise(found))
    keys = [(line["jax"], line["cuda"]) for line in MATRIX.table("jax")["builds"]]
    assert len(set(keys)) == len(keys)
    for version, cuda in keys:
        assert cuda in found[version].cuda
        build = frameworks.jax_build(MATRIX, version, cuda)
        assert build is not None
        assert build.version == version


def test_a_build_asks_for_no_older_driver_than_its_cuda_family() -> None:
    for release in frameworks.jax_releases(MATRIX):
        for cuda in release.cuda:
            build = frameworks.jax_build(MATRIX, release.version, cuda)
            if build and build.driver:
                assert build.driver.branch >= MATRIX.families[cuda].linux.branch


def test_the_cudnn_that_a_build_requires_is_one_that_there_is() -> None:
    for release in frameworks.jax_releases(MATRIX):
        for cuda in release.cuda:
            build = frameworks.jax_build(MATRIX, release.version, cuda)
            if build and build.built_cudnn:
                assert libraries.cudnn_of(MATRIX, build.built_cudnn) is not None
                assert build.cudnn is None or within(build.built_cudnn or "", build.cudnn)


def test_what_a_version_needs() -> None:
    old, new = frameworks.jax_build(MATRIX, "0.6.0", 12), frameworks.jax_build(MATRIX, "0.8.1", 13)
    assert old is not None
    assert new is not None
    assert old.cudnn == ">=9.8,<10"
    assert old.oldest_cuda == CudaVersion(12, 1)
    assert new.version == "0.8.1"
    assert new.oldest_gpu == ComputeCapability(7, 5)
    assert new.driver is not None
    assert new.driver.branch == 580


def test_cuda_13_begins_with_0_7_2_and_cuda_11_ends_before_0_4_26() -> None:
    assert next(one.version for one in frameworks.jax_releases(MATRIX) if 13 in one.cuda) == "0.7.2"
    assert [one.version for one in frameworks.jax_releases(MATRIX) if 11 in one.cuda][-1] == "0.4.25"
    assert frameworks.jax_build(MATRIX, "0.5.0", 13) is None


def test_a_version_that_was_not_read_is_not_guessed() -> None:
    """0.10.2 has code for sm_101, which 0.10.0 lacks: a release between two rows is like neither of them."""
    assert frameworks.jax_of(MATRIX, "0.4.37") is None
    assert frameworks.jax_build(MATRIX, "0.4.37", 12) is None
    assert frameworks.jax_of(MATRIX, "99.0") is None
    assert frameworks.jax_of(MATRIX, "0.1.0") is None
    assert frameworks.jax_build(MATRIX, "99.0", 13) is None


def test_releases_go_from_old_to_new_and_their_cudnn_is_known() -> None:
    found = frameworks.tensorflow_releases(MATRIX)
    assert all(numbers(old.version) < numbers(new.version) for old, new in pairwise(found))
    assert all(old.cuda <= new.cuda for old, new in pairwise(found))
    for one in found:
        assert one.pythons
        assert numbers(one.cudnn) < (7, 6) or libraries.cudnn_of(MATRIX, f"{one.cudnn}.0") is not None


def test_pins_bring_the_cuda_major_that_the_release_was_made_with() -> None:
    for line in MATRIX.table("tensorflow")["pins"]:
        release = frameworks.tensorflow_of(MATRIX, line["tensorflow"])
        assert release is not None
        exact = line["pins"]["cudart"].rpartition(">=")[2]
        assert numbers(exact)[0] == release.cuda.major


@pytest.mark.parametrize(
    ("version", "cuda", "cudnn_"),
    [("2.10.1", (11, 2), "8.1"), ("2.15.0", (12, 2), "8.9"), ("2.18.0", (12, 5), "9.3"), ("1.15.5", (10, 0), "7.4")],
)
def test_what_a_version_needs_of_tensorflow(version: str, cuda: tuple[int, int], cudnn_: str) -> None:
    found = frameworks.tensorflow_of(MATRIX, version)
    assert found is not None
    assert (found.cuda, found.cudnn) == (CudaVersion(*cuda), cudnn_)


def test_windows_has_no_gpu_after_2_10() -> None:
    assert frameworks.tensorflow_gpu_on(MATRIX, "2.10.1", "windows") is True
    assert frameworks.tensorflow_gpu_on(MATRIX, "2.11.0", "windows") is False
    assert frameworks.tensorflow_gpu_on(MATRIX, "2.11.0", "plan9") is None


def test_blackwell_runs_by_ptx_alone() -> None:
    newest = frameworks.tensorflow_releases(MATRIX)[-1]
    kinds = {arch.kind for arch in newest.archs if arch.runs_on(ComputeCapability(12, 0))}
    assert kinds == {"compute"}


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
def test_what_a_version_needs_of_onnx(version: str, cuda: int, cudnn: int) -> None:
    found = frameworks.onnxruntime_of(MATRIX, version)
    assert found is not None
    assert (found.cuda, found.cudnn) == (cuda, cudnn)
    assert frameworks.onnxruntime_of(MATRIX, "99.0") is None


def test_the_feed_for_cuda_12_changes_its_cudnn_with_1_18_1() -> None:
    assert [one.cudnn for one in frameworks.onnxruntime_feeds(MATRIX, "1.18.0")] == [8]
    assert [one.cudnn for one in frameworks.onnxruntime_feeds(MATRIX, "1.18.1")] == [9]
    assert [one.cuda for one in frameworks.onnxruntime_feeds(MATRIX, "1.20.0")] == [11]
    assert frameworks.onnxruntime_feeds(MATRIX, "1.27.0") == ()
