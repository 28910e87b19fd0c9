"""Vulkan as programs see it: the loader, the manifests of its drivers, and the devices that can compute.

Order and variables after KhronosGroup/Vulkan-Loader, docs/LoaderDriverInterface.md. The loader loads every driver, so
it is asked in a process of its own, with layers that are loaded unasked switched off. No device is made.
"""

import ctypes
import json
import os
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterator, List, Tuple

    from probes.host import Answer, Facts, Host, Library

NAME, TAIL = "libvulkan.so.1", "/vulkan/icd.d"
INSTEAD, ADDED = ("VK_DRIVER_FILES", "VK_ICD_FILENAMES"), "VK_ADD_DRIVER_FILES"
SECONDS = 3.0
KINDS = {0: "other", 1: "integrated", 2: "discrete", 3: "virtual", 4: "cpu"}
INCOMPATIBLE = -9  # VK_ERROR_INCOMPATIBLE_DRIVER: the loader found no driver that works
COMPUTE = 2  # VK_QUEUE_COMPUTE_BIT
MOST, LONGEST, FAMILY = 64, 1 << 16, 24  # bytes of VkQueueFamilyProperties
POINTER, U32 = ctypes.c_void_p, ctypes.c_uint32


class Create(ctypes.Structure):
    """VkInstanceCreateInfo: nothing is requested."""

    _fields_ = [
        ("kind", U32),
        ("next", POINTER),
        ("flags", U32),
        ("application", POINTER),
        ("layers", U32),
        ("layer_names", POINTER),
        ("extensions", U32),
        ("extension_names", POINTER),
    ]


def probe(host: "Host") -> "Answer":
    """Return the loader with its manifests and devices; absent where there is no loader, None if nothing is."""
    search = host.shared("loader.py")["Loader"](host)
    loaders, icds = search.search(NAME, search.program), [icd(host, search, path, by) for path, by in manifests(host)]
    variables = {name: host.env(name) for name in (*INSTEAD, ADDED) if host.env(name) is not None}
    if not loaders:
        return {"key": "drivers", "status": "absent", "icds": icds, "variables": variables} if icds else None
    facts = {"path": loaders[0]["real"], "found_by": loaders[0]["step"], "icds": icds, "variables": variables}
    if host.root:  # a file system in a folder: nothing of it is loaded
        return dict(facts, version=None)
    said = host.apart_all([lambda: devices(host)], min(SECONDS, host.seconds))[0]
    if isinstance(said, OSError):
        return dict(facts, status="failed", error=str(said), version=None)
    return dict(facts, **said)


# The manifests.


def manifests(host: "Host") -> "Iterator[Tuple[str, str]]":
    """Yield each manifest and what led to it, in the loader's order."""
    chosen = next((name for name in INSTEAD if host.env(name)), None)
    known = set()
    for name in [chosen] if chosen else [ADDED]:
        for entry in (host.env(name) or "").split(":"):
            for path in [entry] if entry.endswith(".json") else inside(host, entry):
                if path not in known:
                    known.add(path)
                    yield path, name
    for folder in [] if chosen else folders(host):
        for path in inside(host, folder + TAIL):
            if path not in known:
                known.add(path)
                yield path, "folder"


def folders(host: "Host") -> "List[str]":
    """Return the folders in whose vulkan/icd.d the loader looks."""
    home = host.env("HOME") or ""
    words = [
        host.env("XDG_CONFIG_HOME") or (home and home + "/.config"),
        *(host.env("XDG_CONFIG_DIRS") or "/etc/xdg").split(":"),
        "/usr/local/etc",
        "/etc",
        host.env("XDG_DATA_HOME") or (home and home + "/.local/share"),
        *(host.env("XDG_DATA_DIRS") or "/usr/local/share:/usr/share").split(":"),
    ]
    return [word.rstrip("/") for word in dict.fromkeys(words) if word.startswith("/")]


def inside(host: "Host", folder: str) -> "List[str]":
    """Return the manifests in a folder."""
    if not folder.startswith("/"):
        return []
    return [os.path.join(folder, name) for name in host.list(folder.rstrip("/") or "/") if name.endswith(".json")]


def icd(host: "Host", search: "Any", file: str, by: str) -> "Facts":
    """Return one manifest: the library that it names, and the file that is (None: there is none)."""
    text = host.read(file, LONGEST)
    facts: "Facts" = {"file": file, "by": by, "library": None, "api": None, "bits": None, "path": None, "error": None}
    if text is None:
        return dict(facts, error=host.why(file))
    try:
        said = json.loads(text)["ICD"]
        library, api, bits = str(said["library_path"]), said.get("api_version"), said.get("library_arch")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        return dict(facts, error="no manifest: %s: %s" % (type(error).__name__, error))
    if "/" in library:
        at = os.path.normpath(os.path.join(os.path.dirname(file), library))
        path = at if (host.stat(at) or {}).get("kind") == "file" else None
    else:
        found = search.search(library, search.program)
        path = found[0]["path"] if found else None
    return dict(facts, library=library, api=None if api is None else str(api), bits=bits, path=path)


# What the loader shows.


def devices(host: "Host") -> "Facts":
    """Return the loader's version and every device; runs in a fork, since it loads every driver."""
    os.environ["VK_LOADER_LAYERS_DISABLE"] = "~implicit~"  # overlays and recorders, which games bring
    library = host.library(NAME)
    number = U32(0)
    if library.has("vkEnumerateInstanceVersion"):
        library.call("vkEnumerateInstanceVersion", ctypes.byref(number))
    facts: "Facts" = {"version": version(number.value) if number.value else "1.0", "devices": []}
    instance, create = POINTER(), Create(kind=1)
    code = int(library.call("vkCreateInstance", ctypes.byref(create), None, ctypes.byref(instance)))
    facts["code"] = code
    if code:
        return dict(facts, error=None if code == INCOMPATIBLE else "vkCreateInstance: error %d" % code)
    count = U32(0)
    library.call("vkEnumeratePhysicalDevices", instance, ctypes.byref(count), None)
    room = (POINTER * min(count.value, MOST))()
    count = U32(len(room))
    library.call("vkEnumeratePhysicalDevices", instance, ctypes.byref(count), room)
    facts["devices"] = [device(library, handle) for handle in room[: count.value] if handle]
    return facts


def device(library: "Library", handle: int) -> "Facts":
    """Return one device: name, kind, version, and how many of its queue families compute."""
    room = ctypes.create_string_buffer(LONGEST)
    library.call("vkGetPhysicalDeviceProperties", POINTER(handle), room)
    api, driver, vendor, number, kind = struct.unpack_from("=5I", room.raw)
    count = U32(0)
    library.call("vkGetPhysicalDeviceQueueFamilyProperties", POINTER(handle), ctypes.byref(count), None)
    count = U32(min(count.value, MOST))
    queues = ctypes.create_string_buffer(FAMILY * MOST)
    library.call("vkGetPhysicalDeviceQueueFamilyProperties", POINTER(handle), ctypes.byref(count), queues)
    flags: "List[int]" = [struct.unpack_from("=I", queues.raw, FAMILY * at)[0] for at in range(count.value)]
    return {
        "name": room.raw[20 : 20 + 256].split(b"\0")[0].decode("utf-8", "replace"),
        "kind": KINDS.get(kind),
        "api": version(api),
        "driver_number": driver,
        "vendor_id": "0x%04x" % vendor,
        "device_id": "0x%04x" % number,
        "compute_queues": sum(bool(bits & COMPUTE) for bits in flags),
    }


def version(number: int) -> str:
    """Return a version as Vulkan packs it: 3 bits of variant, 7 of major number, 10 of minor, 12 of patch."""
    return "%d.%d.%d" % (number >> 22 & 0x7F, number >> 12 & 0x3FF, number & 0xFFF)
