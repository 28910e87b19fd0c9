"""ROCm as a whole: its release and root, every one that is installed; a target Python may have its own in wheels.

Releases up to 7.2 lie in /opt/rocm-X.Y.Z with a link /opt/rocm; the Core SDK (from 7.9 on) in /opt/rocm/core-X.Y. Each
root has ``.info/version``. In a Python it is the distribution rocm-sdk-core with the folder _rocm_sdk_core.
"""

import os
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, Iterator, List, Optional, Tuple

    from probes.host import Answer, Facts, Host

VARIABLES = ("ROCM_PATH", "ROCM_HOME", "HIP_PATH")
PATTERNS = ("/opt/rocm", "/opt/rocm/core-*", "/opt/rocm-*")
VERSION = re.compile(r"(\d{1,3}\.\d{1,3}(?:\.\d{1,3})?)(?:[-.]\S*)?\s*$")
HEADER = re.compile(r"^#define ROCM_VERSION_(MAJOR|MINOR|PATCH)\s+(\d{1,3})\s*$", re.MULTILINE)
WHEELS = ("rocm-sdk-core", "rocm-sdk-libraries", "rocm-sdk-devel", "rocm")
PLACEHOLDER = "0.1.0"  # what the public index has by these names; the real ones come from AMD's own index


def probe(host: "Host") -> "Answer":
    """Return each ROCm: those in a Python for a target, else those of the system; the one that is in use first."""
    if host.environment:
        return wheels(host) or None
    return [copy for root, ways in roots(host) for copy in told(host, root, ways)] or None


# Of the system.


def roots(host: "Host") -> "List[Tuple[str, List[str]]]":
    """Return each real folder that may be a root once, with every way by which it was found."""
    ways: "Dict[str, List[str]]" = {}
    for path, how in candidates(host):
        kept = ways.setdefault(host.real(path), [])
        if how not in kept:
            kept.append(how)
    return list(ways.items())


def candidates(host: "Host") -> "Iterator[Tuple[str, str]]":
    """Yield the folders that variables name, then those where AMD installs it."""
    for name in VARIABLES:
        value = (host.env(name) or "").rstrip("/")
        if value.startswith("/"):
            yield value, name
    for pattern in PATTERNS:
        for path in host.glob(pattern):
            yield path, path
    tool = host.path("rocminfo") or host.path("hipconfig")
    if tool:
        yield os.path.dirname(os.path.dirname(host.real(tool))), "PATH"


def told(host: "Host", root: str, ways: "List[str]") -> "Iterator[Facts]":
    """Yield what a root reports, nothing if it is not one."""
    version = release(host, root)
    if version:
        yield {
            "key": root,
            "version": version,
            "path": root,
            "found_by": ways,
            "stream": "core" if re.search(r"/core-\d", root) else "legacy",
            "owner": owner(host, root),
        }


def release(host: "Host", root: str) -> "Optional[str]":
    """Return the release that a root says it is: by its own file, its header, or its name."""
    said = VERSION.match((host.read(root + "/.info/version", 256) or "").strip())
    if said:
        return said.group(1)
    parts = dict(HEADER.findall(host.read(root + "/include/rocm-core/rocm_version.h", 1 << 16) or ""))
    if len(parts) == 3:  # noqa: PLR2004 - major, minor and patch
        return "%(MAJOR)s.%(MINOR)s.%(PATCH)s" % parts
    named = re.search(r"/(?:rocm|core)-(\d+\.\d+(?:\.\d+)?)$", root)
    return named.group(1) if named and host.list(root + "/lib") else None


def owner(host: "Host", root: str) -> "Optional[Facts]":
    """Return the package that the release is from, according to the system's package lists."""
    found = host.shared("owners.py")["of_system"](host, root + "/.info/version", ["rocm-core", "amdrocm"])
    return found[0] if found else None


# Of a Python.


def wheels(host: "Host") -> "List[Facts]":
    """Return ROCm's distributions in this Python, the one with the libraries first."""
    copies = host.shared("installed.py")["find"](host)
    ours = [copy for copy in copies if copy["name"].startswith(WHEELS[:3]) or copy["name"] == "rocm"]
    order = {name: place for place, name in enumerate(WHEELS)}
    ours.sort(key=lambda copy: order.get(copy["name"], len(order)))
    if not ours:
        return []
    first = ours[0]
    return [
        {
            "key": first["path"],
            "version": first["version"],
            "path": first["path"],
            "found_by": ["wheel"],
            "stream": "core",
            "distributions": {copy["name"]: copy["version"] for copy in ours},
            "placeholder": first["version"] == PLACEHOLDER,
        }
    ]
