"""Toolkits and drivers work together as NVIDIA's tables say, on Linux and Windows, with and without compat packages."""

from __future__ import annotations

from itertools import pairwise

import pytest

from gpustack.matrix import Matrix
from gpustack.matrix.subjects import toolkits
from gpustack.model.versions import CodeArch, ComputeCapability, CudaVersion, DriverRelease

MATRIX = Matrix()


def test_every_toolkit_occurs_once_oldest_first_with_a_newer_driver_for_a_newer_one() -> None:
    found = toolkits.releases(MATRIX)
    assert len({one.version for one in found}) == len(found) == 75
    assert all(old.cuda <= new.cuda for old, new in pairwise(found))
    assert all(old.branch <= new.branch for old, new in pairwise(found) if new.version != "13.4.0")
    windows = [one.windows for one in found if one.windows]
    assert all(old <= new for old, new in pairwise(windows))
    assert all(one.branch == one.driver.branch for one in found if one.driver)


def test_the_driver_of_a_toolkit_on_linux_and_windows() -> None:
    known = {one.version: one for one in toolkits.releases(MATRIX)}
    found, refreshed = known["12.4.1"], known["12.8.2"]
    assert (found.driver, found.windows) == (DriverRelease(550, 54, 15), DriverRelease(551, 78))
    assert (refreshed.driver, refreshed.branch) == (None, 570)
    assert "12.7.0" not in known


def test_the_floor_of_a_family_is_below_the_drivers_of_its_toolkits() -> None:
    for one in toolkits.floors(MATRIX):
        later = [release for release in toolkits.releases(MATRIX) if release.cuda > CudaVersion(one.major)]
        same = [release.driver for release in later if release.cuda.major == one.major and release.driver]
        assert same
        assert all(one.linux <= driver for driver in same)
    twelve = toolkits.floor_of(MATRIX, CudaVersion(12, 9))
    assert twelve is not None
    assert (twelve.linux, twelve.windows) == (DriverRelease(525, 60, 13), DriverRelease(528, 33))
    assert toolkits.floor_of(MATRIX, CudaVersion(10, 2)) is None


def test_targets_agree_with_the_architectures() -> None:
    measured = [one for one in toolkits.targets(MATRIX) if one.capabilities]
    for one in measured:
        for capability in one.capabilities:
            arch = MATRIX.arch(capability)
            assert arch is not None
            assert arch.first_toolkit is not None
            assert arch.first_toolkit <= one.cuda <= (arch.last_toolkit or one.cuda)
    assert all(old.ptx <= new.ptx for old, new in pairwise(toolkits.targets(MATRIX)))


def test_cuda_13_compiles_for_turing_and_no_longer_for_volta() -> None:
    found = toolkits.target_of(MATRIX, CudaVersion(13, 0))
    assert found is not None
    assert found.ptx == (9, 0)
    assert ComputeCapability(7, 5) in found.capabilities
    assert ComputeCapability(7, 0) not in found.capabilities
    assert toolkits.target_of(MATRIX, CudaVersion(12, 7)) is None


@pytest.mark.parametrize(("arch", "cuda"), [("sm_90a", "12.0"), ("sm_100f", "12.9"), ("sm_120", "12.8")])
def test_the_first_toolkit_of_a_target(arch: str, cuda: str) -> None:
    parsed = CodeArch.parse(arch)
    assert parsed is not None
    assert toolkits.first_for(MATRIX, parsed) == CudaVersion.parse(cuda)


def test_a_target_that_does_not_exist_has_no_first_toolkit() -> None:
    assert toolkits.first_for(MATRIX, CodeArch("sm", ComputeCapability(7, 0), "a")) is None
    assert toolkits.first_for(MATRIX, CodeArch("sm", ComputeCapability(99, 0))) is None


def test_variants_are_not_older_than_their_architecture() -> None:
    for one in toolkits.variants(MATRIX):
        arch = MATRIX.arch(one.arch.capability)
        assert arch is not None
        assert arch.first_toolkit is not None
        assert arch.first_toolkit <= one.first


def test_compat_packages_for_an_old_driver_begin_with_the_smallest_step() -> None:
    found = [one.name for one in toolkits.compats_for(MATRIX, CudaVersion(12, 6), 535)]
    assert found == ["cuda-compat-12-6", "cuda-compat-12-8", "cuda-compat-12-9"]
    assert toolkits.compats_for(MATRIX, CudaVersion(13, 3), 580)[0].name == "cuda-compat-13-3"
    assert [one.name for one in toolkits.compats_for(MATRIX, CudaVersion(12, 6), 550)] == found
    assert toolkits.compats_for(MATRIX, CudaVersion(12, 6), 545) == ()
