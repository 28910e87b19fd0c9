"""Intel's kernel modules i915 and xe, with a catalogue row each: loaded, on disk, which GPUs they drive.

In the kernel's own tree neither has its own version: the kernel's release applies. A module built by DKMS has a
version file. Source: /sys/module and /sys/bus/pci/drivers, Documentation/ABI/testing/sysfs-module.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List

    from probes.host import Answer, Facts, Host

DEVICES = "/sys/bus/pci/devices"
TOLD = ("force_probe", "enable_guc", "modeset", "max_vfs")  # parameters that decide who drives a GPU, and how


def probe(host: "Host") -> "Answer":
    """Return one module's facts; None if it is not loaded and is either not on disk or has no Intel GPU to drive."""
    module = host.row["module"]
    folder = "/sys/module/" + module
    loaded = host.exists(folder)
    path = None if loaded or not gpu_here(host) else host.shared("nvidia.py")["on_disk"](host, module)
    if not loaded and not path:
        return None
    own = (host.read(folder + "/version", 256) or "").strip() or None
    release = (host.read("/proc/sys/kernel/osrelease", 256) or "").strip() or None
    return {
        "version": own or (release if loaded else None),
        "version_from": "module" if own else "kernel",
        "loaded": loaded,
        "state": (host.read(folder + "/initstate", 64) or "").strip() or ("built in" if loaded else None),
        "path": path,
        "parameters": parameters(host, folder),
        "gpus": [address for address in host.list("/sys/bus/pci/drivers/" + module) if ":" in address],
    }


def parameters(host: "Host", folder: str) -> "Dict[str, str]":
    """Return the effective parameters that decide who drives a GPU; the module has dozens of others."""
    names: "List[str]" = [name for name in host.list(folder + "/parameters") if name in TOLD]
    held = {name: host.read("%s/parameters/%s" % (folder, name), 4096) for name in names}
    return {name: value.strip() for name, value in held.items() if value is not None}


def gpu_here(host: "Host") -> bool:
    """Return whether the bus has an Intel GPU."""
    return any(is_gpu(host, DEVICES + "/" + name) for name in host.list(DEVICES))


def is_gpu(host: "Host", device: str) -> bool:
    """Return whether a PCI device is an Intel display controller."""
    said: "Facts" = {name: host.read("%s/%s" % (device, name), 64) or "" for name in ("class", "vendor")}
    return bool(said["class"].startswith("0x03") and said["vendor"].strip() == "0x8086")
