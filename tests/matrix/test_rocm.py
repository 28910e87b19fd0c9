"""An AMD GPU's name yields its target; torch, ROCm and the driver follow rows; Intel's devices have platforms."""

from __future__ import annotations

from itertools import pairwise

import pytest

from gpustack.matrix import Matrix
from gpustack.matrix.subjects import amd_intel
from gpustack.matrix.subjects.ranges import version_of

MATRIX = Matrix()


@pytest.mark.parametrize(
    ("name", "gfx"),
    [
        ("AMD Radeon RX 7900 XTX", "gfx1100"),
        ("AMD Instinct MI300X OAM", "gfx942"),
        ("AMD Instinct MI250X/MI250", "gfx90a"),
        ("AMD Radeon(TM) 780M Graphics", "gfx1103"),
        ("Radeon RX 6700 XT", "gfx1031"),
        ("Radeon RX 6700S", "gfx1032"),
        ("Radeon 8060S Graphics", "gfx1151"),
        ("AMD Radeon RX 9070 XT", "gfx1201"),
        ("gfx90a:sramecc+:xnack-", "gfx90a"),
        ("gfx1036", "gfx1036"),
    ],
)
def test_a_name_tells_the_target(name: str, gfx: str) -> None:
    found = amd_intel.gfx_of(MATRIX, name)
    assert found is not None
    assert found.gfx == gfx


@pytest.mark.parametrize("name", ["", "NVIDIA H200", "AMD Radeon Graphics", "AMD Radeon HD 6970", "gfx9999"])
def test_a_name_that_tells_no_target(name: str) -> None:
    assert amd_intel.gfx_of(MATRIX, name) is None


def test_every_target_and_every_name_occurs_once() -> None:
    found = amd_intel.targets(MATRIX)
    names = [words for one in found for words in one.names]
    assert len({one.gfx for one in found}) == len({one.row.text for one in found}) == len(found)
    assert len(set(names)) == len(names)
    assert all(words == words.lower() for words in names)


def test_every_target_named_elsewhere_is_one() -> None:
    known = {one.gfx for one in amd_intel.targets(MATRIX)}
    assert {one.gfx for one in amd_intel.overrides(MATRIX)} <= known
    for release in ("6.1", "6.2.4", "7.0", "7.1.1", "7.14", "10.0"):
        assert {gfx for one in amd_intel.support_of(MATRIX, release) for gfx in one.gfx} <= known
    assert {gfx for one in amd_intel.torch_builds(MATRIX) for gfx in one.archs} <= known | {"gfx803"}


def test_what_a_release_supports() -> None:
    levels = {one.level: one.gfx for one in amd_intel.support_of(MATRIX, "6.2.4")}
    assert "gfx942" in levels["supported"]
    assert "gfx906" in levels["deprecated"]
    assert {"gfx1201", "gfx1101"} <= {gfx for one in amd_intel.support_of(MATRIX, "6.4.1") for gfx in one.gfx}
    assert amd_intel.support_of(MATRIX, "6.4.4") == ()  # its list was not read


@pytest.mark.parametrize("rocm", ["6.4.3", "7.0.1", "7.0.2", "7.1.1", "7.2.1", "7.2.4"])
def test_each_release_from_6_4_2_on_supports_what_its_own_page_lists(rocm: str) -> None:
    supported = next(one.gfx for one in amd_intel.support_of(MATRIX, rocm) if one.level == "supported")
    assert {"gfx942", "gfx908", "gfx1201", "gfx1101", "gfx1030"} <= set(supported)
    assert ("gfx950" in supported) == (rocm[0] == "7")  # MI350X and MI355X
    assert not {"gfx906", "gfx1151"} & set(supported)


def test_the_rocm_builds_of_torch() -> None:
    found = amd_intel.torch_builds(MATRIX)
    assert len({(one.torch, one.rocm) for one in found}) == len(found)
    keys = [(version_of(one.torch), version_of(one.rocm)) for one in found]
    assert all(old < new for old, new in pairwise(keys))
    one = amd_intel.torch_build_of(MATRIX, "2.4.1+rocm6.1", "6.1")
    assert one is not None
    assert "gfx942" in one.archs
    bare = amd_intel.torch_build_of(MATRIX, "2.13.0", "7.2")
    assert bare is not None
    assert bare.archs == ()  # gfx1103 was added about then
    for torch, rocm in (("2.9", "6.3"), ("2.10", "7.1"), ("2.12", "7.2")):
        build = amd_intel.torch_build_of(MATRIX, torch, rocm)
        assert build
        assert "gfx1201" in build.archs
        assert ("gfx1151" in build.archs) == rocm.startswith("7")
    assert amd_intel.torch_build_of(MATRIX, "2.7.1", "7.2") is None


def test_the_window_of_a_driver() -> None:
    found = amd_intel.driver_windows(MATRIX)
    assert len({one.driver for one in found}) == len(found)
    window = amd_intel.driver_window_of(MATRIX, "6.3.3")
    assert window is not None
    assert window.rocm.holds("6.1.3")
    assert not window.rocm.holds("6.0.2")
    assert amd_intel.driver_window_of(MATRIX, "4.5") is None


def test_the_module_of_a_driver() -> None:
    modules = {one.module: one.driver for one in amd_intel.driver_modules(MATRIX)}
    assert modules["6.14.14"] == "30.10"


def test_the_override_of_a_target_without_code_of_its_own() -> None:
    found = amd_intel.override_of(MATRIX, "gfx1031")
    assert found is not None
    assert found.value == "10.3.0"
    assert found.outcome
    assert amd_intel.override_of(MATRIX, "gfx942") is None


def test_every_device_is_of_one_platform() -> None:
    found = amd_intel.platforms(MATRIX)
    devices = [device for one in found for device in one.devices]
    assert len(set(devices)) == len(devices) > 50
    assert len({one.row.text for one in found}) == len(found)
    assert all(0 < device <= 0xFFFF for device in devices)


@pytest.mark.parametrize(
    ("device", "platform", "xe"), [(0xE20B, "Battlemage", True), (0x56A0, "Alchemist", False), (0x64A0, "Lunar", True)]
)
def test_the_platform_of_a_device(device: int, platform: str, *, xe: bool) -> None:
    found = amd_intel.platform_of(MATRIX, device)
    assert found is not None
    assert platform in found.name
    assert found.xe is xe
    assert not found.legacy
    assert found.level_zero


def test_old_platforms_need_the_old_packages() -> None:
    assert any(one.legacy for one in amd_intel.platforms(MATRIX))
    assert any("legacy1" in one.row.text for one in amd_intel.platforms(MATRIX) if one.legacy)


def test_the_runtime_of_a_torch() -> None:
    found = amd_intel.xpu_build_of(MATRIX, "2.13.0+xpu")
    assert found is not None
    assert found.runtime
    assert amd_intel.xpu_build_of(MATRIX, "1.13") is None
    pinned = {one.torch: one.runtime for one in amd_intel.xpu_builds(MATRIX)}
    assert [pinned[f"2.{minor}"] for minor in (8, 9, 10)] == ["2025.1.1", "2025.2.1", "2025.3.1"]
    builds = amd_intel.xpu_builds(MATRIX)
    assert len({one.torch for one in builds}) == len(builds)


def test_a_device_that_no_row_states() -> None:
    assert amd_intel.platform_of(MATRIX, 0x0001) is None
