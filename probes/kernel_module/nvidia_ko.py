"""NVIDIA's kernel modules, one row of the catalogue each: loaded, on disk, parameters, device nodes, what keeps it out.

The row names the module as the kernel does (``nvidia_uvm``) and its device nodes. What only the main module has, such
as its list of GPUs, is asked for its row alone.
"""

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List, Optional

    from probes.host import Answer, Facts, Host

MAIN = "nvidia"
PROC = "/proc/driver/nvidia"
CONFIGURATION = (
    "/etc/modprobe.d",
    "/run/modprobe.d",
    "/usr/local/lib/modprobe.d",
    "/usr/lib/modprobe.d",
    "/lib/modprobe.d",
)
COMPETITORS = ("nouveau", "nova_core", "nova_drm", "nvidiafb", "rivafb")
OWNERS = (*COMPETITORS, "vfio-pci", "pci-stub", "xen-pciback")
VENDOR, DISPLAY = "0x10de", "0x03"
FIELD = re.compile(r"^([^:\n]{1,60}):(.*)$", re.MULTILINE)
OPENED = ("ok", "[Errno 22] Invalid argument")  # the driver has no read: this is the word of an open door


def probe(host: "Host") -> "Answer":
    """Give one module's facts; None where it is neither loaded nor on disk for the running kernel."""
    module = host.row["module"]
    running, disk = loaded(host, module), on_disk(host, module)
    if not running["loaded"] and not disk["path"]:
        return None
    facts = dict(disk, **running)
    facts.update(
        version=running["version_loaded"] or disk["version_on_disk"],
        flavour=running["flavour"] or disk["flavour_on_disk"],
        parameters=parameters(host, module),
        blacklisted=forbidden(host, module),
        nodes=nodes(host, running),
    )
    if module == MAIN:
        facts.update(
            competitors=competitors(host),
            nouveau_blacklisted=bool(forbidden(host, "nouveau")),
            gpus=gpus(host),
        )
    return facts


def loaded(host: "Host", module: str) -> "Facts":
    """Give what the kernel says of the module in memory; some containers show /proc/driver/nvidia alone."""
    folder = "/sys/module/" + module
    state = (host.read(folder + "/initstate", 64) or "").strip() or None
    banner = (host.read(PROC + "/version", 4096) or "") if module == MAIN else ""
    release = (host.read(folder + "/version", 256) or "").strip() or host.shared("nvidia.py")["in_banner"](banner)
    return {
        "loaded": bool(state or release),
        "state": state,
        "version_loaded": release,
        "flavour": flavour(banner, "Open Kernel Module") if banner else None,
        "users": number((host.read(folder + "/refcnt", 64) or "").strip()),
    }


def on_disk(host: "Host", module: str) -> "Facts":
    """Give what lies on disk for the running kernel: depmod's list has the path, modinfo reads the file."""
    path = host.shared("nvidia.py")["on_disk"](host, module)
    said = (host.run("modinfo", path) or {"out": ""})["out"] if path else ""
    info = fields(said)
    return {
        "path": path,
        "version_on_disk": info.get("version"),
        "vermagic": info.get("vermagic"),
        "flavour_on_disk": flavour(info["license"], "MIT") if "license" in info else None,
        "signer": info.get("signer"),
    }


def fields(text: str) -> "Dict[str, str]":
    """Give the first value of each field in lines of the form ``name: value``."""
    seen: "Dict[str, str]" = {}
    for name, value in FIELD.findall(text):
        seen.setdefault(name.strip(), value.strip())
    return seen


def flavour(text: str, mark: str) -> str:
    """Give which of NVIDIA's two modules it is; they differ in the GPUs that they serve."""
    return "open" if mark in text else "proprietary"


def parameters(host: "Host", module: str) -> "Dict[str, str]":
    """Give the module's parameters as they are in force; those of the main module are in a file of its own."""
    if module == MAIN:
        return fields(host.read(PROC + "/params", 1 << 16) or "")
    folder = "/sys/module/%s/parameters" % module
    told = {name: host.read("%s/%s" % (folder, name), 4096) for name in host.list(folder)}
    return {name: value.strip() for name, value in told.items() if value is not None}


def forbidden(host: "Host", module: str) -> "List[str]":
    """Give the files that keep the module from being loaded, and the kernel's command line where that does."""
    name = re.escape(module).replace("_", "[-_]")
    rule = re.compile(
        r"^\s*(?:blacklist\s+%s|install\s+%s\s+\S*/(?:false|true)\b.*|alias\s+%s\s+off)\s*(?:#.*)?$"
        % (name, name, name),
        re.MULTILINE,
    )
    files = [path for folder in CONFIGURATION for path in host.glob(folder + "/*.conf")]
    seen = [path for path in files if rule.search(host.read(path) or "")]
    words = [word.partition("=") for word in (host.read("/proc/cmdline") or "").split()]
    listed = [one for key, _, value in words if key.endswith("blacklist") for one in value.replace("-", "_").split(",")]
    return list(dict.fromkeys(map(host.real, seen))) + (["/proc/cmdline"] if module in listed else [])


def competitors(host: "Host") -> "List[str]":
    """Give the modules that are loaded, or own an NVIDIA GPU, in the place of NVIDIA's."""
    seen = [name for name in COMPETITORS if host.exists("/sys/module/%s/initstate" % name)]
    for name in OWNERS:
        folder = "/sys/bus/pci/drivers/" + name
        owned = [address for address in host.list(folder) if ":" in address]
        if name not in seen and any(is_gpu(host, "%s/%s" % (folder, address)) for address in owned):
            seen.append(name)
    return seen


def is_gpu(host: "Host", device: str) -> bool:
    """Tell whether a PCI device is a GPU of NVIDIA; its sound function may be anybody's."""
    vendor, class_ = (host.read("%s/%s" % (device, name), 64) or "" for name in ("vendor", "class"))
    return vendor.strip() == VENDOR and class_.startswith(DISPLAY)


def nodes(host: "Host", running: "Facts") -> "List[Facts]":
    """Give the device nodes that the row names, those that are missing as well.

    ``open`` says what came of opening one, which a container's device rules refuse whatever the file's mode is. It is
    asked of the nodes without a number alone, since opening a GPU's starts the GPU, and only while the module is
    loaded, since opening could load it.
    """
    rows = []
    for pattern in host.row.get("nodes", []):
        numbered = "[" in pattern
        for path in host.glob(pattern) or ([] if numbered else [pattern]):
            seen = host.stat(path)
            row = {name: (seen or {}).get(name) for name in ("readable", "writable", "mode", "uid", "gid")}
            if seen and running["loaded"] and not numbered:
                host.bytes(path, 1)
                row["open"] = "ok" if host.why(path) in OPENED else host.why(path)
            rows.append(dict(row, path=path, exists=seen is not None))
    return rows


def gpus(host: "Host") -> "List[Facts]":
    """Give the GPUs that the module has found, in its own words."""
    rows = []
    for path in host.glob(PROC + "/gpus/*/information"):
        said = fields(host.read(path, 1 << 16) or "")
        firmware = said.get("GPU Firmware")
        rows.append(
            {
                "pci": said.get("Bus Location", path.split("/")[-2]).lower(),
                "model": said.get("Model"),
                "firmware": None if firmware in {None, "N/A"} else firmware,
                "excluded": {"No": False, "Yes": True}.get(said.get("GPU Excluded", "")),
                "minor": number(said.get("Device Minor", "")),
            }
        )
    return rows


def number(text: str) -> "Optional[int]":
    """Give a whole number, or None where the text is none."""
    return int(text) if re.fullmatch("[0-9]{1,9}", text) else None
