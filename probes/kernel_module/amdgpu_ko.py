"""The kernel module amdgpu: its state, who built it, its parameters, what blocks it, /dev/kfd and the render nodes.

The module from AMD's own packages has a version file; the kernel's own has none, and needs none. A node is usable if
this login may read and write it, by group, access list or otherwise: the system is asked, and the result is reported
with the owner, the mode and the actual groups of this process.
"""

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List, Optional

    from probes.host import Answer, Facts, Host

MODULE = "/sys/module/amdgpu"
RENDER = "/sys/class/drm"
# Parameters that decide whether and how a GPU computes; most of the module's hundred are about the display.
PARAMETERS = (
    "cik_support",
    "cwsr_enable",
    "discovery",
    "exp_hw_support",
    "gpu_recovery",
    "gttsize",
    "hws_max_conc_proc",
    "mes",
    "no_system_mem_limit",
    "noretry",
    "ras_enable",
    "reset_method",
    "runpm",
    "sched_policy",
    "si_support",
    "virtual_display",
    "vm_fragment_size",
)


def probe(host: "Host") -> "Answer":
    """Return the module's facts; None if it is neither loaded nor on disk for the running kernel."""
    running = host.exists(MODULE)
    path = host.shared("nvidia.py")["on_disk"](host, "amdgpu")
    if not running and not path:
        return None
    line, modules, seen = host.shared("amd.py")["line"], host.shared("modules.py"), nodes(host)
    version = line(host, MODULE + "/version")
    return {
        "version": version,
        "build": origin(version, path),
        "path": path,
        "loaded": running,
        "state": line(host, MODULE + "/initstate"),
        "version_loaded": version,
        "source_version": line(host, MODULE + "/srcversion"),
        "kernel": line(host, "/proc/sys/kernel/osrelease"),
        "parameters": parameters(host),
        "blacklisted": modules["forbidden"](host, "amdgpu"),
        "kfd": host.exists("/sys/class/kfd/kfd/topology"),
        "nodes": seen,
        "login": modules["login"](host, [one["group"] for one in seen if one["group"]]),
    }


def origin(version: "Optional[str]", path: "Optional[str]") -> str:
    """Return the module's origin: AMD's packages (dkms), or the kernel itself (in-tree)."""
    outside = path and re.search("/(?:updates|extra|weak-updates|dkms)/", path)
    return "dkms" if version or outside else "in-tree"


def parameters(host: "Host") -> "Dict[str, str]":
    """Return the effective values of the parameters that matter."""
    told = {name: host.read("%s/parameters/%s" % (MODULE, name), 256) for name in PARAMETERS}
    return {name: value.strip() for name, value in told.items() if value is not None}


def nodes(host: "Host") -> "List[Facts]":
    """Return /dev/kfd and the render node of each AMD GPU, including missing ones: owner, mode, who may use it."""
    paths = ["/dev/kfd"] if host.exists("/sys/class/kfd/kfd") or host.exists("/dev/kfd") else []
    seen = [node(host, path, None) for path in paths]
    for name in host.list(RENDER):
        device = host.real("%s/%s/device" % (RENDER, name))
        if name.startswith("renderD") and (host.read(device + "/vendor", 64) or "").strip() == "0x1002":
            seen.append(node(host, "/dev/dri/" + name, device.rpartition("/")[2]))
    return seen


def node(host: "Host", path: str, pci: "Optional[str]") -> "Facts":
    """Return one device node."""
    seen = host.stat(path)
    row = {name: (seen or {}).get(name) for name in ("readable", "writable", "mode", "uid", "gid")}
    group = host.shared("modules.py")["group_name"](host, row["gid"]) if seen else None
    return dict(row, path=path, pci=pci, exists=seen is not None, group=group)
