"""JAX's rows: releases and builds in order, and well-known facts about single ones."""

from __future__ import annotations

from itertools import pairwise

from gpustack.matrix import Matrix
from gpustack.matrix.subjects import frameworks, libraries
from gpustack.matrix.subjects.ranges import numbers, within
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
