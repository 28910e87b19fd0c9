"""TensorFlow's rows: releases in order, pins that agree with them, and well-known facts."""

from __future__ import annotations

from itertools import pairwise

import pytest

from gpustack.matrix import Matrix
from gpustack.matrix.subjects import frameworks, libraries
from gpustack.matrix.subjects.ranges import numbers
from gpustack.model.versions import ComputeCapability, CudaVersion

MATRIX = Matrix()


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
def test_what_a_version_needs(version: str, cuda: tuple[int, int], cudnn_: str) -> None:
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
