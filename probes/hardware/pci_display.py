"""GPUs and accelerators as the PCI bus shows them, with or without a driver: link, errors, and who owns them.

All of it is sysfs, world-readable: /sys/bus/pci/devices, Documentation/ABI/testing/sysfs-bus-pci.
"""

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List, Optional

    from probes.host import Answer, Facts, Host

DEVICES = "/sys/bus/pci/devices"
NUMBER = re.compile(r"0x[0-9a-f]{4,6}")
VENDORS = {"0x10de": "nvidia", "0x1002": "amd", "0x1022": "amd", "0x8086": "intel"}
MAKERS = frozenset(VENDORS.values())
DISPLAY, ACCELERATOR, NVSWITCH = "0x03", "0x12", ("0x10de", "0x0680")
ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
TOTAL = re.compile(r"^TOTAL_ERR_\w+\s+(\d{1,18})\s*$", re.MULTILINE)
BARS = 6  # the first six lines of "resource" are the device's windows


def probe(host: "Host") -> "Answer":
    """Return every GPU, accelerator and NVSwitch on the bus; None if there is no bus or none of them on it."""
    names = functions(host)
    rows = [describe(host, name) for name in names if wanted(host, name)]
    if not any(row["vendor"] in MAKERS for row in rows):
        sure(host, names)
    return rows or None


def functions(host: "Host") -> "List[str]":
    """Return the names of all functions of devices on the bus; raises OSError if they cannot be seen."""
    names: "List[str]" = host.list(DEVICES)
    if not names and host.why(DEVICES) not in {"not asked", "missing"}:
        raise OSError("%s: %s" % (DEVICES, host.why(DEVICES)))
    if not names and host.shared("mounts.py")["bare"](host, "/sys"):
        raise OSError("/sys: " + host.why("/sys"))
    return names


def sure(host: "Host", names: "List[str]") -> None:
    """Raise OSError if it is unclear which of these functions are GPUs: unreadable is not absent."""
    unclear = [path for name in names if ADDRESS.fullmatch(name) for path in odd(host, name)]
    if unclear:
        why = host.why(unclear[0])
        raise OSError("%s: %s" % (unclear[0], why if why != "ok" else "no number of PCI stands in it"))


def odd(host: "Host", name: str) -> "List[str]":
    """Return the files needed to tell whether this function is a GPU, and whose."""
    files = ["class"] + (["vendor"] if wanted(host, name) else [])
    return ["%s/%s/%s" % (DEVICES, name, file) for file in files if not NUMBER.fullmatch(word(host, name, file) or "")]


def wanted(host: "Host", name: str) -> bool:
    """Return whether this function of a device is a display, a processing accelerator or an NVSwitch."""
    class_ = word(host, name, "class") or ""
    return class_.startswith((DISPLAY, ACCELERATOR)) or (
        class_.startswith(NVSWITCH[1]) and word(host, name, "vendor") == NVSWITCH[0]
    )


def describe(host: "Host", name: str) -> "Facts":
    """Return what the bus says of one function."""
    vendor = word(host, name, "vendor")
    driver = host.link("%s/%s/driver" % (DEVICES, name))
    group = host.link("%s/%s/iommu_group" % (DEVICES, name))
    node = number(word(host, name, "numa_node"))
    return {
        "key": name,
        "vendor": VENDORS.get(vendor or "", "other"),
        "vendor_id": vendor,
        "device_id": word(host, name, "device"),
        "subsystem": [word(host, name, "subsystem_vendor"), word(host, name, "subsystem_device")],
        "class": word(host, name, "class"),
        "driver": driver.rpartition("/")[2] if driver else None,
        "link": link(host, name),
        "bridges": [{"pci": one, **link(host, one), "aer": aer(host, one)} for one in above(host, name)],
        "numa_node": node if node is not None and node >= 0 else None,
        "aer": aer(host, name),
        "boot_vga": {"0": False, "1": True}.get(word(host, name, "boot_vga") or ""),
        "virtual_function": host.link("%s/%s/physfn" % (DEVICES, name)) is not None,
        "power_state": word(host, name, "power_state"),
        "iommu_group": number(group.rpartition("/")[2]) if group else None,
        "bars": bars(host.read("%s/%s/resource" % (DEVICES, name)) or ""),
    }


def link(host: "Host", name: str) -> "Facts":
    """Return speeds in GT/s and widths in lanes: now, and the most of this end; None if that is not reported."""
    return {
        "speed": speed(word(host, name, "current_link_speed")),
        "width": number(word(host, name, "current_link_width")),
        "max_speed": speed(word(host, name, "max_link_speed")),
        "max_width": number(word(host, name, "max_link_width")),
    }


def above(host: "Host", name: str) -> "List[str]":
    """Return the bridges between the device and the root of its bus, the nearest first."""
    parts = host.real("%s/%s" % (DEVICES, name)).split("/")[:-1]
    return [part for part in reversed(parts) if ADDRESS.fullmatch(part)]


def aer(host: "Host", name: str) -> "Facts":
    """Return how many errors a device has reported; those of a link may be counted by its other end alone."""
    return {kind: errors(host, name, kind) for kind in ("correctable", "nonfatal", "fatal")}


def errors(host: "Host", name: str, kind: str) -> "Optional[int]":
    """Return how many errors of this kind the device has reported since boot, or None if it does not count."""
    found = TOTAL.search(host.read("%s/%s/aer_dev_%s" % (DEVICES, name, kind), 4096) or "")
    return int(found.group(1)) if found else None


def bars(text: str) -> "List[Facts]":
    """Return the size of each window that the device asks for, and whether there was room for it."""
    rows = [row.split() for row in text.splitlines()[:BARS]]
    ranges = [
        [int(value, 16) for value in row] for row in rows if re.fullmatch(r"(0x[0-9a-f]{1,16} ?){3}", " ".join(row))
    ]
    return [{"bytes": last - first + 1, "assigned": first > 0} for first, last, flags in ranges if flags]


def word(host: "Host", name: str, file: str) -> "Optional[str]":
    """Return a file of one word, or None."""
    return (host.read("%s/%s/%s" % (DEVICES, name, file), 4096) or "").strip() or None


def number(text: "Optional[str]") -> "Optional[int]":
    """Return a whole number, or None if the text is not one."""
    return int(text) if text and re.fullmatch(r"-?[0-9]{1,9}", text) else None


def speed(text: "Optional[str]") -> "Optional[float]":
    """Return gigatransfers a second ("32.0 GT/s PCIe" is 32.0), or None ("Unknown")."""
    found = re.match(r"(\d{1,3}(?:\.\d{1,3})?) GT/s", text or "")
    return float(found.group(1)) if found else None
