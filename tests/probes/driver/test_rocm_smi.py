"""ROCm SMI and AMD SMI as fakes: initialised, refused, failing to load, and with missing functions."""

from __future__ import annotations

from typing import Any

import pytest

from tests.told import ToldHost, load

SMI = load("driver/rocm_smi.py")
ROCM = "/opt/rocm-6.3.3/lib/librocm_smi64.so.7.4.60303"
AMD = "/opt/rocm-6.3.3/lib/libamd_smi.so.24.7.60303"


def version(major: int, minor: int, patch: int) -> Any:  # noqa: ANN401 - a vendor's function
    def function(pointer: Any) -> int:  # noqa: ANN401 - ctypes' pointers have no public type
        pointer._obj.major, pointer._obj.minor, pointer._obj.patch = major, minor, patch  # noqa: SLF001 - as C would
        return 0

    return function


def count(number: int) -> Any:  # noqa: ANN401 - a vendor's function
    def function(pointer: Any, *_rest: Any) -> int:  # noqa: ANN401 - the same
        pointer._obj.value = number  # noqa: SLF001 - the same
        return 0

    return function


def words(_what: int, buffer: Any, _length: int) -> int:  # noqa: ANN401 - the same
    buffer.value = b"6.10.5"
    return 0


STARTED = {
    "rsmi_version_get": version(7, 4, 0),
    "rsmi_init": lambda _flags: 0,
    "rsmi_num_monitor_devices": count(8),
    "rsmi_version_str_get": words,
    "rsmi_shut_down": lambda: 0,
}
AMD_STARTED = {
    "amdsmi_init": lambda _flags: 0,
    "amdsmi_get_socket_handles": count(8),
    "amdsmi_shut_down": lambda: 0,
}


def look(libraries: dict[str, Any]) -> Any:  # noqa: ANN401 - a probe's answer
    host = ToldHost(dict.fromkeys(libraries, ""), libraries=libraries, links={"/opt/rocm": "/opt/rocm-6.3.3"})
    return SMI["probe"](host)


def test_no_library_is_absent() -> None:
    assert SMI["probe"](ToldHost()) is None


def test_both_start_and_say_what_they_see() -> None:
    first, second = look({ROCM: STARTED, AMD: AMD_STARTED})
    assert (first["library"], first["version"], first["version_from"]) == ("librocm_smi64", "7.4.0", "library")
    assert (first["gpus"], first["driver"], first["rocm"], first["status"]) == (8, "6.10.5", "6.3.3", "present")
    assert (second["library"], second["version"], second["sockets"]) == ("libamd_smi", "24.7", 8)


@pytest.mark.parametrize(
    ("path", "held", "code", "name"),
    [
        (ROCM, {**STARTED, "rsmi_init": lambda _flags: 8}, 8, "INIT_ERROR"),
        (AMD, {**AMD_STARTED, "amdsmi_init": lambda _flags: 34}, 34, "DRIVER_NOT_LOADED"),
        (AMD, {**AMD_STARTED, "amdsmi_init": lambda _flags: 77}, 77, None),
    ],
)
def test_a_library_that_finds_no_driver_is_there_and_says_so(
    path: str, held: dict[str, Any], code: int, name: str | None
) -> None:
    (one,) = look({path: held})
    assert (one["status"], one["loaded"], one["code"], one["code_name"]) == ("present", True, code, name)
    assert "gpus" not in one


@pytest.mark.parametrize("held", [OSError("libdrm.so.2: cannot open shared object file"), {}])
def test_a_library_that_does_not_load_or_lacks_its_functions_is_failed(held: object) -> None:
    (one,) = look({ROCM: held})
    assert (one["status"], one["loaded"], one["version"]) == ("failed", False, "7.4")
    assert one["error"]


def test_what_debians_build_calls_its_version_is_not_believed() -> None:
    path = "/usr/lib/librocm_smi64.so.1.0"
    files = {
        path: "",
        "/var/lib/dpkg/status": "Package: librocm-smi64-1\nStatus: install ok installed\nVersion: 5.2.3-2\n\n",
        "/var/lib/dpkg/info/librocm-smi64-1.list": path + "\n",
    }
    host = ToldHost(files, libraries={path: {**STARTED, "rsmi_version_get": version(1, 0, 0)}})
    (one,) = SMI["probe"](host)
    assert (one["version"], one["version_from"]) == ("5.2.3", "package")


def test_the_loaders_own_choice_comes_first() -> None:
    other = "/mine/librocm_smi64.so.1"
    host = ToldHost({ROCM: "", other: ""}, libraries={ROCM: STARTED, other: STARTED})
    host.kept["/etc/ld.so.cache"] = {"librocm_smi64.so.1": [other], "libother.so.1": ["/x/libother.so.1"]}
    assert [one["path"] for one in SMI["probe"](host)] == [other, ROCM]


def test_questions_that_are_refused_leave_their_facts_out() -> None:
    refused = {**STARTED, "rsmi_num_monitor_devices": lambda _count: 2, "rsmi_version_str_get": lambda *_all: 2}
    (one,) = look({ROCM: {**refused, "rsmi_version_get": lambda _version: 1}})
    assert (one["code"], one["version"], one["version_from"]) == (0, "7.4", "file name")
    assert not {"gpus", "driver"} & one.keys()
    (two,) = look({AMD: {**AMD_STARTED, "amdsmi_get_socket_handles": lambda *_all: 2}})
    assert "sockets" not in two
