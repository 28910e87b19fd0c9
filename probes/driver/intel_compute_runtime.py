"""Intel's compute runtime (NEO): its Level Zero and OpenCL libraries, and the packages they are from. Not loaded.

The probes of Level Zero and OpenCL report whether they work. The row names the libraries, according to
oneapi-src/level-zero, source/loader/linux/driver_discovery_lin.cpp, and the files that Intel's packages register.
"""

import os
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List, Optional, Tuple

    from probes.host import Answer, Facts, Host

VENDORS = "/etc/OpenCL/vendors"
RELEASE = re.compile(r"(?:\d+:)?(\d{2}\.\d{1,2}\.\d{4,6}(?:\.\d{1,5})?)")
BUILD = re.compile(r"\.so\.\d+\.\d+\.(\d{4,6})$")


def probe(host: "Host") -> "Answer":
    """Return each library, those that the loader finds first; None if there are none."""
    return [describe(host, kind, path) for kind, path in libraries(host)] or None


def libraries(host: "Host") -> "List[Tuple[str, str]]":
    """Return each library's purpose and path, each file once."""
    loader = host.shared("loader.py")["Loader"](host)
    found: "Dict[str, str]" = {}
    for name in host.row["sonames"]:
        for copy in loader.search(name, loader.program):
            found.setdefault(copy["real"], "level-zero")
    for name in host.list(VENDORS):
        said = (host.read("%s/%s" % (VENDORS, name), 4096) or "").strip() if name.endswith(".icd") else ""
        if os.path.basename(said).startswith(host.row["opencl"]) and host.exists(said):
            found.setdefault(host.real(said), "opencl")
    return [(kind, path) for path, kind in found.items()]


def describe(host: "Host", kind: str, path: str) -> "Facts":
    """Return one library: its release according to its package, else the build number in its file name."""
    owners = host.shared("owners.py")["of_system"](host, path, host.row["packages"])
    owner: "Optional[Facts]" = owners[0] if owners else None
    release = RELEASE.match((owner or {}).get("version") or "")
    build = BUILD.search(path)
    return {
        "key": path,
        "path": path,
        "version": release.group(1) if release else None,
        "build": build.group(1) if build else None,
        "kind": kind,
        "legacy": "legacy" in os.path.basename(path),
        "owner": owner,
    }
