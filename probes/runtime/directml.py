"""DirectML: in WSL2, access to Windows' GPU and its libraries; in a Python, the wheels that use it.

It does not exist elsewhere on Linux. Only its presence is reported: the libraries are C++ and are not called. Source:
Microsoft Learn, "GPU accelerated machine learning with DirectML in WSL"; the libraries are mounted in /usr/lib/wsl/lib.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List

    from probes.host import Answer, Facts, Host

DEVICE = "/dev/dxg"
FOLDER = "/usr/lib/wsl/lib/"
LIBRARIES = ("libdxcore.so", "libd3d12.so", "libd3d12core.so", "libdirectml.so")


def probe(host: "Host") -> "Answer":
    """Return what there is of it, or why it does not apply outside WSL2 and a Python with its wheels."""
    if host.environment:
        copies: "List[Facts]" = host.shared("environment/distribution.py")["probe"](host)
        return copies or (None if in_wsl(host) else NOT_HERE)
    if not in_wsl(host):
        return NOT_HERE
    node = host.stat(DEVICE)
    there = [name for name in LIBRARIES if host.exists(FOLDER + name)]
    facts: "Facts" = {
        "path": FOLDER + LIBRARIES[0] if LIBRARIES[0] in there else None,
        "device": None if node is None else {name: node[name] for name in ("mode", "readable", "writable")},
        "libraries": there,
        "missing": [name for name in LIBRARIES if name not in there],
    }
    if node is None or not there:
        return dict(facts, status="absent")
    return facts


NOT_HERE = "DirectML is a part of Windows and of WSL2; this is another Linux, without /dev/dxg"


def in_wsl(host: "Host") -> bool:
    """Return whether this is WSL: according to the kernel's name, or because Windows' device exists."""
    return "microsoft" in (host.read("/proc/sys/kernel/osrelease", 256) or "").lower() or host.exists(DEVICE)
