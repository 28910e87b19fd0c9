"""Compiled extensions beside PyTorch: whether this torch offers every C++ name that they call. Nothing is imported.

It reads library files at the top of each site folder, in its packages' own folders, and in deeper folders that the row
names (``folders``). A library that needs libc10 or libtorch is an extension. Only names in torch's own namespaces are
compared, and only if every library that may offer them was found.
"""

import os
import re
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Iterator, List, Optional

    from probes.host import Answer, Facts, Host

TORCH = re.compile(r"lib(?:torch|c10)\w*\.so")
# The mangled names of torch's C++ namespaces and of its C interface.
OWN = re.compile(rb"_Z(?:T[IVS]|G[RV])?N?K?(?:3c10|2at|5torch|6caffe2)|aoti_torch_|THP[A-Z]")
# Libraries that offer none of torch's names: the C library, CUDA and its libraries, other vendors' runtimes, Python.
STRANGE = re.compile(
    r"(?:ld-linux|lib(?:c|m|dl|rt|pthread|gcc_s|stdc\+\+|gomp|util|numa|z|python3|cu|nv|nccl|amdhip|hip|roc|rccl|MIOpen"
    r"|hsa|sycl|ze_|OpenCL|mkl|iomp|tbb|ur_|Gallium)[\w.+-]*?\.so|linux-vdso)"
)
CUDA = re.compile(r"libcudart\.so\.(\d+)")
MOST_FILES = 400
MOST_NAMED = 8
SECONDS = 1.5  # from a cold disk; a second run takes a tenth
FIRST = ("libc10.so", "libtorch_cpu.so", "libtorch_python.so", "libc10_cuda.so", "libtorch_cuda.so")


def probe(host: "Host") -> "Answer":
    """Return each extension with the names that it lacks; None if torch is not installed, or has no extensions."""
    torch = next(iter(host.shared("installed.py")["places"](host, "torch")), None)
    if torch is None or not host.exists(torch + "/lib/libtorch_cpu.so"):
        return None
    ends = time.monotonic() + SECONDS
    known: "Dict[str, Any]" = {}
    found = []
    for number, path in enumerate(candidates(host, os.path.dirname(torch))):
        if number >= MOST_FILES or time.monotonic() > ends:
            found.append({"key": "the rest", "status": "unknown", "why": "there was no time to read all library files"})
            break
        needed = (host.elf(path) or {"needed": []})["needed"]
        if any(TORCH.match(name) for name in needed):
            found.append(compared(host, path, needed, torch + "/lib", known))
    return found


def candidates(host: "Host", first: str) -> "Iterator[str]":
    """Yield library files that may be extensions, those beside torch first; torch's own are not."""
    sites = [entry.rstrip("/") for entry in host.interpreter()["path"] if entry.endswith("-packages")]
    for site in dict.fromkeys([first, *sites]):
        names = host.list(site)
        yield from (site + "/" + name for name in names if ".so" in name and name.endswith(".so"))
        inside = [name for name in names if name.isidentifier() and name not in {"torch", "functorch", "torchgen"}]
        for folder in [*inside, *(deep for deep in host.row.get("folders", ()) if deep.split("/")[0] in inside)]:
            for name in host.list("%s/%s" % (site, folder)):
                if name.endswith(".so"):
                    yield "%s/%s/%s" % (site, folder, name)


def compared(host: "Host", path: str, needed: "List[str]", folder: str, known: "Dict[str, Any]") -> "Facts":
    """Return one extension: which of torch's libraries and names it lacks, and the CUDA that it is linked to."""
    parts = [name for name in needed if TORCH.match(name)]
    absent = [name for name in parts if not host.exists(folder + "/" + name) and not beside(host, path, name)]
    facts: "Facts" = {
        "key": path,
        "path": path,
        "version": None,
        "needed": parts,
        "absent": absent,
        "cuda": next((match.group(1) for match in map(CUDA.match, needed) if match), None),
        "python_abi": "abi3" if ".abi3." in path else None,
        **owner(host, path),
    }
    strangers = [name for name in needed if not TORCH.match(name) and not STRANGE.match(name)]
    others = [beside(host, path, name) for name in strangers]
    if absent or None in others:
        unread = "%s not found" % ", ".join([*absent, *(name for name, at in zip(strangers, others) if not at)])
        return dict(facts, missing=[], checked=0, unread=unread)
    symbols = host.shared("symbols.py")
    names = symbols["wanted"](host, path, OWN)
    if names is None:
        return dict(facts, missing=[], checked=0, unread="its table of names cannot be read")
    lacking = unoffered(host, names, [*libraries(host, folder), *(at for at in others if at)], known)
    if lacking is None:
        return dict(facts, missing=[], checked=0, unread="the names that torch offers cannot be read")
    missing = [name.decode("utf-8", "replace") for name in lacking]
    return dict(facts, missing=missing[:MOST_NAMED], missing_count=len(missing), checked=len(names), unread=None)


def libraries(host: "Host", folder: str) -> "List[str]":
    """Return torch's own libraries, those that offer the most names first."""
    names = [name for name in host.list(folder) if TORCH.fullmatch(name)]
    order = {name: place for place, name in enumerate(FIRST)}
    return [folder + "/" + name for name in sorted(names, key=lambda name: order.get(name, len(FIRST)))]


def unoffered(
    host: "Host", names: "List[bytes]", paths: "List[str]", known: "Dict[str, Any]"
) -> "Optional[List[bytes]]":
    """Return the names that no library offers; None if a library that might offer them cannot be read."""
    left, unread = names, False
    for path in paths:
        if not left:
            break
        if path not in known:
            known[path] = host.shared("symbols.py")["offers"](host, path)
        if known[path] is None:
            unread = True
        else:
            left = [name for name in left if not known[path].has(name)]
    return None if left and unread else left


def beside(host: "Host", path: str, name: str) -> "Optional[str]":
    """Return the path of a library that an extension includes: in its own folder, or in one of its runpath."""
    own = os.path.dirname(path)
    said = host.elf(path) or {"rpath": [], "runpath": []}
    for folder in [own, own + "/lib", *said["rpath"], *said["runpath"]]:
        place = os.path.normpath(folder.replace("${ORIGIN}", "$ORIGIN").replace("$ORIGIN", own) + "/" + name)
        if host.exists(place):
            return str(place)
    return None


def owner(host: "Host", path: str) -> "Facts":
    """Return distribution and version of an extension, if its folder has the distribution's name."""
    installed = host.shared("installed.py")
    versions = installed["versions"](installed["find"](host))
    folder = installed["normal"](os.path.basename(os.path.dirname(path)))
    above = installed["normal"](os.path.basename(os.path.dirname(os.path.dirname(path))))
    name = next((name for name in (folder, above) if name in versions), None)
    return {"distribution": name, "version": versions[name] if name else None}
