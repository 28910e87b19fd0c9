"""Releases of vLLM ask for one torch each, and run from a compute capability on."""

from __future__ import annotations

from itertools import pairwise

import pytest

from gpustack.matrix import Matrix
from gpustack.matrix.subjects import serving
from gpustack.matrix.subjects.ranges import VersionRange, version_of
from gpustack.model.versions import ComputeCapability, CudaVersion

MATRIX = Matrix()


def test_every_release_stands_once_oldest_first() -> None:
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
