"""OpenCL and Vulkan on fake machines: where loaders look for drivers, which of these exist, and what they return.

What a real loader with a real driver returns is tested in tests/system/test_cross_platform.py.
"""

from __future__ import annotations

import ctypes
import json
import struct
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.told import Host, ToldHost, load

if TYPE_CHECKING:
    from pathlib import Path

OPENCL, VULKAN = load("runtime/opencl.py"), load("runtime/vulkan.py")
LIB = "/usr/lib/x86_64-linux-gnu"
VENDORS = "/etc/OpenCL/vendors"
PYTHON = {"machine": "x86_64", "executable": "/usr/bin/python3"}


def host(files: dict[str, Any], **said: Any) -> ToldHost:  # noqa: ANN401 - as ToldHost takes it
    return ToldHost(files, python=PYTHON, **said)


def write(pointer: Any, value: int) -> None:  # noqa: ANN401 - ctypes' pointers have no public type
    """Write what a C function would."""
    pointer._obj.value = value  # noqa: SLF001


class Cl:
    """An OpenCL loader with one platform and one GPU; ``code`` is what it returns instead."""

    def __init__(self, code: int = 0) -> None:
        self.code = code

    def clGetPlatformIDs(self, _room: Any, handles: Any, count: Any) -> int:  # noqa: ANN401, N802 - OpenCL's own name
        if handles is not None:
            handles[0] = 4096
        elif not self.code:
            write(count, 1)
        return self.code

    def clGetPlatformInfo(self, _handle: Any, which: Any, _size: Any, room: Any, _used: Any) -> int:  # noqa: ANN401, N802
        room.value = {0x0901: b"OpenCL 3.0  NEO ", 0x0902: b"Intel(R) OpenCL Graphics"}.get(which.value, b"")
        return 0

    def clGetDeviceIDs(self, _handle: Any, _kind: Any, _room: Any, handles: Any, count: Any) -> int:  # noqa: ANN401, N802
        if handles is not None:
            handles[0] = 8192
        else:
            write(count, 1)
        return 0

    def clGetDeviceInfo(self, _handle: Any, which: Any, _size: Any, room: Any, _used: Any) -> int:  # noqa: ANN401, N802
        if which.value == 0x1000:
            write(room, 4)
            return 0
        room.value = b"Intel(R) Arc(TM) A770 Graphics" if which.value == 0x102B else b""
        return 0 if which.value != 0x102D else -30


LOADER = {f"{LIB}/libOpenCL.so.1": ""}
INTEL = {f"{VENDORS}/intel.icd": f"{LIB}/intel-opencl/libigdrcl.so\n"}


def test_platforms_devices_and_what_became_of_each_driver() -> None:
    files = {**LOADER, **INTEL, f"{LIB}/intel-opencl/libigdrcl.so": "", f"{VENDORS}/gone.icd": "libgone.so.1"}
    broken = {**files, f"{VENDORS}/pocl.icd": "libpocl.so.2", f"{LIB}/libpocl.so.2": ""}
    libraries = {"libOpenCL.so.1": Cl(), f"{LIB}/intel-opencl/libigdrcl.so": {}}
    found = OPENCL["probe"](host(broken, libraries=libraries))
    gone, intel, pocl = found["icds"]
    assert (gone["library"], gone["path"], gone["loads"]) == ("libgone.so.1", None, None)
    assert (intel["path"], intel["loads"], intel["error"]) == (f"{LIB}/intel-opencl/libigdrcl.so", True, None)
    assert (pocl["loads"], "libpocl" in pocl["error"]) == (False, True)
    assert found["code"] == 0
    assert found["platforms"] == [
        {
            "version": "OpenCL 3.0 NEO",
            "name": "Intel(R) OpenCL Graphics",
            "vendor": None,
            "code": 0,
            "devices": [
                {
                    "name": "Intel(R) Arc(TM) A770 Graphics",
                    "vendor": None,
                    "driver": None,
                    "version": None,
                    "kind": "gpu",
                }
            ],
        }
    ]


def test_a_loader_without_a_driver_says_its_code() -> None:
    found = OPENCL["probe"](host(LOADER, libraries={"libOpenCL.so.1": Cl(-1001)}))
    assert (found["code"], found["platforms"], found["icds"], found["version"]) == (-1001, [], [], None)


def of_itself(which: int, _size: int, room: int, _used: object) -> int:
    """Answer as ocl-icd does: 2 queries its version, 3 its name."""
    ctypes.memmove(room, {2: b"2.3.1\0", 3: b"OpenCL ICD Loader\0"}[which], 6 if which == 2 else 18)
    return 0


OF_ITSELF = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint32, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_void_p)(
    of_itself
)


@pytest.mark.parametrize("there", [True, False])
def test_a_loader_that_says_what_it_is(there: bool) -> None:  # noqa: FBT001 - a column
    loader = Cl()
    address = ctypes.cast(OF_ITSELF, ctypes.c_void_p).value if there else None

    def finder(name: bytes) -> int | None:
        assert name == b"clGetICDLoaderInfoOCLICD"
        return address

    loader.clGetExtensionFunctionAddress = finder  # type: ignore[attr-defined]  # OpenCL's own name
    found = OPENCL["probe"](host(LOADER, libraries={"libOpenCL.so.1": loader}))
    assert (found["version"], found["loader"]) == (("2.3.1", "OpenCL ICD Loader") if there else (None, None))


def test_a_file_system_in_a_folder_is_read_and_never_loaded(tmp_path: Path) -> None:
    for path in (f"{LIB}/libOpenCL.so.1", f"{LIB}/libvulkan.so.1", f"{VENDORS}/x.icd", "/etc/vulkan/icd.d/x.json"):
        (tmp_path / path[1:]).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path[1:]).write_text(manifest("libgone.so") if path.endswith("json") else "libgone.so", "utf-8")
    for probe in (OPENCL, VULKAN):
        inside = Host(root=str(tmp_path), environ={})
        inside.interpreter = lambda: {"executable": None, **PYTHON}  # type: ignore[method-assign]  # of that folder
        found = probe["probe"](inside)
        assert (found["icds"][0]["library"], found["icds"][0]["path"]) == ("libgone.so", None)
        assert "code" not in found
        assert not inside.calls


def test_a_loader_that_does_not_load_has_failed_in_its_own_words() -> None:
    found = OPENCL["probe"](host(LOADER))
    assert found["status"] == "failed"
    assert "libOpenCL.so.1" in found["error"]


def test_drivers_without_a_loader_are_absent_and_nothing_is_nothing() -> None:
    found = OPENCL["probe"](host(INTEL))
    assert (found["status"], found["icds"][0]["path"]) == ("absent", None)
    assert OPENCL["probe"](host({})) is None


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, ["a.so", "b.so"]),
        ({"OCL_ICD_FILENAMES": "/x/first.so:second.so"}, ["/x/first.so", "second.so", "a.so", "b.so"]),
        ({"OCL_ICD_VENDORS": "/mine/"}, ["m.so"]),
        ({"OCL_ICD_VENDORS": "/mine/m.icd"}, ["m.so"]),
        ({"OCL_ICD_VENDORS": "b.icd"}, ["b.so"]),
        ({"OCL_ICD_VENDORS": "/x/libone.so.1"}, ["/x/libone.so.1"]),
        ({"OPENCL_VENDOR_PATH": "/mine"}, ["m.so"]),
        ({"OCL_ICD_VENDORS": "/nowhere"}, []),
    ],
)
def test_the_variables_change_where_drivers_are_registered(environ: dict[str, str], expected: list[str]) -> None:
    files = {f"{VENDORS}/a.icd": "a.so", f"{VENDORS}/b.icd": "b.so", f"{VENDORS}/note": "x", "/mine/m.icd": "m.so\n"}
    found = OPENCL["registered"](host(files, environ=environ))
    assert [library for _, library in found] == expected


def test_a_file_that_may_not_be_read_is_reported_as_such() -> None:
    denied = PermissionError(13, "Permission denied")
    found = OPENCL["probe"](host({**LOADER, f"{VENDORS}/x.icd": denied}, libraries={"libOpenCL.so.1": Cl()}))
    assert found["icds"] == [
        {"file": f"{VENDORS}/x.icd", "library": None, "path": None, "loads": None, "error": "denied"}
    ]


@given(text=st.text(max_size=60) | st.sampled_from(["/", "/etc", "..", "/etc/"]))
def test_a_file_that_registers_a_driver_may_hold_anything(text: str) -> None:
    (found,) = OPENCL["probe"](host({f"{VENDORS}/x.icd": text}))["icds"]
    assert found["path"] is None


# Vulkan.


def manifest(library: str, **more: object) -> str:
    return json.dumps({"file_format_version": "1.0.1", "ICD": {"library_path": library, "api_version": "1.4", **more}})


class Vk:
    """A Vulkan loader with one device; ``code`` is what vkCreateInstance returns instead."""

    def __init__(self, code: int = 0) -> None:
        self.code = code

    def vkEnumerateInstanceVersion(self, number: Any) -> int:  # noqa: ANN401, N802 - Vulkan's own name
        write(number, 1 << 22 | 4 << 12 | 309)
        return 0

    def vkCreateInstance(self, create: Any, _allocator: Any, instance: Any) -> int:  # noqa: ANN401, N802
        assert create._obj.kind == 1  # noqa: SLF001 - VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO
        write(instance, 4096)
        return self.code

    def vkEnumeratePhysicalDevices(self, _instance: Any, count: Any, handles: Any) -> int:  # noqa: ANN401, N802
        write(count, 1)
        if handles is not None:
            handles[0] = 8192
        return 0

    def vkGetPhysicalDeviceProperties(self, _handle: Any, room: Any) -> None:  # noqa: ANN401, N802
        head = struct.pack("=5I", 1 << 22 | 3 << 12 | 305, 7, 0x8086, 0xE20B, 2)
        room.raw = head + b"Intel(R) Arc(tm) B580 Graphics (BMG G21)\0" + bytes(64)

    def vkGetPhysicalDeviceQueueFamilyProperties(self, _handle: Any, count: Any, room: Any) -> None:  # noqa: ANN401, N802
        write(count, 3)
        if room is not None:
            room.raw = b"".join(struct.pack("=6I", flags, 1, 64, 1, 1, 1) for flags in (0b111, 0b010, 0b100))


def test_devices_that_can_compute_and_the_loaders_version() -> None:
    files = {
        f"{LIB}/libvulkan.so.1": "",
        f"{LIB}/libvulkan_intel.so": "",
        "/usr/share/vulkan/icd.d/intel_icd.x86_64.json": manifest(f"{LIB}/libvulkan_intel.so"),
    }
    found = VULKAN["probe"](host(files, libraries={"libvulkan.so.1": Vk()}))
    assert (found["version"], found["code"], found["path"]) == ("1.4.309", 0, f"{LIB}/libvulkan.so.1")
    assert found["icds"][0]["path"] == f"{LIB}/libvulkan_intel.so"
    assert found["devices"] == [
        {
            "name": "Intel(R) Arc(tm) B580 Graphics (BMG G21)",
            "kind": "discrete",
            "api": "1.3.305",
            "driver_number": 7,
            "vendor_id": "0x8086",
            "device_id": "0xe20b",
            "compute_queues": 2,
        }
    ]


def test_no_usable_driver_is_an_answer_and_another_error_is_reported() -> None:
    files = {f"{LIB}/libvulkan.so.1": ""}
    none = VULKAN["probe"](host(files, libraries={"libvulkan.so.1": Vk(-9)}))
    assert (none["code"], none["error"], none["devices"]) == (-9, None, [])
    lost = VULKAN["probe"](host(files, libraries={"libvulkan.so.1": Vk(-3)}))
    assert lost["error"] == "vkCreateInstance: error -3"
    failed = VULKAN["probe"](host(files))
    assert failed["status"] == "failed"


def test_manifests_without_a_loader_are_absent_and_nothing_is_nothing() -> None:
    found = VULKAN["probe"](host({"/etc/vulkan/icd.d/nvidia_icd.json": manifest("libGLX_nvidia.so.0")}))
    assert (found["status"], found["icds"][0]["library"]) == ("absent", "libGLX_nvidia.so.0")
    assert VULKAN["probe"](host({})) is None


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        (
            {"HOME": "/home/ann"},
            ["/home/ann/.config", "/etc/xdg", "/usr/local/etc", "/etc", "/home/ann/.local/share", "/usr/share"],
        ),
        (
            {"HOME": "", "XDG_DATA_DIRS": "/usr/share", "XDG_CONFIG_DIRS": "/etc"},
            ["/etc", "/usr/local/etc", "/usr/share"],
        ),
        ({"VK_DRIVER_FILES": "/a/x.json:/etc/vulkan/icd.d", "VK_ICD_FILENAMES": "/b/y.json"}, ["/a", "/etc"]),
        ({"VK_ICD_FILENAMES": "/b/y.json", "VK_ADD_DRIVER_FILES": "/c/z.json"}, ["/b"]),
        (
            {"VK_ADD_DRIVER_FILES": "/c/z.json", "XDG_CONFIG_HOME": "/home/ann/.config", "XDG_DATA_DIRS": "/none"},
            ["/c", "/home/ann/.config", "/etc/xdg", "/usr/local/etc", "/etc"],
        ),
    ],
)
def test_manifests_come_in_the_loaders_order(environ: dict[str, str], expected: list[str]) -> None:
    roots = ("/usr/share", "/etc", "/etc/xdg", "/usr/local/etc", "/home/ann/.config", "/home/ann/.local/share")
    files = {f"{root}/vulkan/icd.d/one.json": "" for root in roots}
    found = [path for path, _ in VULKAN["manifests"](host(files, environ=environ))]
    assert [path.rpartition("/")[0].removesuffix("/vulkan/icd.d") for path in found] == expected


@pytest.mark.parametrize(
    ("library", "path"),
    [
        ("../../lib/libx.so", "/usr/lib/libx.so"),
        ("libvulkan_lvp.so", f"{LIB}/libvulkan_lvp.so"),
        ("/gone/libx.so", None),
        ("libgone.so", None),
    ],
)
def test_a_manifests_library_is_relative_absolute_or_a_name(library: str, path: str | None) -> None:
    files = {
        "/usr/vulkan/icd.d/x.json": manifest(library, library_arch="64"),
        "/usr/lib/libx.so": "",
        f"{LIB}/libvulkan_lvp.so": "",
    }
    (found,) = VULKAN["probe"](host(files, environ={"VK_DRIVER_FILES": "/usr/vulkan/icd.d/x.json"}))["icds"]
    assert (found["path"], found["bits"], found["by"], found["api"]) == (path, "64", "VK_DRIVER_FILES", "1.4")


@given(
    text=st.text(max_size=80)
    | st.sampled_from([manifest("/"), manifest("./"), "[]", '{"ICD": 3}', '{"ICD": {"library_path": 3}}', "[" * 5000])
)
def test_a_manifest_may_hold_anything(text: str) -> None:
    (found,) = VULKAN["probe"](host({"/etc/vulkan/icd.d/x.json": text}))["icds"]
    assert found["path"] is None


def test_a_manifest_that_may_not_be_read_is_reported_as_such() -> None:
    denied = PermissionError(13, "Permission denied")
    (found,) = VULKAN["probe"](host({"/etc/vulkan/icd.d/x.json": denied}))["icds"]
    assert (found["error"], found["library"]) == ("denied", None)
