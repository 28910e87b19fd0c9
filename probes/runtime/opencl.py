"""OpenCL as programs see it: the loader, the drivers that are registered for it, its platforms and their devices.

Order after KhronosGroup/OpenCL-ICD-Loader (README, loader/linux) and ocl-icd's manual page: OCL_ICD_FILENAMES adds
libraries in front; OCL_ICD_VENDORS takes the place of the folder /etc/OpenCL/vendors, with ocl-icd also as one file of
it or one library. Whatever loads a driver does it in a process of its own. No context is made.
"""

import ctypes
import os
import re
from functools import partial

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

    from probes.host import Answer, Facts, Host, Library

NAME = "libOpenCL.so.1"
VENDORS = "/etc/OpenCL/vendors"
VARIABLES = ("OCL_ICD_VENDORS", "OPENCL_VENDOR_PATH", "OCL_ICD_FILENAMES")
SECONDS = 3.0  # for all drivers together; PoCL, which brings a compiler, took 0.2 s warm
# Numbers of cl.h and cl_icd.h, the same since OpenCL 1.0.
PLATFORM = {"version": 0x0901, "name": 0x0902, "vendor": 0x0903}
DEVICE = {"name": 0x102B, "vendor": 0x102C, "driver": 0x102D, "version": 0x102F}
TYPE, ALL, TYPES = 0x1000, 0xFFFFFFFF, {2: "cpu", 4: "gpu", 8: "accelerator", 16: "custom"}
LOADER, FINDER = {"version": 2, "name": 3}, "clGetExtensionFunctionAddress"
MOST, LONGEST = 64, 4096
POINTER, U32, SIZE = ctypes.c_void_p, ctypes.c_uint32, ctypes.c_size_t


def probe(host: "Host") -> "Answer":
    """Return the loader with its drivers and platforms; absent where there is no loader, None if nothing is."""
    search = host.shared("loader.py")["Loader"](host)
    loaders, icds = search.search(NAME, search.program), [icd(host, search, *found) for found in registered(host)]
    variables = {name: host.env(name) for name in VARIABLES if host.env(name) is not None}
    if not loaders:
        return {"key": "drivers", "status": "absent", "icds": icds, "variables": variables} if icds else None
    facts = {"path": loaders[0]["real"], "found_by": loaders[0]["step"], "icds": icds, "variables": variables}
    if host.root:  # a file system in a folder: nothing of it is loaded
        return dict(facts, version=None)
    works: "List[Callable[[], Any]]" = [partial(platforms, host)]
    works += [partial(load, host, one["path"]) for one in icds if one["path"]]
    seen, *loads = host.apart_all(works, min(SECONDS, host.seconds))
    for one, said in zip([one for one in icds if one["path"]], loads):
        one.update(loads=not isinstance(said, OSError), error=str(said) if isinstance(said, OSError) else None)
    if isinstance(seen, OSError):
        return dict(facts, status="failed", error=str(seen), version=None)
    return dict(facts, **seen)


# The drivers that are registered.


def registered(host: "Host") -> "Iterator[Tuple[Optional[str], str]]":
    """Yield the file that registers a driver (None: a variable) and the library it names, in the loader's order."""
    for library in (host.env("OCL_ICD_FILENAMES") or "").split(":"):
        if library:
            yield None, library
    chosen = host.env("OCL_ICD_VENDORS") or host.env("OPENCL_VENDOR_PATH") or VENDORS
    if chosen.endswith(".icd"):
        files = [chosen if "/" in chosen else VENDORS + "/" + chosen]
    elif ".so" in os.path.basename(chosen):
        files = []
        yield None, chosen
    else:
        files = [chosen.rstrip("/") + "/" + name for name in host.list(chosen.rstrip("/")) if name.endswith(".icd")]
    for path in files:
        text = host.read(path, LONGEST)
        if text is not None or host.why(path) != "missing" or files == [chosen]:
            yield path, (text or "").split("\n")[0].strip()


def icd(host: "Host", search: "Any", file: "Optional[str]", library: str) -> "Facts":
    """Return one registered driver: its library, and the file that the loader would use (None: there is none)."""
    unread = host.why(file) if file and host.why(file) != "ok" else None
    if library.startswith("/"):
        path = library if (host.stat(library) or {}).get("kind") == "file" else None
    else:
        found = search.search(library, search.program) if library and "/" not in library else []
        path = found[0]["path"] if found else None
    return {"file": file, "library": library or None, "path": path, "loads": None, "error": unread}


def load(host: "Host", path: str) -> bool:
    """Load one driver; runs in a fork, and raises the loader's own words."""
    host.library(path)
    return True


# What the loader shows.


def platforms(host: "Host") -> "Facts":
    """Return the loader's own name and version, and every platform; runs in a fork, since it loads every driver."""
    library = host.library(NAME)
    count = U32(0)
    code = int(library.call("clGetPlatformIDs", U32(0), None, ctypes.byref(count)))
    found = []
    if code == 0 and count.value:
        room = (POINTER * min(count.value, MOST))()
        code = int(library.call("clGetPlatformIDs", U32(len(room)), room, None))
        found = [platform(library, handle) for handle in room if handle and code == 0]
    said = {key: of_loader(library, which) for key, which in LOADER.items()}
    return {"version": said["version"], "loader": said["name"], "code": code, "platforms": found}


def of_loader(library: "Library", which: int) -> "Optional[str]":
    """Return what the loader reports about itself, if it has the function for it, an extension looked up by name."""
    if not library.has(FINDER):
        return None
    library.value(FINDER).restype = POINTER
    found = library.call(FINDER, b"clGetICDLoaderInfoOCLICD")
    if not found:
        return None
    room = ctypes.create_string_buffer(LONGEST)
    ask = ctypes.CFUNCTYPE(ctypes.c_int, U32, SIZE, POINTER, POINTER)(found)
    return room.value.decode("utf-8", "replace") or None if ask(which, LONGEST, room, None) == 0 else None


def platform(library: "Library", handle: int) -> "Facts":
    """Return one platform with its devices, and the loader's code where it has none."""
    facts: "Facts" = {key: text(library, "clGetPlatformInfo", handle, which) for key, which in PLATFORM.items()}
    count, everything = U32(0), ctypes.c_uint64(ALL)
    code = int(library.call("clGetDeviceIDs", POINTER(handle), everything, U32(0), None, ctypes.byref(count)))
    room = (POINTER * min(count.value if code == 0 else 0, MOST))()
    if len(room):
        code = int(library.call("clGetDeviceIDs", POINTER(handle), everything, U32(len(room)), room, None))
    return dict(facts, code=code, devices=[device(library, one) for one in room if one])


def device(library: "Library", handle: int) -> "Facts":
    """Return one device: its name, kind, driver and version of OpenCL."""
    facts: "Dict[str, Any]" = {key: text(library, "clGetDeviceInfo", handle, which) for key, which in DEVICE.items()}
    kind = ctypes.c_uint64(0)
    library.call("clGetDeviceInfo", POINTER(handle), U32(TYPE), SIZE(8), ctypes.byref(kind), None)
    facts["kind"] = next((name for bit, name in TYPES.items() if kind.value & bit), None)
    return facts


def text(library: "Library", name: str, handle: int, which: int) -> "Optional[str]":
    """Return a text that a function has of a platform or device."""
    room = ctypes.create_string_buffer(LONGEST)
    if library.call(name, POINTER(handle), U32(which), SIZE(LONGEST), room, None):
        return None
    return re.sub(r"\s+", " ", room.value.decode("utf-8", "replace")).strip() or None
