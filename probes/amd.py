"""What probes of AMD's GPUs share: the nodes of KFD's topology, targets by their numbers, PCI addresses, names.

KFD is the compute half of the kernel's amdgpu; its topology under /sys/class/kfd needs no ROCm. Its files and numbers:
drivers/gpu/drm/amd/amdkfd/kfd_topology.c of Linux. Standard library and Python 3.8; loaded by path through the host.
"""

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, Iterator, List, Optional, Tuple

    from probes.host import Facts, Host

NODES = "/sys/class/kfd/kfd/topology/nodes"
DEVICES = "/sys/bus/pci/devices"
VENDOR = "0x1002"
MOST_NODES = 256
XGMI = 11  # HSA_IOLINK_TYPE_XGMI
LINE = re.compile(r"^(\w{1,60}) (\d{1,20})\s*$", re.MULTILINE)
# Targets that the kernel takes for graphics on the processor's die. Source: AMD_IS_APU in amdgpu_discovery.c of Linux,
# with the targets of kfd_device.c. The MI300A has the target of a card and is known by its device number.
INTEGRATED = frozenset(
    """gfx700 gfx801 gfx902 gfx90c gfx1013 gfx1033 gfx1035 gfx1036 gfx1103 gfx1150 gfx1151 gfx1152 gfx1153""".split()  # noqa: SIM905 - words read better than a column of quotes
)
MI300A = "0x74a0"
# What KFD calls a graphics core that the driver found in the GPU's own tables; the other numbers are the target's own.
# Source: kgd2kfd_probe in drivers/gpu/drm/amd/amdkfd/kfd_device.c of Linux.
CORES = {
    (9, 0, 1): "gfx900",
    (9, 1, 0): "gfx902",
    (9, 2, 2): "gfx902",
    (9, 2, 1): "gfx904",
    (9, 3, 0): "gfx90c",
    (9, 4, 0): "gfx906",
    (9, 4, 1): "gfx908",
    (9, 4, 2): "gfx90a",
    (9, 4, 3): "gfx942",
    (9, 4, 4): "gfx942",
    (10, 1, 10): "gfx1010",
    (10, 1, 2): "gfx1011",
    (10, 1, 1): "gfx1012",
    (10, 1, 3): "gfx1013",
    (10, 1, 4): "gfx1013",
    (10, 3, 0): "gfx1030",
    (10, 3, 2): "gfx1031",
    (10, 3, 1): "gfx1033",
    (10, 3, 4): "gfx1032",
    (10, 3, 5): "gfx1034",
    (10, 3, 3): "gfx1035",
    (10, 3, 6): "gfx1036",
    (10, 3, 7): "gfx1036",
    (11, 0, 0): "gfx1100",
    (11, 0, 1): "gfx1103",
    (11, 0, 4): "gfx1103",
    (11, 0, 2): "gfx1102",
    (11, 0, 3): "gfx1101",
    (11, 5, 0): "gfx1150",
    (11, 5, 1): "gfx1151",
    (11, 5, 2): "gfx1152",
    (12, 0, 0): "gfx1200",
    (12, 0, 1): "gfx1201",
}
IDS = ("/usr/share/libdrm/amdgpu.ids", "/opt/amdgpu/share/libdrm/amdgpu.ids")
PCI_IDS = ("/usr/share/misc/pci.ids", "/usr/share/hwdata/pci.ids", "/usr/share/pci.ids")


def nodes(host: "Host") -> "List[Facts]":
    """Return the GPUs of KFD's topology in its order: their numbers by the kernel's names, and the node's own."""
    found = []
    for name in sorted((name for name in host.list(NODES) if name.isdecimal()), key=int)[:MOST_NODES]:
        said = numbers(host.read("%s/%s/properties" % (NODES, name), 1 << 14) or "")
        if said.get("simd_count") and said.get("vendor_id", 0x1002) == 0x1002:  # noqa: PLR2004 - AMD's own number
            found.append(dict(said, node=int(name), pci=place(said), gfx=target(said.get("gfx_target_version", 0))))
    return found


def hidden(host: "Host") -> int:
    """Return how many nodes this process may not read: a container hides the GPUs that were not passed to it."""
    names = [name for name in host.list(NODES) if name.isdecimal()][:MOST_NODES]
    return sum(host.why("%s/%s/properties" % (NODES, name)) == "denied" for name in names)


def numbers(text: str) -> "Dict[str, int]":
    """Return the names and whole numbers of lines such as ``simd_count 1216``."""
    return {name: int(value) for name, value in LINE.findall(text)}


def target(version: int) -> "Optional[str]":
    """Return a target by KFD's number: 90402 is gfx942, 90010 is gfx90a, 110001 is gfx1101; None if it is not one."""
    major, minor, step = version // 10000, version // 100 % 100, version % 100
    sane = 7 <= major < 100 and minor < 16 and step < 16  # noqa: PLR2004 - two decimal digits hold one of hexadecimal
    return "gfx%d%x%x" % (major, minor, step) if sane else None


def place(said: "Dict[str, int]") -> "Optional[str]":
    """Return the PCI address in a node's properties, or None; a partition counts up instead of the function."""
    location, domain = said.get("location_id", 0), said.get("domain", 0)
    if not 0 < location < 1 << 16:
        return None
    return "%04x:%02x:%02x.%d" % (domain, location >> 8, location >> 3 & 31, location & 7)


def core(host: "Host", device: str) -> "Tuple[Optional[str], Optional[str]]":
    """Return the version of the graphics core that the driver found, and its target, for a GPU missing from KFD."""
    for name in ("GC", "11"):  # by name as a link, and by its number
        folder = "%s/ip_discovery/die/0/%s/0" % (device, name)
        parts = [(host.read("%s/%s" % (folder, part), 64) or "").strip() for part in ("major", "minor", "revision")]
        if all(part.isdecimal() for part in parts):
            version = (int(parts[0]), int(parts[1]), int(parts[2]))
            return "%d.%d.%d" % version, CORES.get(version)
    return None, None


def links(host: "Host", node: int, most: int) -> "Iterator[Dict[str, int]]":
    """Yield the links that a node has to others, at most so many."""
    folder = "%s/%d/io_links" % (NODES, node)
    for name in sorted((name for name in host.list(folder) if name.isdecimal()), key=int)[:most]:
        yield numbers(host.read("%s/%s/properties" % (folder, name), 4096) or "")


def on_bus(host: "Host") -> "List[str]":
    """Return the addresses of AMD's displays and accelerators on the PCI bus."""
    found = []
    for name in host.list(DEVICES):
        vendor, kind = (line(host, "%s/%s/%s" % (DEVICES, name, file)) or "" for file in ("vendor", "class"))
        if vendor == VENDOR and kind.startswith(("0x03", "0x12")):
            found.append(name)
    return found


def product(host: "Host", device: str) -> "Optional[str]":
    """Return a GPU's name: its board's, else libdrm's by device and revision, else the PCI list's."""
    own = line(host, device + "/product_name")
    number, revision = (line(host, "%s/%s" % (device, name)) for name in ("device", "revision"))
    if own or not number:
        return own
    names = host.kept.setdefault("amd-names", {})
    if (number, revision) not in names:  # the lists are long, and a machine has eight GPUs of a kind
        names[number, revision] = listed(host, number, revision or "") or in_pci_ids(host, number)
    name: "Optional[str]" = names[number, revision]
    return name


def listed(host: "Host", number: str, revision: str) -> "Optional[str]":
    """Return the name in libdrm's list, whose rows are device, revision, name (744C, C8, AMD Radeon RX 7900 XTX)."""
    row = re.compile(
        r"^%s,\s*%s,\s*(\S.{0,200}?)[ \t\r]{0,40}$" % (re.escape(number[2:]), re.escape(revision[2:])),
        re.MULTILINE | re.IGNORECASE,
    )
    texts = (host.read(path) for path in IDS)
    return next((found.group(1) for found in (row.search(text) for text in texts if text) if found), None)


def in_pci_ids(host: "Host", number: str) -> "Optional[str]":
    """Return the name in the list of PCI devices, which has the chip and, in brackets, the products."""
    for path in PCI_IDS:
        text = host.read(path, 4 << 20)
        ours = re.search(r"^1002  .*\n((?:[\t#].*\n|\n)*)", text or "", re.MULTILINE)
        rows = ours.group(1) if ours else ""
        found = re.search(r"^\t%s  (\S.{0,200}?)[ \t\r]{0,40}$" % re.escape(number[2:]), rows, re.MULTILINE)
        if found:
            return found.group(1)
    return None


def line(host: "Host", path: str) -> "Optional[str]":
    """Return a file of one line, or None if it is empty or cannot be read."""
    return (host.read(path, 4096) or "").strip() or None
