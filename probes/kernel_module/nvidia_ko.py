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
COMPETITORS = ("nouveau", "nova_core", "nova_drm", "nvidiafb", "rivafb")
OWNERS = (*COMPETITORS, "vfio-pci", "pci-stub", "xen-pciback")
VENDOR, DISPLAY = "0x10de", "0x03"
STATES = ("live", "coming", "going")  # show_initstate() in Linux's kernel/module
FIELD = re.compile(r"^([\w .()/-]{1,60}):([^\n\x00]*)$", re.MULTILINE | re.ASCII)
OPENED = ("ok", "[Errno 22] Invalid argument")  # the driver has no read: this is the sign that it can be opened


def probe(host: "Host") -> "Answer":
    """Return one module's facts; None if it is neither loaded nor on disk for the running kernel."""
    module = host.row["module"]
    running, disk = loaded(host, module), on_disk(host, module)
    if not running["loaded"] and not disk["path"]:
        if host.shared("mounts.py")["bare"](host, "/sys"):
            raise OSError("/sys: " + host.why("/sys"))
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
    """Return what the kernel says of the module in memory; some containers show /proc/driver/nvidia alone."""
    folder = "/sys/module/" + module
    said = (host.read(folder + "/initstate", 64) or "").strip()
    state = said if said in STATES else None
    if said and not state:
        host.log.append(("read", folder + "/initstate", "not understood: no state of a module stands in it"))
    banner = (host.read(PROC + "/version", 4096) or "") if module == MAIN else ""
    if banner and "Module" not in banner:
        host.log.append(("read", PROC + "/version", "not understood: no driver's banner stands in it"))
        banner = ""
    nvidia = host.shared("nvidia.py")
    release = nvidia["of_module"](host, module) or nvidia["in_banner"](banner)
    return {
        "loaded": bool(state or release),
        "state": state,
        "version_loaded": release,
        "flavour": flavour(banner, "Open Kernel Module") if banner else None,
        "users": number((host.read(folder + "/refcnt", 64) or "").strip()),
    }


def on_disk(host: "Host", module: str) -> "Facts":
    """Return what is on disk for the running kernel: depmod's list has the path, modinfo reads the file."""
    path = host.shared("nvidia.py")["on_disk"](host, module)
    said = host.shared("commands.py")["output"](host, "modinfo", path, seconds=1.5) if path else ""
    info = fields(said)
    return {
        "path": path,
        "version_on_disk": info.get("version"),
        "vermagic": info.get("vermagic"),
        "flavour_on_disk": flavour(info["license"], "MIT") if "license" in info else None,
        "signer": info.get("signer"),
    }


def fields(text: str) -> "Dict[str, str]":
    """Return the first value of each field in lines of the form ``name: value``."""
    seen: "Dict[str, str]" = {}
    for name, value in FIELD.findall(text):
        seen.setdefault(name.strip(), value.strip())
    return seen


def flavour(text: str, mark: str) -> str:
    """Return which of NVIDIA's two modules it is; they differ in the GPUs that they serve."""
    return "open" if mark in text else "proprietary"


def parameters(host: "Host", module: str) -> "Dict[str, str]":
    """Return the module's parameters as they are in force; those of the main module are in a file of its own."""
    if module == MAIN:
        text = host.read(PROC + "/params", 1 << 16)
        said = fields(text or "")
        if text and not said:
            host.log.append(("read", PROC + "/params", "not understood: no parameter stands in it"))
        return said
    folder = "/sys/module/%s/parameters" % module
    told = {name: host.read("%s/%s" % (folder, name), 4096) for name in host.list(folder)}
    return {name: value.strip() for name, value in told.items() if value is not None}


def forbidden(host: "Host", module: str) -> "List[str]":
    """Return the files that keep the module from being loaded, and the kernel's command line where that does."""
    found: "List[str]" = host.shared("modules.py")["forbidden"](host, module)
    return found


def competitors(host: "Host") -> "List[str]":
    """Return the modules that are loaded, or own an NVIDIA GPU, instead of NVIDIA's."""
    seen = [name for name in COMPETITORS if host.exists("/sys/module/%s/initstate" % name)]
    for name in OWNERS:
        folder = "/sys/bus/pci/drivers/" + name
        owned = [address for address in host.list(folder) if ":" in address]
        if name not in seen and any(is_gpu(host, "%s/%s" % (folder, address)) for address in owned):
            seen.append(name)
    return seen


def is_gpu(host: "Host", device: str) -> bool:
    """Return whether a PCI device is a GPU of NVIDIA; its sound function may be anybody's."""
    vendor, class_ = (host.read("%s/%s" % (device, name), 64) or "" for name in ("vendor", "class"))
    return vendor.strip() == VENDOR and class_.startswith(DISPLAY)


def nodes(host: "Host", running: "Facts") -> "List[Facts]":
    """Return the device nodes that the row names, those that are missing as well.

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
    """Return the GPUs that the module has found, in its own words."""
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
    """Return a whole number, or None if the text is not one."""
    return int(text) if re.fullmatch("[0-9]{1,9}", text) else None
