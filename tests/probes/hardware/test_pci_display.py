"""The PCI bus of fake machines: GPUs, accelerators and switches on it, and machines without any."""

from __future__ import annotations

import errno
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.told import Host, ToldHost, load

PCI = load("hardware/pci_display.py")
DEVICES = "/sys/bus/pci/devices"
ROOT = "/sys/devices/pci0000:64"
BRIDGE = f"{ROOT}/0000:64:02.0"
GPU = f"{BRIDGE}/0000:65:00.0"


def device(path: str, **files: object) -> dict[str, Any]:
    return {f"{path}/{name}": held if isinstance(held, OSError) else f"{held}\n" for name, held in files.items()}


def look(files: dict[str, Any], links: dict[str, str] | None = None) -> Any:  # noqa: ANN401 - a probe's answer
    return PCI["probe"](ToldHost(files, links=links))


def test_a_gpu_with_its_link_its_bridge_and_its_owner() -> None:
    files = {
        **device(
            GPU,
            vendor="0x10de",
            device="0x2684",
            subsystem_vendor="0x1043",
            subsystem_device="0x889a",
            **{"class": "0x030000"},
            current_link_speed="2.5 GT/s PCIe",
            current_link_width=16,
            max_link_speed="16.0 GT/s PCIe",
            max_link_width=16,
            numa_node=0,
            boot_vga=1,
            power_state="D0",
            aer_dev_correctable="RxErr 3\nBadTLP 0\nTOTAL_ERR_COR 3",
            aer_dev_nonfatal="Undefined 0\nTOTAL_ERR_NONFATAL 0",
            aer_dev_fatal="Undefined 0\nTOTAL_ERR_FATAL 1",
            resource="0x0000000084000000 0x0000000084ffffff 0x0000000000040200\n"
            "0x0000000000000000 0x00000007ffffffff 0x000000000014220c\n"
            "0x0000000000000000 0x0000000000000000 0x0000000000000000",
        ),
        **device(
            BRIDGE,
            vendor="0x8086",
            **{"class": "0x060400"},
            current_link_speed="2.5 GT/s PCIe",
            current_link_width=8,
            max_link_speed="16.0 GT/s PCIe",
            max_link_width=16,
            aer_dev_correctable="RxErr 40\nTOTAL_ERR_COR 40",
        ),
        **device(f"{BRIDGE}/0000:65:00.1", vendor="0x10de", **{"class": "0x040300"}),
    }
    links = {
        f"{DEVICES}/0000:64:02.0": "../../../devices/pci0000:64/0000:64:02.0",
        f"{DEVICES}/0000:65:00.0": "../../../devices/pci0000:64/0000:64:02.0/0000:65:00.0",
        f"{DEVICES}/0000:65:00.1": "../../../devices/pci0000:64/0000:64:02.0/0000:65:00.1",
        f"{DEVICES}/0000:65:00.0/driver": "../../../../bus/pci/drivers/nouveau",
        f"{DEVICES}/0000:65:00.0/iommu_group": "../../../../kernel/iommu_groups/17",
    }
    assert look(files, links) == [
        {
            "key": "0000:65:00.0",
            "vendor": "nvidia",
            "vendor_id": "0x10de",
            "device_id": "0x2684",
            "subsystem": ["0x1043", "0x889a"],
            "class": "0x030000",
            "driver": "nouveau",
            "link": {"speed": 2.5, "width": 16, "max_speed": 16.0, "max_width": 16},
            "bridges": [
                {
                    "pci": "0000:64:02.0",
                    "speed": 2.5,
                    "width": 8,
                    "max_speed": 16.0,
                    "max_width": 16,
                    "aer": {"correctable": 40, "nonfatal": None, "fatal": None},
                }
            ],
            "numa_node": 0,
            "aer": {"correctable": 3, "nonfatal": 0, "fatal": 1},
            "boot_vga": True,
            "virtual_function": False,
            "power_state": "D0",
            "iommu_group": 17,
            "bars": [{"bytes": 1 << 24, "assigned": True}, {"bytes": 1 << 35, "assigned": False}],
        }
    ]


def test_the_gpu_of_a_microvm_has_no_bridge_no_node_and_counts_no_errors() -> None:
    """The H200 host of 2026-11-21."""
    files = device(
        "/sys/devices/pci0000:00/0000:00:06.0",
        vendor="0x10de",
        device="0x2335",
        **{"class": "0x030200"},
        current_link_speed="32.0 GT/s PCIe",
        current_link_width=16,
        max_link_speed="32.0 GT/s PCIe",
        max_link_width=16,
        numa_node=-1,
    )
    links = {
        f"{DEVICES}/0000:00:06.0": "../../../devices/pci0000:00/0000:00:06.0",
        f"{DEVICES}/0000:00:06.0/driver": "../../../bus/pci/drivers/nvidia",
    }
    (seen,) = look(files, links)
    assert (seen["key"], seen["vendor"], seen["driver"]) == ("0000:00:06.0", "nvidia", "nvidia")
    assert seen["link"] == {"speed": 32.0, "width": 16, "max_speed": 32.0, "max_width": 16}
    assert seen["bridges"] == []
    assert seen["numa_node"] is None
    assert seen["aer"] == {"correctable": None, "nonfatal": None, "fatal": None}
    assert seen["boot_vga"] is None
    assert seen["bars"] == []


def test_accelerators_switches_and_other_makers_are_seen_and_the_rest_is_not() -> None:
    kinds = {
        "0000:01:00.0": ("0x1002", "0x120000", "amd"),
        "0000:02:00.0": ("0x8086", "0x038000", "intel"),
        "0000:03:00.0": ("0x1a03", "0x030000", "other"),
        "0000:04:00.0": ("0x10de", "0x068000", "nvidia"),
        "0000:05:00.0": ("0x8086", "0x068000", None),
        "0000:06:00.0": ("0x1af4", "0x020000", None),
    }
    files: dict[str, Any] = {}
    for name, (vendor, class_, _) in kinds.items():
        files.update(device(f"{DEVICES}/{name}", vendor=vendor, **{"class": class_}))
    seen = {row["key"]: row["vendor"] for row in look(files)}
    assert seen == {name: vendor for name, (_, _, vendor) in kinds.items() if vendor}


def test_a_gpu_that_has_fallen_off_the_bus_keeps_its_place_with_what_is_left() -> None:
    files = device(
        f"{DEVICES}/0000:65:00.0",
        vendor="0x10de",
        **{"class": "0x030200"},
        current_link_speed="Unknown",
        current_link_width=63,
        max_link_speed=OSError(errno.EIO, "Input/output error"),
    )
    (seen,) = look(files)
    assert seen["driver"] is None
    assert seen["link"] == {"speed": None, "width": 63, "max_speed": None, "max_width": None}


def test_no_bus_and_an_empty_bus_are_absence() -> None:
    assert look({"/sys/kernel/vmcoreinfo": ""}) is None
    assert look({"/sys/bus/pci/devices/.keep": ""}) is None


def test_where_the_kernel_shows_nothing_the_answer_is_unknown() -> None:
    with pytest.raises(OSError, match="/sys: nothing is mounted there"):
        look({})


def test_a_device_that_may_be_a_gpu_is_not_absence() -> None:
    denied = device(f"{DEVICES}/0000:65:00.0", **{"class": OSError(errno.EACCES, "Permission denied")})
    with pytest.raises(OSError, match=r"0000:65:00.0/class: denied"):
        look(denied)
    with pytest.raises(OSError, match=r"0000:65:00.0/vendor: no number of PCI stands in it"):
        look(device(f"{DEVICES}/0000:65:00.0", vendor="?", **{"class": "0x030000"}))
    other = device(f"{DEVICES}/0000:66:00.0", vendor="0x10de", **{"class": "0x030200"})
    assert [row["key"] for row in look({**denied, **other}) or []] == ["0000:66:00.0"]


def test_this_machine_answers() -> None:
    seen = PCI["probe"](Host()) or []
    assert all(row["class"].startswith(("0x03", "0x12", "0x0680")) for row in seen)


@given(st.text())
def test_no_text_is_too_odd(text: str) -> None:
    assert PCI["number"](text) is None or isinstance(PCI["number"](text), int)
    assert PCI["speed"](text) is None or PCI["speed"](text) >= 0
    assert isinstance(PCI["bars"](text), list)
    files = device(
        f"{DEVICES}/0000:65:00.0", vendor="0x10de", **{"class": "0x030000"}, resource=text, aer_dev_fatal=text
    )
    assert len(look(files)) == 1
