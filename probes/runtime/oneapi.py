"""Intel's oneAPI as installed on the machine: roots, the releases of each component, and whether it is set up.

Its script setvars.sh adds a release to the paths of one shell; the variables that it sets are reported. Nothing is
run. Layout: Intel's "oneAPI Development Environment Setup": ROOT/COMPONENT/RELEASE, and ROOT/RELEASE since 2024.
"""

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List

    from probes.host import Answer, Facts, Host

RELEASE = re.compile(r"20\d\d\.\d{1,2}(?:\.\d{1,3})?")
VARIABLES = ("ONEAPI_ROOT", "CMPLR_ROOT", "MKLROOT", "DNNLROOT", "SETVARS_COMPLETED", "ONEAPI_DEVICE_SELECTOR")
MOST = 64


def probe(host: "Host") -> "Answer":
    """Return each root with its components, the one with the newest compiler first; None if there are none."""
    home = host.env("HOME") or ""
    named = [host.env("ONEAPI_ROOT"), "/opt/intel/oneapi", home + "/intel/oneapi" if home.startswith("/") else None]
    roots = dict.fromkeys(host.real(root.rstrip("/")) for root in named if root and root.startswith("/"))
    return [found for found in (describe(host, root) for root in roots) if found["components"]] or None


def describe(host: "Host", root: str) -> "Facts":
    """Return one root: its components by name with their releases, and what the environment states."""
    parts: "Dict[str, List[str]]" = {}
    for name in host.list(root)[:MOST]:
        if not RELEASE.fullmatch(name):
            held = [release for release in host.list(root + "/" + name) if RELEASE.fullmatch(release)]
            if held:
                parts[name] = sorted(held, key=numbers, reverse=True)
    releases = [release for name in ("compiler", "mkl") for release in parts.get(name, [])]
    releases += [release for held in parts.values() for release in held]
    path = host.env("LD_LIBRARY_PATH") or ""
    return {
        "key": root,
        "path": root,
        "version": releases[0] if releases else None,
        "components": parts,
        "script": host.exists(root + "/setvars.sh"),
        "variables": {name: value for name in VARIABLES for value in [host.env(name)] if value is not None},
        "on_library_path": [folder for folder in path.split(":") if host.real(folder).startswith(root + "/")],
    }


def numbers(release: str) -> "List[int]":
    """Return the numbers of a release, for comparison."""
    return [int(part) for part in release.split(".")]
