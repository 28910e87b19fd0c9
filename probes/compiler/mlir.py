"""MLIR as a separate library: in LLVM packages on the system, or as bindings in a Python.

Programs that contain it (Triton, IREE, XLA, TensorFlow) do not offer it to others and are reported separately.
"""

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List

    from probes.host import Answer, Facts, Host

NAMED = re.compile(r"libMLIR\.so(?:\.(\d{1,4}(?:\.\d{1,4}){0,4})\w{0,20})?$|libMLIR-(\d+)\.so$")
FOLDERS = ("/usr/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib", "/usr/local/lib")


def probe(host: "Host") -> "Answer":
    """Return each MLIR library on the system, or the distributions that contain its bindings."""
    if host.environment:
        return bindings(host)
    copies: "Dict[str, Facts]" = {}
    for folder in [*host.glob("/usr/lib/llvm-*/lib"), *FOLDERS]:
        for name in host.list(folder):
            match = NAMED.match(name)
            if match:
                path = host.real(folder + "/" + name)
                copy = copies.setdefault(path, {"key": path, "path": path, "version": None, "names": []})
                copy["names"].append(folder + "/" + name)
                copy["version"] = max(copy["version"] or "", match.group(1) or match.group(2) or "") or None
    return list(copies.values()) or None


def bindings(host: "Host") -> "List[Facts]":
    """Return the distributions of MLIR's Python bindings."""
    installed = host.shared("installed.py")
    return [
        {"key": copy["name"], "version": copy["version"], "path": copy["path"], **installed["origin"](host, copy)}
        for copy in installed["find"](host)
        if copy["name"] in host.row["distributions"]
    ]
