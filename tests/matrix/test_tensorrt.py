"""The rows of TensorRT and NCCL: releases in order, and well-known facts about single ones."""

from __future__ import annotations

from itertools import pairwise

from gpustack.matrix import Matrix
from gpustack.matrix.subjects import libraries
from gpustack.matrix.subjects.ranges import numbers
from gpustack.model.versions import ComputeCapability, CudaVersion

MATRIX = Matrix()


def test_releases_go_from_old_to_new_under_the_name_of_their_major() -> None:
    found = libraries.tensorrt_releases(MATRIX)
    assert all(numbers(old.version) < numbers(new.version) for old, new in pairwise(found))
    assert len({one.row.text for one in found}) == len(found)
    for one in found:
        assert one.soname == f"libnvinfer.so.{numbers(one.version)[0]}"
        known = libraries.soname_of(MATRIX, one.soname)
        assert known is None or set(one.majors) <= set(known.majors), one.version


def test_the_oldest_gpu_never_goes_back() -> None:
    gpus = [one.oldest_gpu for one in libraries.tensorrt_releases(MATRIX) if one.oldest_gpu]
    assert all(old <= new for old, new in pairwise(gpus))


def test_volta_ends_with_10_4_and_cuda_13_begins_with_10_13_2() -> None:
    last, first = libraries.tensorrt_of(MATRIX, "10.4.0.26"), libraries.tensorrt_of(MATRIX, "10.5.0.18")
    assert last is not None
    assert first is not None
    assert last.oldest_gpu == ComputeCapability(7, 0)
    assert first.oldest_gpu == ComputeCapability(7, 5)
    assert next(one.version for one in libraries.tensorrt_releases(MATRIX) if 13 in one.majors) == "10.13.2"


def test_an_unknown_patch_release_is_taken_for_its_minor_and_an_unknown_minor_for_nothing() -> None:
    found = libraries.tensorrt_of(MATRIX, "10.16.1.11")
    assert found is not None
    assert found.version == "10.16.0"
    assert libraries.tensorrt_of(MATRIX, "99.0.0") is None


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
