"""NCCL's rows: releases in order, wheels by CUDA major, and codes."""

from __future__ import annotations

from itertools import pairwise

from gpustack.matrix import Matrix
from gpustack.matrix.subjects import libraries
from gpustack.matrix.subjects.ranges import numbers
from gpustack.model.versions import ComputeCapability, CudaVersion

MATRIX = Matrix()


def test_releases_go_from_old_to_new_and_are_built_with_cuda_of_their_wheel() -> None:
    found = libraries.nccl_releases(MATRIX)
    assert all(numbers(old.version) < numbers(new.version) for old, new in pairwise(found))
    assert len({one.row.text for one in found}) == len(found)
    for one in found:
        assert all(cuda.major == major for major, cuda in one.built.items())
        assert set(one.archs) <= set(one.built)


def test_a_newer_nccl_may_be_built_with_an_older_cuda() -> None:
    old, new = libraries.nccl_of(MATRIX, "2.21.5"), libraries.nccl_of(MATRIX, "2.25.1")
    assert old is not None
    assert new is not None
    assert new.built[12] < old.built[12]
    assert old.built[12] == CudaVersion(12, 4)
    assert libraries.nccl_of(MATRIX, "99.0.0") is None


def test_maxwell_leaves_the_wheel_with_2_28() -> None:
    old, new = libraries.nccl_of(MATRIX, "2.27.7"), libraries.nccl_of(MATRIX, "2.28.9")
    assert old is not None
    assert new is not None
    assert any(arch.runs_on(ComputeCapability(5, 2)) for arch in old.archs[12])
    assert not any(arch.runs_on(ComputeCapability(5, 2)) for arch in new.archs[12])


def test_each_cuda_major_has_its_wheel_with_the_driver_of_its_family() -> None:
    for major, family in MATRIX.families.items():
        wheel = libraries.nccl_wheel(MATRIX, major)
        assert wheel is not None
        assert wheel.driver == family.linux
    assert libraries.nccl_wheel(MATRIX, 10) is None
