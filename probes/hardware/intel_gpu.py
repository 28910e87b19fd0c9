"""Intel's GPUs from sysfs alone, with or without their runtime: driver, nodes, memory, link, clocks, firmware.

Sources: Documentation/ABI/testing/sysfs-driver-intel-xe-*, the i915 files gt/gt*/rps_*; survivability mode after
drivers/gpu/drm/xe/xe_survivability_mode.c. What the kernel's debug folder has (firmware) only root may read.
"""

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Iterator, List, Optional

    from probes.host import Answer, Facts, Host

DEVICES, DRM, DEBUG = "/sys/bus/pci/devices", "/sys/class/drm", "/sys/kernel/debug/dri"
VENDOR, DISPLAY = "8086", ("30000", "30200", "38000")  # VGA, 3D and other displays, as the kernel writes them
INTEGRATED = ":00:02.0"  # where every Intel GPU in a processor is on its bus
ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
FIELD = re.compile(r"^([A-Z_]{1,40})=(.{0,200})$", re.MULTILINE)
CLOCKS = ("act", "cur", "min", "max", "RP0", "RPn")
# Linux, drivers/gpu/drm/xe/xe_gt_throttle.c; i915 has the first eight.
REASONS = (
    *("pl1", "pl2", "pl4", "thermal", "prochot", "ratl", "vr_thermalert", "vr_tdc"),
    *("soc_thermal", "mem_thermal", "vr_thermal", "soc_avg_thermal"),
)
ASLEEP = "D3cold"  # to read a clock would wake the GPU


def probe(host: "Host") -> "Answer":
    """Return every Intel GPU on the bus; None if there is none."""
    return [card(host, name) for name in host.list(DEVICES) if is_gpu(host, name)] or None


def is_gpu(host: "Host", name: str) -> bool:
    """Return whether a PCI device is a display of Intel's."""
    class_ = host.read("%s/%s/class" % (DEVICES, name), 64)
    if class_ is not None and not class_.startswith("0x03"):
        return False
    said = fields(host, name)
    return said.get("PCI_ID", "").startswith(VENDOR + ":") and said.get("PCI_CLASS") in DISPLAY


def fields(host: "Host", name: str) -> "Dict[str, str]":
    """Return what the kernel says of a PCI device in one file: driver, class, numbers."""
    return dict(FIELD.findall(host.read("%s/%s/uevent" % (DEVICES, name), 4096) or ""))


def card(host: "Host", name: str) -> "Facts":
    """Return one GPU."""
    said, device = fields(host, name), "%s/%s" % (DEVICES, name)
    nodes = host.list(device + "/drm")
    cards = [node for node in nodes if node.startswith("card")]
    state = word(host, device + "/power_state")
    node = "%s/drm/%s" % (device, cards[0]) if cards else None
    doors = [access(host, one) for one in nodes if one.startswith("renderD")]
    shut = {door["group"] for door in doors if door["exists"] and not (door["readable"] and door["writable"])}
    return {
        "key": name,
        "pci": name,
        "device_id": "0x" + said["PCI_ID"].partition(":")[2].lower(),
        "subsystem": said.get("PCI_SUBSYS_ID"),
        "revision": word(host, device + "/revision"),
        "driver": said.get("DRIVER"),
        "integrated": name.endswith(INTEGRATED),
        "virtual_function": host.link(device + "/physfn") is not None,
        "card": cards[0] if cards else None,
        "nodes": doors,
        "login": host.shared("modules.py")["login"](host, filter(None, shut)) if shut else None,
        "memory_bytes": memory(host, device, node),
        "memory_window_bytes": window(host.read(device + "/resource") or ""),
        "link": link(host, name),
        "power_state": state,
        "clocks": [] if state == ASLEEP else list(clocks(host, device, node)),
        "firmware": firmware(host, name, cards),
        "survivability": survivability(host, device),
    }


def access(host: "Host", node: str) -> "Facts":
    """Return a render node, its owner, and whether this process may read and write it."""
    path = "/dev/dri/" + node
    seen = host.stat(path)
    row = {name: (seen or {}).get(name) for name in ("mode", "uid", "gid", "readable", "writable")}
    name = host.shared("modules.py")["group_name"](host, row["gid"]) if seen else None
    return dict(row, path=path, exists=seen is not None, group=name)


def memory(host: "Host", device: str, node: "Optional[str]") -> "Optional[int]":
    """Return the GPU's own memory: what xe says of each tile, or i915 as DKMS builds it; None if neither does."""
    tiles = [whole(word(host, path)) for path in host.glob(device + "/tile[0-9]*/physical_vram_size_bytes")]
    told = [size for size in tiles if size]
    return sum(told) if told else whole(word(host, node + "/lmem_total_bytes")) if node else None


def window(resource: str) -> "Optional[int]":
    """Return the size of the window onto the GPU's memory (the third line), as large as it with Resizable BAR."""
    row = resource.splitlines()[2:3]
    found = re.match(r"0x([0-9a-f]{1,16}) 0x([0-9a-f]{1,16}) 0x", row[0]) if row else None
    first, last = (int(text, 16) for text in found.groups()) if found else (0, 0)
    return last - first + 1 if last > first > 0 else None


def link(host: "Host", name: str) -> "Optional[Facts]":
    """Return the card's link to the machine: speeds in GT/s, widths in lanes; None for a GPU that has none.

    Cards from Alchemist on carry a switch: the GPU itself then always says 2.5 GT/s on one lane, and the link to the
    machine is that of the switch, two bridges up.
    """
    above = [part for part in reversed(host.real("%s/%s" % (DEVICES, name)).split("/")[:-1]) if ADDRESS.fullmatch(part)]
    own = ends(host, name)
    if own["max_speed"] is None:
        return None
    inside = own["max_speed"] == 2.5 and own["max_width"] == 1  # noqa: PLR2004 - what the GPU behind a switch says
    if not inside:
        return dict(own, at=name, switch=False)
    switch = above[1] if len(above) > 2 else None  # noqa: PLR2004 - two of the switch, one of the machine
    if switch and fields(host, switch).get("PCI_ID", "").startswith(VENDOR + ":"):
        return dict(ends(host, switch), at=switch, switch=True)
    return {"speed": None, "width": None, "max_speed": None, "max_width": None, "at": None, "switch": True}


def ends(host: "Host", name: str) -> "Facts":
    """Return speed and width of a device's link, now and at most."""
    told = {key: word(host, "%s/%s/%s" % (DEVICES, name, file)) for key, file in LINK.items()}
    speeds = {key: re.match(r"(\d{1,3}(?:\.\d{1,3})?) GT/s", told[key] or "") for key in ("speed", "max_speed")}
    return {
        "speed": float(speeds["speed"].group(1)) if speeds["speed"] else None,
        "width": whole(told["width"]) or None,
        "max_speed": float(speeds["max_speed"].group(1)) if speeds["max_speed"] else None,
        "max_width": whole(told["max_width"]) or None,
    }


LINK = {
    "speed": "current_link_speed",
    "width": "current_link_width",
    "max_speed": "max_link_speed",
    "max_width": "max_link_width",
}


def clocks(host: "Host", device: str, node: "Optional[str]") -> "Iterator[Facts]":
    """Yield the clocks of each part of the GPU in MHz, as xe has them, as i915 has them, or as it had them before."""
    for folder in host.glob(device + "/tile[0-9]*/gt[0-9]*/freq0"):
        part = "/".join(folder.split("/")[-3:-1])
        rows = {name.lower(): whole(word(host, "%s/%s_freq" % (folder, name.lower()))) for name in CLOCKS}
        yield dict(rows, part=part, **slowed(host, folder + "/throttle/", "status", "reason_"))
    parts = host.glob(node + "/gt/gt[0-9]*") if node else []
    for folder in parts:
        rows = {name.lower(): whole(word(host, "%s/rps_%s_freq_mhz" % (folder, name))) for name in CLOCKS}
        name = folder.rpartition("/")[2]
        yield dict(rows, part=name, **slowed(host, folder + "/throttle_reason_", "status", ""))
    if node and not parts and host.exists(node + "/gt_max_freq_mhz"):
        yield dict({name.lower(): whole(word(host, "%s/gt_%s_freq_mhz" % (node, name))) for name in CLOCKS}, part="gt")


def slowed(host: "Host", before: str, status: str, prefix: str) -> "Facts":
    """Return whether something holds a clock down, and what; what xe and i915 call ``status`` is any of the others."""
    held = flag(word(host, before + status))
    why = [name for name in REASONS if held and flag(word(host, before + prefix + name))]
    return {"throttled": held, "slowed_by": ", ".join(why) or None}


def firmware(host: "Host", name: str, cards: "List[str]") -> "Facts":
    """Return file, state and version of the GPU's two firmwares, where the kernel's debug folder may be read."""
    told: "Facts" = {}
    for kind in ("guc", "huc") if cards else ():
        for at in dict.fromkeys([name, cards[0][len("card") :]]):
            text = host.read("%s/%s/gt0/uc/%s_info" % (DEBUG, at, kind), 1 << 16)
            if text:
                told[kind] = loaded(text)
                break
            if host.why("%s/%s/gt0/uc/%s_info" % (DEBUG, at, kind)) == "denied":
                return {"unread": "permission denied"}
    return told


def loaded(text: str) -> "Dict[str, Optional[str]]":
    """Return what the kernel prints of a firmware."""
    found: "Dict[str, Any]" = {
        "file": re.search(r"firmware: (\S{1,200})", text),
        "state": re.search(r"^[ \t]*status: ([A-Z ]{1,40}?)[ \t]*$", text, re.MULTILINE),
        "version": re.search(r"\bfound(?: [a-z]{1,20}){0,3} (\d{1,4}(?:\.\d{1,5}){1,3})", text),
    }
    return {name: match.group(1) if match else None for name, match in found.items()}


def survivability(host: "Host", device: str) -> "Optional[Facts]":
    """Return that xe keeps the card in survivability mode, with the reason if readable; None if it does not.

    The file is there in that mode alone, and only root may read it.
    """
    path = device + "/survivability_mode"
    if not host.exists(path):
        return None
    text = host.read(path, 4096)
    if text is None:
        return {"kind": None, "words": None, "unread": host.why(path)}
    kind = re.search(r"type: (\w{1,20})", text)
    return {"kind": kind.group(1).lower() if kind else None, "words": text.strip()}


def word(host: "Host", path: str) -> "Optional[str]":
    """Return a file of one word, or None."""
    return (host.read(path, 4096) or "").strip() or None


def whole(text: "Optional[str]") -> "Optional[int]":
    """Return a whole number, hexadecimal as xe writes sizes or decimal; None if the text is not one."""
    if text and re.fullmatch(r"0x[0-9a-fA-F]{1,16}", text):
        return int(text, 16)
    return int(text) if text and re.fullmatch(r"[0-9]{1,18}", text) else None


def flag(text: "Optional[str]") -> "Optional[bool]":
    """Return yes or no as the kernel writes it, or None."""
    return {"0": False, "1": True}.get(text or "")
