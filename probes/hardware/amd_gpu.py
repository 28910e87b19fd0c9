"""Each AMD GPU as the kernel reports it, without ROCm: KFD's node joined with the PCI device and what amdgpu shows.

A GPU that KFD lists is one that ROCm can see. One on the bus alone is reported as well, with ``kfd`` false. All of it
is sysfs, world-readable: Documentation/gpu/amdgpu of Linux.
"""

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional

    from probes.host import Answer, Facts, Host

MIB = 1 << 20
MOST_CACHES = 8  # the last of a node's caches are those of the whole GPU; an MI300X lists 626
LEVELS = re.compile(r"^[ \t]*(\w+): (\d{1,5})Mhz ?(\*?)", re.MULTILINE | re.IGNORECASE)
LANES = re.compile(r"^[ \t]*\w+: (\d{1,2}(?:\.\d)?)GT/s, x(\d{1,2})[^*\n]*(\*?)", re.MULTILINE)
COUNT = re.compile(r"^[ \t]*(ue|ce|de): ?(\d{1,18})[ \t]*$", re.MULTILINE | re.IGNORECASE)
SENSORS = {"edge": "edge", "junction": "junction", "mem": "memory"}
LIMITS = {"crit": "limit_c", "emergency": "shutdown_c"}


def probe(host: "Host") -> "Answer":
    """Return every GPU: those of KFD in its order, partitions each, then those on the bus that KFD does not list."""
    amd = host.shared("amd.py")
    bus, nodes = amd["on_bus"](host), amd["nodes"](host)
    if not bus and not nodes:
        return None
    seen = []
    for index, node in enumerate(nodes):
        pci = home(node["pci"], bus or [other["pci"] for other in nodes])
        facts = dict(of_node(host, node), index=index, partition=bool(pci and pci != node["pci"]))
        seen.append(dict(whole(host, pci, facts), key=node["pci"] or "node %d" % node["node"]))
    told = {facts["pci"] for facts in seen}
    seen += [dict(whole(host, pci, {"kfd": False}), key=pci) for pci in bus if pci not in told]
    return [dict(facts, hidden_nodes=amd["hidden"](host)) for facts in seen]


def home(pci: "Optional[str]", known: "List[str]") -> "Optional[str]":
    """Return the device that a node belongs to: its own, or for a partition that of the whole GPU, its function 0."""
    first = pci[:-1] + "0" if pci else None
    return first if first in known else pci


# What KFD says.


def of_node(host: "Host", node: "Dict[str, Any]") -> "Facts":
    """Return what KFD's node says of the GPU: target, units, local memory and caches."""
    each = node.get("simd_per_cu") or 0
    folder = "%s/%d" % (host.shared("amd.py")["NODES"], node["node"])
    minor = node.get("drm_render_minor") or None
    return {
        "kfd": True,
        "node": node["node"],
        "gfx": node["gfx"],
        "gfx_from": "KFD",
        "device_id": "0x%04x" % node["device_id"] if node.get("device_id") else None,
        "compute_units": node["simd_count"] // each if each else None,
        "simds": node["simd_count"],
        "wave": node.get("wave_front_size"),
        "lds_kib": node.get("lds_size_in_kb"),
        "xcc": node.get("num_xcc"),
        "max_clock_mhz": node.get("max_engine_clk_fcompute"),
        "render": "/dev/dri/renderD%d" % minor if minor else None,
        "cache": caches(host, folder),
        "memory": banks(host, folder),
    }


def caches(host: "Host", folder: str) -> "Facts":
    """Return the sizes of the second and third level (AMD's Infinity Cache) of one node."""
    numbers = host.shared("amd.py")["numbers"]
    names = sorted((name for name in host.list(folder + "/caches") if name.isdecimal()), key=int)[-MOST_CACHES:]
    said = [numbers(host.read("%s/caches/%s/properties" % (folder, name), 1 << 14) or "") for name in names]
    largest = {one["level"]: one["size"] for one in said if one.get("level") in {2, 3} and one.get("size")}
    return {"l%d_kib" % level: size for level, size in sorted(largest.items())}


def banks(host: "Host", folder: str) -> "Facts":
    """Return the memory that KFD has for the GPU: its own, or of an integrated one the share of the machine's."""
    numbers = host.shared("amd.py")["numbers"]
    said = [numbers(host.read("%s/mem_banks/%d/properties" % (folder, bank), 4096) or "") for bank in (0, 1)]
    total = sum(one.get("size_in_bytes", 0) for one in said)
    first = said[0]
    return {
        "kfd_mib": total // MIB if total else None,
        "bus_width_bits": first.get("width") or None,
        "max_clock_mhz": first.get("mem_clk_max") or None,
    }


# What the PCI device and amdgpu say.


def whole(host: "Host", pci: "Optional[str]", facts: "Facts") -> "Facts":
    """Return the GPU with what its device reports; what is not there stays away or null."""
    amd = host.shared("amd.py")
    device = "%s/%s" % (amd["DEVICES"], pci)
    driver = host.link(device + "/driver") if pci else None
    gc, gfx = amd["core"](host, device) if pci else (None, None)
    if not facts.get("gfx"):
        facts = dict(facts, gfx=gfx, gfx_from="ip discovery" if gfx else None)
    number = amd["line"](host, device + "/device") or facts.get("device_id")
    facts = dict(facts, pci=pci, device_id=number, core=gc, driver=driver.rpartition("/")[2] if driver else None)
    facts["integrated"] = facts["gfx"] in amd["INTEGRATED"] or number == amd["MI300A"] if facts["gfx"] else None
    facts["name"] = amd["product"](host, device) if pci else None
    facts["revision"] = amd["line"](host, device + "/revision")
    facts["vbios"] = amd["line"](host, device + "/vbios_version")
    facts["memory"] = dict(facts.get("memory", {}), **memory(host, device))
    facts["link"] = link(host, device)
    facts["clocks"] = clocks(host, device)
    facts["ras"] = ras(host, device)
    facts["busy_percent"] = number_of(host, device + "/gpu_busy_percent")
    facts["partition_mode"] = amd["line"](host, device + "/current_compute_partition")
    facts.update(sensors(host, device))
    return facts


def memory(host: "Host", device: str) -> "Facts":
    """Return the GPU's memory in MiB: its own, and what it may take of the machine's (GTT)."""
    names = ("vram_total", "vram_used", "gtt_total", "gtt_used")
    said = {name: number_of(host, "%s/mem_info_%s" % (device, name)) for name in names}
    return {name + "_mib": None if value is None else value // MIB for name, value in said.items()}


def link(host: "Host", device: str) -> "Facts":
    """Return speed (GT/s) and lanes now and at most. ``slot`` is the driver's own word of the way to the processor.

    A card with a switch of its own shows the short way to that in current_link_*, which is always at its best.
    """
    line = host.shared("amd.py")["line"]
    rows = LANES.findall(host.read(device + "/pp_dpm_pcie", 4096) or "")
    now = [row for row in rows if row[2]][-1:]
    return {
        "speed": speed(line(host, device + "/current_link_speed")),
        "width": number_of(host, device + "/current_link_width"),
        "max_speed": speed(line(host, device + "/max_link_speed")),
        "max_width": number_of(host, device + "/max_link_width"),
        "slot": {"speed": float(now[0][0]), "width": int(now[0][1])} if now else None,
        "replays": number_of(host, device + "/pcie_replay_count"),
    }


def speed(text: "Optional[str]") -> "Optional[float]":
    """Return gigatransfers a second ("16.0 GT/s PCIe" is 16.0), or None ("Unknown")."""
    found = re.match(r"(\d{1,3}(?:\.\d{1,3})?) GT/s", text or "")
    return float(found.group(1)) if found else None


def clocks(host: "Host", device: str) -> "Facts":
    """Return the clocks of core and memory: now (the starred level) and the highest level."""
    seen = {}
    for name, file in (("core", "pp_dpm_sclk"), ("memory", "pp_dpm_mclk")):
        rows = LEVELS.findall(host.read("%s/%s" % (device, file), 4096) or "")
        now = [int(row[1]) for row in rows if row[2]]
        seen[name + "_mhz"] = now[-1] if now else None
        seen["max_%s_mhz" % name] = max((int(row[1]) for row in rows), default=None)
    return seen


def ras(host: "Host", device: str) -> "Facts":
    """Return uncorrected and corrected errors of each block since the driver was loaded, and pages taken out of use."""
    blocks: "Dict[str, Facts]" = {}
    for name in host.list(device + "/ras"):
        found = re.match(r"(\w+)_err_count$|aca_(\w+)$", name)
        said = {kind.lower(): int(value) for kind, value in COUNT.findall(read(host, device, name))} if found else {}
        if found and said:
            blocks[found.group(1) or found.group(2)] = said
    pages = host.read(device + "/ras/gpu_vram_bad_pages", MIB)
    return {
        "uncorrected": sum(said.get("ue", 0) for said in blocks.values()) if blocks else None,
        "corrected": sum(said.get("ce", 0) for said in blocks.values()) if blocks else None,
        "blocks": {name: said for name, said in blocks.items() if any(said.values())},
        "bad_pages": None if pages is None else len(re.findall(r"^0x[0-9a-f]+\s*:", pages, re.MULTILINE)),
    }


def read(host: "Host", device: str, name: str) -> str:
    """Return the text of a file of RAS, empty if it cannot be read."""
    return host.read("%s/ras/%s" % (device, name), 4096) or ""


def sensors(host: "Host", device: str) -> "Facts":
    """Return temperatures in degrees with their limits, and watts, from the device's hwmon folder."""
    folder = next(iter(host.glob(device + "/hwmon/hwmon*")), None)
    heat: "Facts" = {}
    power: "Facts" = {"watts": None, "limit_watts": None}
    if folder is None:
        return {"temperature": heat, "power": power}
    for number in (1, 2, 3):
        label = (host.read("%s/temp%d_label" % (folder, number), 64) or "").strip()
        value = number_of(host, "%s/temp%d_input" % (folder, number))
        if label in SENSORS and value is not None:
            heat[SENSORS[label] + "_c"] = value / 1000.0
            for kind, name in LIMITS.items():
                limit = number_of(host, "%s/temp%d_%s" % (folder, number, kind))
                if limit:
                    heat["%s_%s" % (SENSORS[label], name)] = limit / 1000.0
    for name, files in (("watts", ("power1_average", "power1_input")), ("limit_watts", ("power1_cap",))):
        said = [number_of(host, "%s/%s" % (folder, file)) for file in files]
        power[name] = next((value / 1e6 for value in said if value is not None), None)
    return {"temperature": heat, "power": power}


def number_of(host: "Host", path: str) -> "Optional[int]":
    """Return the integer that a file contains, or None."""
    text = (host.read(path, 64) or "").strip()
    return int(text) if re.fullmatch(r"-?\d{1,18}", text) else None
