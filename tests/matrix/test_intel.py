"""A PCI device or a product tells the Intel platform, and a torch the oneAPI runtime."""

from __future__ import annotations

import pytest

from gpustack.matrix import Matrix
from gpustack.matrix.subjects import amd_intel

MATRIX = Matrix()


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
