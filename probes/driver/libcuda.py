"""The driver as CUDA programs see it: which libcuda the loader picks, whether it starts, and which GPUs it shows.

Runs in its own process: the library may crash, hang or exit. No context is made, so no GPU memory is taken.
"""

import ctypes
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional, Tuple

    from probes.host import Answer, Facts, Host, Library

NAME = "libcuda.so"
# For a library that cannot name its own errors. Source: CUresult in cuda.h of CUDA 13.0, read 2026-11-21.
ERRORS = {
    0: "CUDA_SUCCESS",
    1: "CUDA_ERROR_INVALID_VALUE",
    2: "CUDA_ERROR_OUT_OF_MEMORY",
    3: "CUDA_ERROR_NOT_INITIALIZED",
    34: "CUDA_ERROR_STUB_LIBRARY",
    36: "CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER",
    46: "CUDA_ERROR_DEVICE_UNAVAILABLE",
    100: "CUDA_ERROR_NO_DEVICE",
    101: "CUDA_ERROR_INVALID_DEVICE",
    214: "CUDA_ERROR_ECC_UNCORRECTABLE",
    304: "CUDA_ERROR_OPERATING_SYSTEM",
    800: "CUDA_ERROR_NOT_PERMITTED",
    801: "CUDA_ERROR_NOT_SUPPORTED",
    802: "CUDA_ERROR_SYSTEM_NOT_READY",
    803: "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
    804: "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE",
    805: "CUDA_ERROR_MPS_CONNECTION_FAILED",
    999: "CUDA_ERROR_UNKNOWN",
}
# CUdevice_attribute in cuda.h of CUDA 13.0, read 2026-11-21. The numbers are the same since each was added.
ATTRIBUTES = {
    "sms": 16,
    "clock_khz": 13,
    "memory_clock_khz": 36,
    "bus_width_bits": 37,
    "l2_bytes": 38,
    "shared_per_sm_bytes": 81,
    "shared_per_block_optin_bytes": 97,
    "registers_per_sm": 82,
    "threads_per_sm": 39,
    "warp": 10,
    "async_engines": 40,
    "integrated": 18,
    "ecc": 32,
}
MAJOR, MINOR = 75, 76
NAMING = ("name", "uuid", "pci", "cc")  # a GPU that reports none of these reports nothing
MOST_DEVICES = 64  # a higher count is garbage, and would take all the time
INT, POINTER = ctypes.c_int, ctypes.c_void_p
TAKES = {
    "cuInit": (ctypes.c_uint,),
    "cuDriverGetVersion": (POINTER,),
    "cuGetErrorName": (INT, POINTER),
    "cuDeviceGetCount": (POINTER,),
    "cuDeviceGet": (POINTER, INT),
    "cuDeviceGetName": (POINTER, INT, INT),
    "cuDeviceGetUuid_v2": (POINTER, INT),
    "cuDeviceGetUuid": (POINTER, INT),
    "cuDeviceGetPCIBusId": (POINTER, INT, INT),
    "cuDeviceTotalMem_v2": (POINTER, INT),
    "cuDeviceGetAttribute": (POINTER, INT, INT),
}


def probe(host: "Host") -> "Answer":
    """Return the library that was loaded, cuInit's result, and its GPUs; None if there is no libcuda at all."""
    nvidia = host.shared("nvidia.py")
    found = nvidia["copies"](host, NAME)
    facts: "Facts" = nvidia["load"](host, NAME, found)
    library = facts.pop("loaded")
    if library is None and "error" not in facts:
        return None
    facts.update(copies=found, stub_on_path=stubs(host), visible=host.env("CUDA_VISIBLE_DEVICES"))
    return dict(facts, **answers(Driver(library))) if library else facts


def answers(driver: "Driver") -> "Facts":
    """Return the driver's report on itself, and on its GPUs if it started."""
    code, _ = driver.ask("cuInit", 0)
    version = driver.number("cuDriverGetVersion")
    facts: "Facts" = {
        "cu_init": code,
        "cu_init_name": driver.name_of(code),
        "driver_cuda": version or None,
        "devices": [],
        "unavailable": driver.unavailable,
    }
    if code != 0:
        return dict(facts, status="failed", code=code, error="cuInit: " + (driver.name_of(code) or "no such function"))
    count = driver.number("cuDeviceGetCount")
    if count is None or count < 0:
        said = driver.unavailable.get("cuDeviceGetCount") or "answered %s" % count
        return dict(facts, status="failed", error="cuDeviceGetCount: " + said)
    devices = [device(driver, ordinal) for ordinal in range(min(count, MOST_DEVICES))]
    if devices and not any(one.get(fact) for one in devices for fact in NAMING):
        first = next(name for name in driver.unavailable if name.startswith("cuDeviceGet"))
        return dict(facts, status="failed", error=first + ": " + driver.unavailable[first], devices=devices)
    return dict(facts, devices=devices)


def device(driver: "Driver", ordinal: int) -> "Facts":
    """Return one GPU as CUDA sees it; unknown values are null and named under ``unavailable``."""
    handle = driver.number("cuDeviceGet", ordinal)
    if handle is None:
        return {"ordinal": ordinal}
    newest = "cuDeviceGetUuid_v2" if driver.library.has("cuDeviceGetUuid_v2") else "cuDeviceGetUuid"
    pci = driver.text("cuDeviceGetPCIBusId", 64, handle)
    major, minor = (driver.number("cuDeviceGetAttribute", which, handle) for which in (MAJOR, MINOR))
    attributes = {name: driver.number("cuDeviceGetAttribute", which, handle) for name, which in ATTRIBUTES.items()}
    attributes["memory_bytes"] = driver.number("cuDeviceTotalMem_v2", handle, of=ctypes.c_size_t)
    return {
        "ordinal": ordinal,
        "name": driver.text("cuDeviceGetName", 256, handle),
        "uuid": uuid(driver.bytes(newest, 16, handle)),
        "pci": pci.lower() if pci else None,
        "cc": None if major is None or minor is None else "%d.%d" % (major, minor),
        "attributes": attributes,
    }


class Driver:
    """libcuda's functions, each giving None if it fails or is missing, with the reason recorded."""

    def __init__(self, library: "Library") -> None:
        """Declare what the functions take: a pointer that is passed as an int is cut to 32 bits."""
        self.library = library
        self.unavailable: "Dict[str, str]" = {}
        for name, takes in TAKES.items():
            if library.has(name):
                library.value(name).argtypes = takes

    def ask(self, name: str, *args: "Any") -> "Tuple[Optional[int], bool]":
        """Return the function's code, and whether it went well."""
        if not self.library.has(name):
            self.unavailable[name] = "this libcuda has no such function"
            return None, False
        code = int(self.library.call(name, *args))
        if code and name != "cuInit":
            self.unavailable.setdefault(name, self.name_of(code) or "")
        return code, code == 0

    def number(self, name: str, *args: "Any", of: "Any" = INT) -> "Optional[int]":
        """Return the whole number that a function writes to its first argument."""
        value = of()
        return int(value.value) if self.ask(name, ctypes.byref(value), *args)[1] else None

    def bytes(self, name: str, size: int, handle: int) -> "Optional[bytes]":
        """Return the bytes that a function of a device writes to a buffer of a fixed size."""
        buffer = ctypes.create_string_buffer(size)
        return buffer.raw if self.ask(name, buffer, handle)[1] else None

    def text(self, name: str, size: int, handle: int) -> "Optional[str]":
        """Return the text that a function of a device writes to a buffer of a given size."""
        buffer = ctypes.create_string_buffer(size)
        return buffer.value.decode("utf-8", "replace") if self.ask(name, buffer, size, handle)[1] else None

    def name_of(self, code: "Optional[int]") -> "Optional[str]":
        """Return the name of an error: the library's own, or ours."""
        if code is None:
            return None
        said = ctypes.c_char_p()
        if self.library.has("cuGetErrorName") and self.library.call("cuGetErrorName", code, ctypes.byref(said)) == 0:
            return (said.value or b"").decode("ascii", "replace") or ERRORS.get(code)
        return ERRORS.get(code, "CUDA_ERROR_%d" % code)


def uuid(data: "Optional[bytes]") -> "Optional[str]":
    """Return a GPU's identifier as NVML writes it."""
    if data is None:
        return None
    digits = data.hex()
    return "GPU-" + "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def stubs(host: "Host") -> "Dict[str, List[str]]":
    """Return the folders with a stub library on the search paths of loader and compiler."""
    kind, named = host.shared("nvidia.py")["kind"], {}
    for variable in ("LD_LIBRARY_PATH", "LIBRARY_PATH"):
        folders = [folder for folder in re.split("[:;]", host.env(variable) or "") if folder]
        named[variable] = [folder for folder in folders if "stub" in map(kind, files(host, folder))]
    return named


def files(host: "Host", folder: str) -> "List[str]":
    """Return the real files that a folder has under the library's two names."""
    return [host.real(path) for path in (folder + "/" + NAME, folder + "/" + NAME + ".1") if host.exists(path)]
