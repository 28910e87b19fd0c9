"""Intel's SYCL compiler (icpx), found by its folders on the machine, and its runtime in a Python, by its wheels."""

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, Optional

    from probes.host import Answer, Host

FOLDERS = "/opt/intel/oneapi/compiler/[0-9]*/bin/icpx"
RELEASE = re.compile(r"/compiler/(20\d\d\.\d{1,2}(?:\.\d{1,3})?)/")
SAID = re.compile(r"Compiler (20\d\d\.\d{1,2}\.\d{1,3})")


def probe(host: "Host") -> "Answer":
    """Return the compilers, the one on PATH first, or the wheels of a target Python; None if there are none."""
    if host.environment:
        answer: "Answer" = host.shared("environment/distribution.py")["probe"](host)
        return answer
    first = host.path("icpx")
    found: "Dict[str, bool]" = {host.real(first): True} if first else {}
    for path in sorted(host.glob(FOLDERS), reverse=True):
        found.setdefault(host.real(path), False)
    return [
        {"key": path, "path": path, "version": version(host, path), "on_path": there} for path, there in found.items()
    ] or None


def version(host: "Host", path: str) -> "Optional[str]":
    """Return the release in the path of the compiler's folder, else the one that it reports itself."""
    named = RELEASE.search(path)
    if named:
        return named.group(1)
    said = SAID.search(host.shared("commands.py")["output"](host, path, "--version", seconds=2.0))
    return said.group(1) if said else None
