"""What probes of NVIDIA's libraries share: copies of the driver's, what they say of themselves, modules, releases."""

import json
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List, Optional, Sequence

    from probes.host import Facts, Host

MOST_DEPENDENCIES = 16 << 20
FILE = re.compile(r"\.so\.(\d{3,4}\.\d{1,3}(?:\.\d{1,3})?)$")
BANNER = re.compile(r"Module\b.{0,120}?\s(\d{3,4}\.\d{1,3}(?:\.\d{1,3})?)\s")
RELEASE = re.compile(r"\d+\.\d[\w.+~-]{0,60}", re.ASCII)  # a single number is a truncated release
# Folders that show what a copy is for; a copy in none of them is the driver's own.
KINDS = (("stub", "/stubs/"), ("compat", "/compat/"), ("compat", "/cuda-compat/"), ("wsl", "/wsl/"))
ELSEWHERE = (
    "/usr/lib/wsl/lib/{name}.1",
    "/run/opengl-driver/lib/{name}.1",
    "/usr/local/cuda*/compat/{name}.1",
    "/usr/local/cuda*/lib64/stubs/{name}",
)
# What a libcuda says of the kernel drivers that it can stand on. Source: NVIDIA/nvidia-container-toolkit,
# cmd/nvidia-cdi-hook/cudacompat/cuda-elf-header.go (main of 2026-11), read 2026-11-21.
NOTE, OWNER = ".note.cuda.fwd_compatibility", "NVIDIA Corporation"
# libnvJitLink offers each function under a name with its CUDA version: __nvJitLinkComplete_12_4.
LINKER, VERSIONED = "__nvJitLink", re.compile(r"_(\d{1,3})_(\d{1,3})$", re.ASCII)


def copies(host: "Host", name: str) -> "List[Facts]":
    """Return every copy of a library (``libcuda.so``) that the loader would find, in its order, then those elsewhere.

    Elsewhere is where Windows, NixOS and the toolkit keep theirs. Each file is reported once, where it is met first.
    """
    loader = host.shared("loader.py")["Loader"](host)
    places = [(found["path"], found["step"]) for found in loader.search(name + ".1", loader.program)]
    places += [(path, "known folder") for where in ELSEWHERE for path in host.glob(where.format(name=name))]
    seen: "Dict[str, Facts]" = {}
    for path, how in places:
        real = host.real(path)
        if real not in seen:
            copy = {"path": path, "real": real, "release": release(real), "kind": kind(real), "found_by": how}
            said = note(host, real) if name.startswith("libcuda.") and copy["kind"] != "stub" else None
            seen[real] = dict(copy, note=said) if said else copy
    return list(seen.values())


def note(host: "Host", path: str) -> "Optional[Facts]":
    """Return what a libcuda says of itself: its CUDA version, and the driver branches and kinds of devices it is for.

    None if it says nothing. Branches are the first numbers of driver releases; devices are numbers of NVIDIA's own.
    """
    elf = host.shared("elf.py")
    try:
        read = json.loads((elf["note"](elf["reader"](host, path), NOTE, OWNER) or b"null").rstrip(b"\0"))
        said = {name.lower(): value for name, value in read.items()}  # releases differ in how they spell the names
    except (ValueError, AttributeError, RecursionError):
        return None
    lists = {name: said.get(key) for name, key in (("drivers", "driver"), ("devices", "device"))}
    held = {
        name: [one for one in found if isinstance(one, int)] if isinstance(found, list) else []
        for name, found in lists.items()
    }
    return dict(held, format=said.get("format"), cuda=said.get("cuda version"))


def linker(host: "Host", by: str, found: "Sequence[Facts]") -> "Facts":
    """Return what a library needs from libnvJitLink, what the first copy found lacks of it, and its newest version."""
    elf = host.shared("elf.py")
    path = found[0]["path"] if found else None
    wanted = elf["symbols"](elf["reader"](host, by), LINKER)["wanted"]
    offered = elf["symbols"](elf["reader"](host, path), LINKER)["offered"] if path else []
    numbers = [tuple(map(int, match.groups())) for match in map(VERSIONED.search, offered) if match]
    return {
        "by": by,
        "path": path,
        "wanted": sorted(wanted),
        "lacking": sorted(set(wanted) - set(offered)) if offered else [],
        "newest": "%d.%d" % max(numbers) if numbers else None,
    }


def load(host: "Host", name: str, found: "Sequence[Facts]") -> "Facts":
    """Return ``loaded`` (None if there is no such library), and its file, release and kind; or how loading failed."""
    try:
        loaded = host.library(name + ".1")
    except OSError as error:
        said = str(error)
        if not found and said.startswith(name) and "No such file" in said:
            return {"loaded": None}
        return {"loaded": None, "status": "failed", "error": said}
    # WSL's library loads a second one of its name from Windows: the loader's own choice is the one that it knows.
    known = {copy["real"] for copy in found}
    paths = sorted(host.mapped(name), key=lambda path: path not in known)
    path = paths[0] if paths else None
    return {"loaded": loaded, "path": path, "version": release(path), "kind": kind(path) if path else None}


def release(path: "Optional[str]") -> "Optional[str]":
    """Return the driver release in the name of a file, or None: stubs and the libraries of WSL have none."""
    found = FILE.search(path or "")
    return found.group(1) if found else None


def kind(path: str) -> str:
    """Return what a copy is for, by its folder: driver, stub (to link against), compat (newer than the module), wsl."""
    return next((name for name, folder in KINDS if folder in path), "driver")


def of_module(host: "Host", module: str) -> "Optional[str]":
    """Return the release that the kernel reports for a module in memory, or None; what is not a release is logged."""
    path = "/sys/module/%s/version" % module
    said = (host.read(path, 256) or "").strip()
    if not said or RELEASE.fullmatch(said):
        return said or None
    host.log.append(("read", path, "not understood: no release stands in it"))
    return None


def in_banner(banner: str) -> "Optional[str]":
    """Return the release in the module's banner (/proc/driver/nvidia/version), or None."""
    found = BANNER.search(banner)
    return found.group(1) if found else None


def on_disk(host: "Host", module: str) -> "Optional[str]":
    """Return the file of a module for the running kernel, from depmod's list, or None."""
    tree = "/lib/modules/" + (host.read("/proc/sys/kernel/osrelease") or "").strip()
    path = in_list(host.read(tree + "/modules.dep", MOST_DEPENDENCIES) or "", module)
    return path if path is None or path.startswith("/") else tree + "/" + path


def in_list(dependencies: str, module: str) -> "Optional[str]":
    """Return the path of a module in depmod's list, where its name may have a dash for each low line."""
    name = re.escape(module).replace("_", "[-_]")
    found = re.search(r"^((?:[^:\n]*/)?%s\.ko(?:\.\w{1,4})?):" % name, dependencies, re.MULTILINE)
    return found.group(1) if found else None
