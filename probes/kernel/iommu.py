"""What may come between two GPUs on the bus: the IOMMU, access control (ACS) on the bridges, and logged faults.

The ACS control of a bridge is beyond the first 64 bytes of its configuration, where only root may read. Sources:
PCI Express Base Specification, "ACS Extended Capability" (number 0x000d, control at +6); linux/pci_regs.h;
Documentation/ABI/testing/sysfs-kernel-iommu_groups.
"""

import re
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List, Optional

    from probes.host import Answer, Host

DEVICES = "/sys/bus/pci/devices"
GROUPS = "/sys/kernel/iommu_groups"
ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
EXTENDED, WHOLE = 0x100, 0x1000
ACS, CONTROL = 0x0D, 6
MOST_CAPABILITIES = 64
BITS = ("source-validation", "translation-blocking", "request-redirect", "completion-redirect", "upstream-forwarding")


def probe(host: "Host") -> "Answer":
    """Return the IOMMU's kind for each NVIDIA GPU, and what each bridge above two of them redirects."""
    bus = host.shared("hardware/pci_display.py")
    names = bus["functions"](host)
    cards = [name for name in names if _is_gpu(host, name)]
    if not cards:
        bus["sure"](host, names)
        return None
    ways = {name: above(host, name) for name in cards}
    bridges = sorted({bridge for way in ways.values() for bridge in way})
    return {
        "translating": host.list("/sys/class/iommu"),
        "gpus": [{"pci": name, "domain": domain(host, name), "bridges": ways[name]} for name in cards],
        "bridges": [{"pci": bridge, "acs": redirects(host, bridge)} for bridge in bridges],
    }


def _is_gpu(host: "Host", name: str) -> bool:
    return _word(host, name, "vendor") == "0x10de" and _word(host, name, "class").startswith("0x03")


def _word(host: "Host", name: str, file: str) -> str:
    return (host.read("%s/%s/%s" % (DEVICES, name, file), 4096) or "").strip()


def above(host: "Host", name: str) -> "List[str]":
    """Return the bridges between the device and the root of its bus, the nearest first."""
    parts = host.real("%s/%s" % (DEVICES, name)).split("/")[:-1]
    return [part for part in reversed(parts) if ADDRESS.fullmatch(part)]


def domain(host: "Host", name: str) -> "Optional[str]":
    """Return how the IOMMU treats a device: DMA or DMA-FQ (addresses translated), identity; None if there is none."""
    group = host.link("%s/%s/iommu_group" % (DEVICES, name))
    return (host.read("%s/%s/type" % (GROUPS, group.rpartition("/")[2]), 64) or "").strip() or None if group else None


def redirects(host: "Host", bridge: str) -> "Optional[List[str]]":
    """Return which access controls are on; none if the bridge has none, None if they cannot be read."""
    data = host.bytes("%s/%s/config" % (DEVICES, bridge), WHOLE) or b""
    if len(data) < WHOLE:
        return None
    at = EXTENDED
    for _ in range(MOST_CAPABILITIES):
        if not EXTENDED <= at <= WHOLE - CONTROL - 2:
            break
        head = struct.unpack_from("<I", data, at)[0]
        if head & 0xFFFF == ACS:
            control = struct.unpack_from("<H", data, at + CONTROL)[0]
            return [name for bit, name in enumerate(BITS) if control >> bit & 1]
        at = head >> 20
    return []
