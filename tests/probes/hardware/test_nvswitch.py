"""NVSwitches on fake buses."""

from __future__ import annotations

import errno

from tests.told import ToldHost, load

PROBE = load("hardware/nvswitch.py")["probe"]
BUS = "/sys/bus/pci/devices"


def device(at: str, vendor: str = "0x10de", kind: str = "0x068000") -> dict[str, str]:
    return {
        f"{BUS}/{at}/vendor": f"{vendor}\n",
        f"{BUS}/{at}/class": f"{kind}\n",
        f"{BUS}/{at}/device": "0x22a3\n",
        f"{BUS}/{at}/numa_node": "1\n",
    }


def test_switches_with_their_driver_and_nodes() -> None:
    files = {**device("0000:07:00.0"), **device("0000:08:00.0"), **device("0000:09:00.0", kind="0x030200")}
    files |= {"/dev/nvidia-nvswitchctl": "", "/dev/nvidia-nvswitch0": "", "/dev/nvidia0": ""}
    files["/proc/driver/nvidia-nvswitch/devices/0000:07:00.0/information"] = ""
    seen = PROBE(ToldHost(files, links={f"{BUS}/0000:07:00.0/driver": "../../../bus/pci/drivers/nvidia-nvswitch"}))
    assert [(one["key"], one["driver"], one["listed"], one["numa_node"]) for one in seen] == [
        ("0000:07:00.0", "nvidia-nvswitch", True, 1),
        ("0000:08:00.0", None, False, 1),
    ]
    assert [node["path"] for node in seen[0]["nodes"]] == ["/dev/nvidia-nvswitch0", "/dev/nvidia-nvswitchctl"]


def test_other_bridges_and_an_empty_bus_hold_none() -> None:
    assert PROBE(ToldHost(device("0000:07:00.0", vendor="0x8086"))) is None
    assert PROBE(ToldHost()) is None


def test_garbage_and_closed_files_are_no_switch() -> None:
    closed = OSError(errno.EACCES, "Permission denied")
    files: dict[str, str | bytes | OSError] = {
        **device("0000:07:00.0", kind="\x00\xff"),
        f"{BUS}/0000:08:00.0/class": closed,
    }
    assert PROBE(ToldHost(files)) is None


def test_a_guest_with_nodes_alone_says_so() -> None:
    seen = PROBE(ToldHost({"/dev/nvidia-nvswitchctl": ""}))
    assert (seen["on_bus"], seen["nodes"][0]["readable"]) == (False, True)
