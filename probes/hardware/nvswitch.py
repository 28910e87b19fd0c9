"""NVSwitches: those on this machine's PCI bus, their driver's nodes, and the devices that the driver lists.

Those of the fifth NVLink generation (HGX B200), and those that a host hides from its guests, are on no bus visible
here: ``nvlink`` then reports whether a link ends at a switch.
"""

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List, Optional

    from probes.host import Answer, Facts, Host

DEVICES = "/sys/bus/pci/devices"
LISTED = "/proc/driver/nvidia-nvswitch/devices"
VENDOR, BRIDGE = "0x10de", "0x0680"  # "other bridge", as pci-display knows them
NODE = re.compile(r"nvidia-nvswitch(?:ctl|\d{1,3})")


def probe(host: "Host") -> "Answer":
    """Return each switch on the bus with its driver, and the nodes of all; None if there are none."""
    places = [name for name in host.list(DEVICES) if is_switch(host, name)]
    nodes = [node(host, name) for name in host.list("/dev") if NODE.fullmatch(name)]
    listed = host.list(LISTED)
    if not places and (nodes or listed):
        return {"key": "nvidia-nvswitch", "on_bus": False, "nodes": nodes, "listed": listed}
    return [dict(describe(host, name), nodes=nodes, listed=name in listed) for name in places] or None


def is_switch(host: "Host", name: str) -> bool:
    """Return whether a function on the bus is an NVSwitch."""
    class_ = word(host, name, "class") or ""
    return class_.startswith(BRIDGE) and word(host, name, "vendor") == VENDOR


def describe(host: "Host", name: str) -> "Facts":
    """Return what the bus reports about one switch."""
    driver = host.link("%s/%s/driver" % (DEVICES, name))
    numa = word(host, name, "numa_node") or ""
    return {
        "key": name,
        "on_bus": True,
        "device_id": word(host, name, "device"),
        "driver": driver.rpartition("/")[2] if driver else None,
        "numa_node": int(numa) if re.fullmatch("[0-9]{1,4}", numa) else None,
    }


def node(host: "Host", name: str) -> "Facts":
    """Return a device node and whether this process may use it."""
    seen = host.stat("/dev/" + name) or {}
    return {"path": "/dev/" + name, **{fact: seen.get(fact) for fact in ("mode", "readable", "writable")}}


def word(host: "Host", name: str, file: str) -> "Optional[str]":
    """Return the content of a one-word file, or None."""
    words: "List[str]" = (host.read("%s/%s/%s" % (DEVICES, name, file), 64) or "").split()
    return words[0] if words else None
