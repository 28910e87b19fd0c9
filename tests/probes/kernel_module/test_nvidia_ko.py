"""NVIDIA's kernel modules: in memory, on disk, both, neither, and what blocks them."""

from __future__ import annotations

import errno
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.told import REPO, Host, ToldHost, load

MODULE = load("kernel_module/nvidia_ko.py")
ROWS = {row["id"]: row for row in json.loads((REPO / "probes" / "catalogue.json").read_text("utf-8"))["systems"]}
RUNNING = {"/proc/sys/kernel/osrelease": "6.8.0-50-generic\n"}
TREE = "/lib/modules/6.8.0-50-generic"
OPEN_DOOR = OSError(errno.EINVAL, "Invalid argument")
BANNER_OPEN = (
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (builder@)  \n"
    "GCC version:  gcc version 15.3.0 (GCC) \n"
)
BANNER_CLOSED = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  520.56.06  Thu Oct  6 21:38:55 UTC 2022\n"
# As the H200 host of 2026-11-21 writes it; the identifier is made up.
INFORMATION = (
    "Model: \t\t NVIDIA H200\nIRQ:   \t\t 41\nGPU UUID: \t GPU-00000000-0000-0000-0000-000000000000\n"
    "Video BIOS: \t 96.00.a5.00.1a\nBus Type: \t PCIe\nBus Location: \t 0000:00:06.0\nDevice Minor: \t 0\n"
    "GPU Firmware: \t 580.159.04\nGPU Excluded:\t No\n"
)
MODINFO = (
    f"filename:       {TREE}/updates/dkms/nvidia.ko.zst\nimport_ns:      DMA_BUF\nalias:          char-major-195-*\n"
    "version:        580.95.05\nlicense:        Dual MIT/GPL\nsrcversion:     EA59\ndepends:        \n"
    "vermagic:       6.8.0-50-generic SMP preempt mod_unload modversions \nsigner:         box Secure Boot key\n"
    "parm:           NvSwitchRegDwords:NvSwitch regkey (charp)\nparm:           version:odd (int)\n"
)
CHAR = {"kind": "char", "mode": "0o666", "uid": 0, "gid": 0}


def look(files: dict[str, Any], system: str = "nvidia.ko", **told: Any) -> Any:  # noqa: ANN401 - a probe's answer
    return MODULE["probe"](ToldHost({**RUNNING, **files}, row=ROWS[system], **told))


def test_loaded_without_a_module_tree_as_on_the_h200_host() -> None:
    files = {
        "/proc/sys/kernel/osrelease": "6.18.44-fc-v657-gpu\n",
        "/sys/module/nvidia/initstate": "live\n",
        "/sys/module/nvidia/version": "580.159.04\n",
        "/sys/module/nvidia/refcnt": "3\n",
        "/proc/driver/nvidia/version": BANNER_OPEN,
        "/proc/driver/nvidia/params": 'ModifyDeviceFiles: 1\nNvLinkDisable: 1\nRegistryDwords: ""\n',
        "/proc/driver/nvidia/gpus/0000:00:06.0/information": INFORMATION,
        "/dev/nvidiactl": OPEN_DOOR,
        "/dev/nvidia0": OPEN_DOOR,
    }
    open_ = {**CHAR, "readable": True, "writable": True}
    seen = look(files, devices={"/dev/nvidiactl": open_, "/dev/nvidia0": open_})
    assert (seen["version"], seen["version_loaded"], seen["version_on_disk"]) == ("580.159.04", "580.159.04", None)
    assert (seen["loaded"], seen["state"], seen["users"]) == (True, "live", 3)
    assert (seen["flavour"], seen["path"], seen["vermagic"]) == ("open", None, None)
    assert seen["parameters"] == {"ModifyDeviceFiles": "1", "NvLinkDisable": "1", "RegistryDwords": '""'}
    assert (seen["competitors"], seen["blacklisted"], seen["nouveau_blacklisted"]) == ([], [], False)
    shown = {"exists": True, "readable": True, "writable": True, "mode": "0o666", "uid": 0, "gid": 0}
    assert seen["nodes"] == [{"path": "/dev/nvidiactl", "open": "ok", **shown}, {"path": "/dev/nvidia0", **shown}]
    assert seen["gpus"] == [
        {"pci": "0000:00:06.0", "model": "NVIDIA H200", "firmware": "580.159.04", "excluded": False, "minor": 0}
    ]


def test_loaded_and_on_disk_may_differ_in_release_and_flavour() -> None:
    files = {
        "/sys/module/nvidia/initstate": "live\n",
        "/sys/module/nvidia/version": "520.56.06\n",
        "/proc/driver/nvidia/version": BANNER_CLOSED,
        f"{TREE}/modules.dep": "kernel/fs/ext4/ext4.ko.zst: kernel/lib/crc16.ko.zst\nupdates/dkms/nvidia.ko.zst:\n",
    }
    commands = {f"modinfo {TREE}/updates/dkms/nvidia.ko.zst": MODINFO}
    seen = look(files, commands=commands)
    assert (seen["version"], seen["version_loaded"], seen["version_on_disk"]) == ("520.56.06", "520.56.06", "580.95.05")
    assert (seen["flavour"], seen["flavour_on_disk"]) == ("proprietary", "open")
    assert seen["path"] == f"{TREE}/updates/dkms/nvidia.ko.zst"
    assert seen["vermagic"] == "6.8.0-50-generic SMP preempt mod_unload modversions"
    assert seen["signer"] == "box Secure Boot key"


def test_on_disk_and_not_loaded_with_everything_in_its_way() -> None:
    files = {
        f"{TREE}/modules.dep": "extra/nvidia.ko:\n",
        "/etc/modprobe.d/blacklist-nvidia.conf": "# prime\nblacklist nvidia\nblacklist nvidia-drm\n",
        "/usr/lib/modprobe.d/nvidia.conf": "blacklist nouveau\nalias nouveau off\noptions nvidia NVreg_X=1\n",
        "/proc/cmdline": "ro modprobe.blacklist=nvidia,pcspkr\n",
        "/sys/module/nouveau/initstate": "live\n",
        "/sys/bus/pci/drivers/vfio-pci/0000:65:00.0/vendor": "0x10de\n",
        "/sys/bus/pci/drivers/vfio-pci/0000:65:00.0/class": "0x030000\n",
        "/sys/bus/pci/drivers/vfio-pci/new_id": "",
        "/sys/bus/pci/drivers/pci-stub/0000:65:00.1/vendor": "0x10de\n",
        "/sys/bus/pci/drivers/pci-stub/0000:65:00.1/class": "0x040300\n",
        "/dev/nvidiactl": "",
    }
    seen = look(files, commands={f"modinfo {TREE}/extra/nvidia.ko": "version: 580.95.05\nlicense: NVIDIA\n"})
    assert (seen["loaded"], seen["state"], seen["version"]) == (False, None, "580.95.05")
    assert (seen["flavour"], seen["parameters"]) == ("proprietary", {})
    assert seen["blacklisted"] == ["/etc/modprobe.d/blacklist-nvidia.conf", "/proc/cmdline"]
    assert seen["nouveau_blacklisted"] is True
    assert seen["competitors"] == ["nouveau", "vfio-pci"]
    assert "open" not in seen["nodes"][0]


def test_a_file_of_the_same_name_in_a_nearer_folder_takes_its_place() -> None:
    files = {f"{TREE}/modules.dep": "extra/nvidia.ko:\n", "/usr/lib/modprobe.d/x.conf": "blacklist nvidia\n"}
    assert look({**files, "/etc/modprobe.d/x.conf": ""})["blacklisted"] == []
    assert look({**files, "/etc/modprobe.d/y.conf": ""})["blacklisted"] == ["/usr/lib/modprobe.d/x.conf"]


def test_one_file_seen_through_two_folders_is_one_file() -> None:
    files = {f"{TREE}/modules.dep": "extra/nvidia.ko:\n", "/usr/lib/modprobe.d/x.conf": "install nvidia /bin/false\n"}
    links = {"/lib/modprobe.d/x.conf": "/usr/lib/modprobe.d/x.conf"}
    assert look(files, links=links)["blacklisted"] == ["/usr/lib/modprobe.d/x.conf"]


def test_a_path_on_disk_without_modinfo_is_known_by_its_path_alone() -> None:
    seen = look({f"{TREE}/modules.dep": "/opt/nvidia.ko.xz: a.ko\n"})
    assert (seen["path"], seen["version"], seen["flavour"]) == ("/opt/nvidia.ko.xz", None, None)


def test_a_container_that_shows_the_banner_alone_has_the_module_loaded() -> None:
    seen = look({"/proc/driver/nvidia/version": BANNER_CLOSED})
    assert (seen["loaded"], seen["state"], seen["version"]) == (True, None, "520.56.06")
    assert seen["flavour"] == "proprietary"


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (OPEN_DOOR, "ok"),
        (OSError(errno.EPERM, "Operation not permitted"), "denied"),
        (OSError(errno.EIO, "I/O"), "[Errno 5] I/O"),
    ],
)
def test_a_node_that_may_be_opened_by_its_mode_may_be_refused_anyway(error: OSError, says: str) -> None:
    files = {"/sys/module/nvidia/initstate": "live\n", "/dev/nvidiactl": error}
    seen = look(files, devices={"/dev/nvidiactl": {**CHAR, "readable": True, "writable": True}})
    (node,) = seen["nodes"]
    assert (node["readable"], node["open"]) == (True, says)


def test_missing_nodes_are_named() -> None:
    seen = look({"/sys/module/nvidia_uvm/initstate": "live\n"}, "nvidia-uvm.ko")
    missing = {"exists": False, "readable": None, "writable": None, "mode": None, "uid": None, "gid": None}
    assert seen["nodes"] == [{"path": path, **missing} for path in ("/dev/nvidia-uvm", "/dev/nvidia-uvm-tools")]


def test_a_sibling_has_parameters_of_its_own_and_no_gpus() -> None:
    files = {
        "/sys/module/nvidia_drm/initstate": "live\n",
        "/sys/module/nvidia_drm/version": "580.95.05\n",
        "/sys/module/nvidia_drm/parameters/modeset": "Y\n",
        "/sys/module/nvidia_drm/parameters/secret": OSError(errno.EACCES, "Permission denied"),
        f"{TREE}/modules.dep": "updates/nvidia-drm.ko.zst: updates/nvidia.ko.zst\n",
        "/etc/modprobe.d/x.conf": "blacklist nvidia_drm\n",
    }
    seen = look(files, "nvidia-drm.ko", commands={f"modinfo {TREE}/updates/nvidia-drm.ko.zst": MODINFO})
    assert (seen["version"], seen["version_on_disk"], seen["flavour"]) == ("580.95.05", "580.95.05", "open")
    assert seen["parameters"] == {"modeset": "Y"}
    assert seen["blacklisted"] == ["/etc/modprobe.d/x.conf"]
    assert "gpus" not in seen
    assert "competitors" not in seen


@pytest.mark.parametrize("system", [name for name, row in ROWS.items() if row["probe"] == "kernel_module/nvidia_ko.py"])
def test_neither_loaded_nor_on_disk_is_absence(system: str) -> None:
    held = {f"{TREE}/modules.dep": "extra/nvidia-else.ko:\nextra/not-nvidia.ko.xz: extra/nvidia.ko\n"}
    assert look({**held, "/sys/module/ext4/refcnt": "1"}, system) is None
    denied = {f"{TREE}/modules.dep": OSError(errno.EACCES, "Permission denied")}
    assert look({**denied, "/sys/module/ext4/refcnt": "1"}, system) is None
    with pytest.raises(OSError, match="/sys: nothing is mounted there"):
        look(held, system)


def test_a_gpu_without_firmware_and_one_that_is_left_out() -> None:
    base = "/proc/driver/nvidia/gpus/0000:01:00.0/information"
    files = {"/proc/driver/nvidia/version": BANNER_CLOSED, base: "Model: X\nGPU Firmware: N/A\nGPU Excluded: Yes\n"}
    (gpu,) = look(files)["gpus"]
    assert gpu == {"pci": "0000:01:00.0", "model": "X", "firmware": None, "excluded": True, "minor": None}


def test_this_machine_answers() -> None:
    host = Host()
    host.row = ROWS["nvidia.ko"]
    seen = MODULE["probe"](host)
    assert seen is None or seen["loaded"] or seen["path"]


@given(st.text())
def test_no_text_is_too_odd(text: str) -> None:
    assert all(isinstance(value, str) for value in MODULE["fields"](text).values())
    files = ["/proc/driver/nvidia/params", "/proc/cmdline", "/etc/modprobe.d/x.conf", f"{TREE}/modules.dep"]
    assert look({**dict.fromkeys(files, text), "/sys/module/nvidia/initstate": "live"})["loaded"]
