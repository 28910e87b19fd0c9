"""Level Zero as programs see it: which loader is loaded, what zeInit returns, and the drivers and GPUs that it shows.

Runs in its own process: a driver may crash or hang. No context is made. Layouts after ze_api.h of loader 1.32, read
2026-11-21; each structure is that of its first release, which later ones keep.
"""

import ctypes
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, List, Optional

    from probes.host import Answer, Facts, Host, Library

NAME = "libze_loader.so.1"
PACKAGES = ("libze1", "level-zero", "intel-level-zero", "oneapi-level-zero")
FILE = re.compile(r"\.so\.(\d{1,3}\.\d{1,4}\.\d{1,5})$")
NEO = 0x01030000  # Intel's driver gives this plus the third number of its release: 26.31.39395.13 is 39395
# ze_result_t.
RESULTS = {
    0: "ZE_RESULT_SUCCESS",
    0x70000001: "ZE_RESULT_ERROR_DEVICE_LOST",
    0x70000002: "ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY",
    0x70000006: "ZE_RESULT_ERROR_DEVICE_REQUIRES_RESET",
    0x70010000: "ZE_RESULT_ERROR_INSUFFICIENT_PERMISSIONS",
    0x70020000: "ZE_RESULT_ERROR_DEPENDENCY_UNAVAILABLE",
    0x78000001: "ZE_RESULT_ERROR_UNINITIALIZED",
    0x78000002: "ZE_RESULT_ERROR_UNSUPPORTED_VERSION",
    0x78000003: "ZE_RESULT_ERROR_UNSUPPORTED_FEATURE",
}
NO_DRIVER = (0x78000001, 0x70020000)  # the loader's word for having no driver to load: nothing went wrong
KINDS = {1: "gpu", 2: "cpu", 3: "fpga", 4: "mca", 5: "vpu"}
MOST = 64
U32, U64, POINTER = ctypes.c_uint32, ctypes.c_uint64, ctypes.c_void_p
HEAD: "Any" = [("stype", U32), ("next", POINTER)]


class Driver(ctypes.Structure):
    """ze_driver_properties_t."""

    _fields_ = [*HEAD, ("uuid", ctypes.c_uint8 * 16), ("version", U32)]


class Device(ctypes.Structure):
    """ze_device_properties_t."""

    _fields_ = [
        *HEAD,
        *[(name, U32) for name in ("type", "vendor", "device", "flags", "subdevice", "clock")],
        ("largest", U64),
        *[(name, U32) for name in ("contexts", "priority", "threads", "simd", "units", "subslices", "slices")],
        ("timer", U64),
        ("bits", U32),
        ("kernel_bits", U32),
        ("uuid", ctypes.c_uint8 * 16),
        ("name", ctypes.c_char * 256),
    ]


class Memory(ctypes.Structure):
    """ze_device_memory_properties_t."""

    _fields_ = [*HEAD, ("flags", U32), ("clock", U32), ("bus", U32), ("size", U64), ("name", ctypes.c_char * 256)]


class Place(ctypes.Structure):
    """ze_pci_ext_properties_t."""

    _fields_ = [
        *HEAD,
        *[(name, U32) for name in ("domain", "bus", "slot", "function")],
        ("generation", ctypes.c_int32),
        ("lanes", ctypes.c_int32),
        ("bandwidth", ctypes.c_int64),
    ]


STYPES = {Driver: 0x1, Device: 0x3, Memory: 0x7, Place: 0x10008}


def probe(host: "Host") -> "Answer":
    """Return the loader that was loaded, zeInit's result, and its drivers; None if there is no loader at all."""
    loader = host.shared("loader.py")["Loader"](host)
    found = loader.search(NAME, loader.program)
    try:
        library = host.library(NAME)
    except OSError as error:
        return {"path": found[0]["path"], "status": "failed", "error": str(error)} if found else None
    path = next(iter(host.mapped("libze_loader")), found[0]["real"] if found else None)
    owners = host.shared("owners.py")["of_system"](host, path, PACKAGES) if path else []
    named = FILE.search(path or "")
    code = int(library.call("zeInit", 0)) & 0xFFFFFFFF
    drivers = [driver(library, handle) for handle in handles(library, "zeDriverGet")] if code == 0 else []
    facts = {
        "path": path,
        "version": named.group(1) if named else None,
        "owner": owners[0] if owners else None,
        "ze_init": code,
        "ze_init_name": RESULTS.get(code, "0x%08x" % code),
        "drivers": drivers,
        "chosen_drivers": host.env("ZE_ENABLE_ALT_DRIVERS"),
        "mask": host.env("ZE_AFFINITY_MASK"),
    }
    if code and code not in NO_DRIVER:
        facts.update(status="failed", code=code, error="zeInit: " + str(facts["ze_init_name"]))
    return facts


def handles(library: "Library", name: str, of: "Optional[int]" = None) -> "List[int]":
    """Return the handles that a function of the kind (count, handles) has, or one that asks a parent for its own."""
    first = [] if of is None else [POINTER(of)]
    count = U32(0)
    if library.call(name, *first, ctypes.byref(count), None) or not count.value:
        return []
    room = (POINTER * min(count.value, MOST))()
    count = U32(len(room))
    if library.call(name, *first, ctypes.byref(count), room):
        return []
    return [int(held) for held in room[: count.value] if held]


def ask(library: "Library", name: str, handle: int, kind: "Any") -> "Any":
    """Return the structure that a function fills, or None if it fails or is not in this loader."""
    if not library.has(name):
        return None
    room = kind(stype=STYPES[kind])
    return None if library.call(name, POINTER(handle), ctypes.byref(room)) else room


def driver(library: "Library", handle: int) -> "Facts":
    """Return one driver: its number, the build of Intel's that it is, the specification that it knows, its devices."""
    said, api = ask(library, "zeDriverGetProperties", handle, Driver), U32(0)
    number = said.version if said else 0
    knows = library.call("zeDriverGetApiVersion", POINTER(handle), ctypes.byref(api)) == 0
    return {
        "number": number or None,
        "build": str(number - NEO) if 0 < number - NEO < 1 << 20 else None,
        "api": "%d.%d" % (api.value >> 16, api.value & 0xFFFF) if knows else None,
        "devices": [device(library, one) for one in handles(library, "zeDeviceGet", handle)],
    }


def device(library: "Library", handle: int) -> "Facts":
    """Return one device: its name, numbers, place on the bus, Xe cores and memory; None for what is not reported."""
    said = ask(library, "zeDeviceGetProperties", handle, Device)
    place = ask(library, "zeDevicePciGetPropertiesExt", handle, Place)
    return {
        "name": said.name.decode("utf-8", "replace") if said else None,
        "kind": KINDS.get(said.type) if said else None,
        "vendor_id": "0x%04x" % said.vendor if said else None,
        "device_id": "0x%04x" % said.device if said else None,
        "integrated": bool(said.flags & 1) if said else None,
        "clock_mhz": said.clock or None if said else None,
        "xe_cores": said.slices * said.subslices or None if said else None,
        "pci": "%04x:%02x:%02x.%x" % (place.domain, place.bus, place.slot, place.function) if place else None,
        "memory_bytes": memory(library, handle),
    }


def memory(library: "Library", handle: int) -> "Optional[int]":
    """Return the total size of the device's memories, or None if it is not reported."""
    count = U32(0)
    if library.call("zeDeviceGetMemoryProperties", POINTER(handle), ctypes.byref(count), None) or not count.value:
        return None
    room = (Memory * min(count.value, MOST))(*[Memory(stype=STYPES[Memory])] * min(count.value, MOST))
    count = U32(len(room))
    if library.call("zeDeviceGetMemoryProperties", POINTER(handle), ctypes.byref(count), room):
        return None
    return sum(one.size for one in room[: count.value]) or None
