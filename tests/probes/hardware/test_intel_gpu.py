"""Intel's GPUs in trees recorded on real machines, and in small fake ones for what no public dump has."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.told import Host, ToldHost, load
from tests.trees import named, plant, source

if TYPE_CHECKING:
    from pathlib import Path

GPU = load("hardware/intel_gpu.py")
MODULE = load("kernel_module/intel_ko.py")
RECORDED = named("intel")
BUS = "/sys/bus/pci/devices"
AT = "0000:03:00.0"
ARC = "DRIVER=xe\nPCI_CLASS=30000\nPCI_ID=8086:E20B\nPCI_SUBSYS_ID=8086:1100\nPCI_SLOT_NAME=0000:03:00.0\n"


def look(name: str, root: Path) -> dict[str, Any]:
    """Return the only GPU of a recorded tree."""
    (found,) = GPU["probe"](Host(root=str(plant(name, root))))
    return dict(found)


def told(files: dict[str, Any] | None = None, **said: Any) -> dict[str, Any]:  # noqa: ANN401 - as ToldHost takes it
    """Return the only GPU of a small tree made here, a Battlemage card unless given otherwise."""
    held = {f"{BUS}/{AT}/class": "0x030000\n", f"{BUS}/{AT}/uevent": ARC, **(files or {})}
    (found,) = GPU["probe"](ToldHost(held, **said))
    return dict(found)


@pytest.mark.parametrize(
    ("name", "key", "device", "driver", "card", "integrated"),
    [
        ("intel-arc-a380-i915", "0000:0b:00.0", "0x56a5", "i915", "card1", False),
        ("intel-arc-a380-xe", "0000:08:00.0", "0x56a5", "xe", "card0", False),
        ("intel-arc-b580-xe", "0000:0b:00.0", "0xe20b", "xe", "card1", False),
        ("intel-tiger-lake-xe", "0000:00:02.0", "0x9a49", "xe", None, True),
        ("intel-comet-lake-i915", "0000:00:02.0", "0x9b41", "i915", "card0", True),
    ],
)
def test_a_recorded_gpu_is_named_with_its_driver_and_place(  # noqa: PLR0917 - one row of the table
    name: str,
    key: str,
    device: str,
    driver: str,
    card: str | None,
    integrated: bool,  # noqa: FBT001 - a column
    tmp_path: Path,
) -> None:
    found = look(name, tmp_path)
    assert (found["key"], found["device_id"], found["driver"]) == (key, device, driver)
    assert (found["card"], found["integrated"]) == (card, integrated)
    assert found["survivability"] is None
    assert "https://" in source(name)


def test_all_recorded_trees_are_read() -> None:
    assert len(RECORDED) == 5


def test_clocks_are_read_from_xe_from_i915_and_from_i915_before_it_had_parts(tmp_path: Path) -> None:
    (first, second) = look("intel-arc-b580-xe", tmp_path / "xe")["clocks"]
    assert first == {
        "part": "tile0/gt0",
        "act": 400,
        "cur": 400,
        "min": 400,
        "max": 2850,
        "rp0": 2850,
        "rpn": 400,
        "throttled": False,
        "slowed_by": None,
    }
    assert (second["part"], second["max"]) == ("tile0/gt1", 1500)
    (clock,) = look("intel-arc-a380-i915", tmp_path / "i915")["clocks"]
    assert (clock["part"], clock["act"], clock["max"], clock["throttled"]) == ("gt0", 600, 2450, False)
    (clock,) = look("intel-comet-lake-i915", tmp_path / "old")["clocks"]
    assert (clock["part"], clock["cur"], clock["max"]) == ("gt", 300, 1150)


def test_a_gpu_behind_its_cards_switch_does_not_pass_for_one_on_a_slow_link(tmp_path: Path) -> None:
    link = look("intel-arc-b580-xe", tmp_path)["link"]
    assert link == {"speed": None, "width": None, "max_speed": None, "max_width": None, "at": None, "switch": True}
    assert look("intel-tiger-lake-xe", tmp_path / "inside")["link"] is None


def test_the_cards_link_is_that_of_its_switch() -> None:
    # made here: the path follows the topology in hykilpikonna/hyfetch#348, the speeds are from no recorded machine
    root = "/sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0"
    links = {f"{BUS}/{AT}": f"{root}/0000:02:01.0/{AT}", f"{BUS}/0000:01:00.0": root}
    real = f"{root}/0000:02:01.0/{AT}"
    slow = {"current_link_speed": "2.5 GT/s PCIe", "current_link_width": "1"}
    slow.update({name.replace("current", "max"): value for name, value in slow.items()})
    switch = {"current_link_speed": "16.0 GT/s PCIe", "current_link_width": "8"}
    switch.update({"max_link_speed": "16.0 GT/s PCIe", "max_link_width": "16", "uevent": "PCI_ID=8086:4FA0\n"})
    files = {f"{real}/class": "0x030000", f"{real}/uevent": ARC, **{f"{real}/{k}": v for k, v in slow.items()}}
    files.update({f"{root}/{name}": value for name, value in switch.items()})
    (found,) = GPU["probe"](ToldHost(files, links=links))
    expected = {"speed": 16.0, "width": 8, "max_speed": 16.0, "max_width": 16, "at": "0000:01:00.0", "switch": True}
    assert found["link"] == expected
    files[f"{root}/uevent"] = "PCI_ID=1022:1234\n"
    (found,) = GPU["probe"](ToldHost(files, links=links))
    assert found["link"]["at"] is None


def test_a_gpu_without_a_switch_tells_its_own_link() -> None:
    files = {"current_link_speed": "32.0 GT/s PCIe", "current_link_width": "16"}
    files.update({"max_link_speed": "32.0 GT/s PCIe", "max_link_width": "16"})
    link = told({f"{BUS}/{AT}/{name}": value for name, value in files.items()})["link"]
    assert link == {"speed": 32.0, "width": 16, "max_speed": 32.0, "max_width": 16, "at": AT, "switch": False}


def test_memory_is_what_xe_says_of_each_tile_or_i915_of_the_card() -> None:
    tiles = {f"{BUS}/{AT}/tile{number}/physical_vram_size_bytes": "0x300000000\n" for number in (0, 1)}
    assert told(tiles)["memory_bytes"] == 2 * 0x300000000
    card = {f"{BUS}/{AT}/drm/card1/lmem_total_bytes": "17179869184\n"}
    assert told(card)["memory_bytes"] == 17179869184
    assert told()["memory_bytes"] is None


def test_the_window_onto_the_memory_is_the_third_line() -> None:
    lines = "0x0000000084000000 0x0000000084ffffff 0x0000000000140204\n" + "0x0 0x0 0x0\n"
    whole = "0x0000004000000000 0x00000043ffffffff 0x000000000014220c\n"
    assert told({f"{BUS}/{AT}/resource": lines + whole})["memory_window_bytes"] == 16 << 30
    assert told({f"{BUS}/{AT}/resource": lines})["memory_window_bytes"] is None


def test_a_sleeping_gpu_is_not_woken_for_its_clocks() -> None:
    files = {f"{BUS}/{AT}/power_state": "D3cold\n", f"{BUS}/{AT}/tile0/gt0/freq0/max_freq": "2850\n"}
    assert told(files)["clocks"] == []


def test_who_owns_the_render_node_and_whether_this_login_may_use_it() -> None:
    node = {"kind": "char", "mode": "0o660", "uid": 0, "gid": 992, "readable": False, "writable": False}
    files = {
        f"{BUS}/{AT}/drm/renderD128/dev": "226:128\n",
        "/etc/group": "root:x:0:\nrender:x:992:ann\n",
        "/etc/passwd": "ann:x:1000:1000::/home/ann:/bin/sh\n",
        "/proc/self/status": "Uid:\t1000\t1000\t1000\t1000\nGid:\t1000\t1000\t1000\t1000\nGroups:\t1000 \n",
    }
    found = told(files, devices={"/dev/dri/renderD128": node})
    assert found["nodes"] == [
        {
            "path": "/dev/dri/renderD128",
            "exists": True,
            "mode": "0o660",
            "uid": 0,
            "gid": 992,
            "readable": False,
            "writable": False,
            "group": "render",
        }
    ]
    assert (found["login"]["groups"], found["login"]["account_groups"]) == ([], ["render"])
    (missing,) = told({f"{BUS}/{AT}/drm/renderD128/dev": "226:128\n"})["nodes"]
    assert (missing["exists"], missing["group"]) == (False, None)


def test_firmware_is_reported_where_the_debug_folder_may_be_read() -> None:
    # the words of the kernel's dump of a firmware (xe_uc_fw_print, intel_uc_fw_dump), the versions from a public log
    text = "GuC firmware: xe/bmg_guc_70.bin\n\tstatus: RUNNING\n\tfound release version 70.36.0\n"
    old = "HuC firmware: i915/dg2_huc_gsc.bin\n\tstatus: RUNNING\n\tversion: wanted 7.10, found 7.10.7\n"
    debug = "/sys/kernel/debug/dri/1/gt0/uc"
    drm = {f"{BUS}/{AT}/drm/card1/dev": "226:1\n"}
    found = told({**drm, f"{debug}/guc_info": text, f"{debug}/huc_info": old})["firmware"]
    assert found["guc"] == {"file": "xe/bmg_guc_70.bin", "state": "RUNNING", "version": "70.36.0"}
    assert found["huc"] == {"file": "i915/dg2_huc_gsc.bin", "state": "RUNNING", "version": "7.10.7"}
    denied = OSError(errno.EACCES, "Permission denied")
    shut = told({**drm, f"{debug}/guc_info": denied})
    assert shut["firmware"] == {"unread": "permission denied"}


def test_survivability_mode_is_recognised_by_its_file_whether_or_not_it_may_be_read() -> None:
    path = f"{BUS}/{AT}/survivability_mode"
    # the words of survivability_mode_show in the kernel's xe_survivability_mode.c
    text = "Survivability mode type: Boot\nCapability Info: 0x138000 - 0x1000103\n"
    assert told({path: text})["survivability"] == {"kind": "boot", "words": text.strip()}
    held = told({path: OSError(errno.EACCES, "Permission denied")})["survivability"]
    assert held == {"kind": None, "words": None, "unread": "denied"}


@pytest.mark.parametrize(
    "files",
    [
        {},
        {f"{BUS}/{AT}/class": "0x030000", f"{BUS}/{AT}/uevent": ARC.replace("8086:E20B", "10DE:2335")},
        {f"{BUS}/{AT}/class": "0x120000", f"{BUS}/{AT}/uevent": ARC.replace("30000", "120000")},
        {f"{BUS}/{AT}/class": "0x020000", f"{BUS}/{AT}/uevent": ARC},
        {f"{BUS}/{AT}/class": "0x030000", f"{BUS}/{AT}/uevent": OSError(errno.EACCES, "Permission denied")},
    ],
)
def test_a_machine_without_an_intel_gpu_has_none(files: dict[str, Any]) -> None:
    assert GPU["probe"](ToldHost(files)) is None


@given(text=st.text(max_size=80))
def test_whatever_the_files_hold_nothing_breaks(text: str) -> None:
    names = ("power_state", "resource", "current_link_speed", "max_link_speed", "tile0/physical_vram_size_bytes")
    found = told({f"{BUS}/{AT}/{name}": text for name in (*names, "tile0/gt0/freq0/max_freq", "survivability_mode")})
    assert found["driver"] == "xe"
    GPU["loaded"](text)


# The modules.


def module(name: str, files: dict[str, Any], **said: Any) -> dict[str, Any] | None:  # noqa: ANN401 - as ToldHost takes it
    found = MODULE["probe"](ToldHost(files, row={"module": name}, **said))
    return None if found is None else dict(found)


def test_a_module_of_the_kernels_own_tree_has_the_kernels_release() -> None:
    files = {
        "/sys/module/xe/initstate": "live\n",
        "/sys/module/xe/parameters/force_probe": "*\n",
        "/sys/module/xe/parameters/guc_log_level": "1\n",
        "/proc/sys/kernel/osrelease": "6.17.0-35-generic\n",
        f"/sys/bus/pci/drivers/xe/{AT}/vendor": "0x8086",
        "/sys/bus/pci/drivers/xe/bind": "",
    }
    found = module("xe", files)
    assert found is not None
    assert (found["version"], found["version_from"], found["state"]) == ("6.17.0-35-generic", "kernel", "live")
    assert (found["gpus"], found["parameters"]) == ([AT], {"force_probe": "*"})
    own = module("xe", {**files, "/sys/module/xe/version": "1.25.9\n"})
    assert own is not None
    assert (own["version"], own["version_from"]) == ("1.25.9", "module")
    inside = module("i915", {"/sys/module/i915/uevent": ""})
    assert inside is not None
    assert (inside["loaded"], inside["state"], inside["version"]) == (True, "built in", None)


def test_a_module_on_disk_is_reported_where_a_gpu_waits_for_it_and_absent_elsewhere() -> None:
    disk = {
        "/proc/sys/kernel/osrelease": "6.8.0-50-generic\n",
        "/lib/modules/6.8.0-50-generic/modules.dep": "kernel/drivers/gpu/drm/xe/xe.ko.zst: kernel/x.ko\n",
    }
    assert module("xe", disk) is None
    gpu = {f"{BUS}/{AT}/class": "0x030000\n", f"{BUS}/{AT}/vendor": "0x8086\n"}
    found = module("xe", {**disk, **gpu})
    assert found is not None
    assert (found["loaded"], found["version"], found["state"]) == (False, None, None)
    assert str(found["path"]).endswith("/xe.ko.zst")
    assert module("i915", {**disk, **gpu}) is None
