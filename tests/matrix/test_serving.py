"""Inference servers pin torch and each of their images contains one CUDA; the releases of vLLM."""

from __future__ import annotations

from itertools import pairwise

import pytest

from gpustack.matrix import Matrix
from gpustack.matrix.subjects import serving
from gpustack.matrix.subjects.ranges import VersionRange, version_of
from gpustack.model.versions import CodeArch, ComputeCapability, CudaVersion

MATRIX = Matrix()


@pytest.mark.parametrize("component", ["sglang", "tgi", "tensorrt-llm", "triton-inference-server"])
def test_every_release_occurs_once_oldest_first(component: str) -> None:
    found = serving.releases(MATRIX, component)
    assert found
    versions = [version_of(one.version) for one in found]
    assert all(old and new and old < new for old, new in pairwise(versions))
    assert len({one.row.text for one in found}) == len(found)


def test_sglang_went_to_cuda_13_with_torch_2_11() -> None:
    old, new = (serving.release_of(MATRIX, "sglang", version) for version in ("0.5.10", "0.5.12"))
    assert old is not None
    assert new is not None
    assert (old.cuda, new.cuda) == (CudaVersion(12, 8), CudaVersion(13, 0))
    assert old.torch.holds("2.9.1+cu128")
    assert new.torch.holds("2.11.0")
    assert not new.torch.holds("2.9.1")


def test_tgi_holds_ptx_of_its_newest_target() -> None:
    found = serving.release_of(MATRIX, "tgi", "3.3.0")
    assert found is not None
    assert [CodeArch.parse(text) for text in ("sm_80", "sm_86", "sm_90", "compute_90")] == list(found.archs)
    assert any(one.runs_on(ComputeCapability(12, 0)) for one in found.archs)


def test_a_release_may_leave_torch_open() -> None:
    found = serving.release_of(MATRIX, "sglang", "0.4.0")
    assert found is not None
    assert found.torch.text == ""
    assert found.row.text == "sglang 0.4.0 requires torch of any version"


def test_what_no_row_states() -> None:
    assert serving.releases(MATRIX, "bentoml") == ()
    assert serving.release_of(MATRIX, "sglang", "99.0") is None


def test_every_release_of_vllm_occurs_once_oldest_first() -> None:
    found = serving.vllm_releases(MATRIX)
    versions = [version_of(one.version) for one in found]
    assert all(old and new and old < new for old, new in pairwise(versions))
    assert len({one.row.text for one in found}) == len(found) > 30
    cudas = [one.cuda for one in found if one.cuda]
    assert all(old <= new for old, new in pairwise(cudas))


@pytest.mark.parametrize(
    ("version", "torch", "cuda"), [("0.19.1", "2.10.0", "12.8"), ("0.20.2+cu130", "2.11.0+cu130", "13.0")]
)
def test_what_a_release_asks_for(version: str, torch: str, cuda: str) -> None:
    found = serving.vllm_of(MATRIX, version)
    assert found is not None
    assert found.torch.holds(torch)
    assert not found.torch.holds("2.9.1")
    assert found.cuda == CudaVersion.parse(cuda)
    assert found.python.holds("3.12.4")


def test_the_lowest_gpu_of_a_release() -> None:
    floor = serving.vllm_floor(MATRIX, "0.20.2")
    assert floor is not None
    assert floor.capability == ComputeCapability(7, 5)


def test_the_lowest_gpus_do_not_overlap() -> None:
    spans = [VersionRange.parse(line["versions"]) for line in MATRIX.table("vllm")["gpus"]]
    assert spans
    for one in serving.vllm_releases(MATRIX):
        assert sum(span.holds(one.version) for span in spans) <= 1


def test_a_release_that_no_row_states() -> None:
    assert serving.vllm_of(MATRIX, "99.0") is None
    assert serving.vllm_of(MATRIX, "main") is None
    assert serving.vllm_floor(MATRIX, "main") is None
