"""AMD's libraries on fake machines: the shared mechanism with AMD's data, names and folders."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.told import REPO, ToldHost, load

PROBE = load("library/shared_object.py")
NAMING = load("naming.py")
ROWS = {row["id"]: row for row in json.loads((REPO / "probes" / "catalogue.json").read_text("utf-8"))["systems"]}
SITE = "/env/lib/python3.12/site-packages"
PYTHON = {"path": [SITE], "prefix": "/env", "base_prefix": "/usr", "machine": "x86_64"}
LIB = "/opt/rocm-6.3.3/lib"
OURS = [
    "libdrm-amdgpu",
    "hip",
    "hsa-runtime",
    "rocblas",
    "hipblas",
    "miopen",
    "rocsparse",
    "rocrand",
    "rccl",
    "migraphx",
]


def writes(*values: int) -> Callable[..., int]:
    def function(*pointers: Any) -> int:  # noqa: ANN401 - ctypes' pointers have no public type
        for pointer, value in zip(pointers, values, strict=True):
            pointer._obj.value = value  # noqa: SLF001 - what a C function would write to
        return 0

    return function


def says(text: bytes, status: int = 0) -> Callable[..., int]:
    def function(buffer: Any, _size: object) -> int:  # noqa: ANN401 - the same
        buffer.value = text
        return status

    return function


def told(row: str, *, environment: str | None = None, **more: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - as ToldHost takes it
    host = ToldHost(**{"python": PYTHON, **more}, row=ROWS[row])
    host.environment = environment
    return PROBE["probe"](host) or []


@pytest.mark.parametrize("row", OURS)
@pytest.mark.parametrize("environment", [None, "/env/bin/python"])
def test_nothing_installed_is_absent(row: str, environment: str | None) -> None:
    assert told(row, environment=environment) == []


@pytest.mark.parametrize(
    ("row", "name", "version"),
    [
        ("hsa-runtime", "libhsa-runtime64.so.1.15.60303", "1.15"),
        ("hipblas", "libhipblas.so.2.3.60303", "2.3"),
        ("rocsparse", "librocsparse.so.1.0.60303", "1.0"),
        ("rocblas", "librocblas.so.4.3.60303", "4.3"),
        ("miopen", "libMIOpen.so.1.0.60303", "1.0"),
        ("migraphx", "libmigraphx.so.2012000.0.60303", "2.12.0"),
    ],
)
def test_a_copy_whose_name_says_it_all_is_not_loaded(row: str, name: str, version: str) -> None:
    (copy,) = told(row, files={f"{LIB}/{name}": ""}, links={"/opt/rocm": "/opt/rocm-6.3.3"})
    assert (copy["version"], copy["version_from"], copy["rocm"]) == (version, "file name", "6.3.3")
    assert (copy["status"], copy["found_by"]) == ("present", [f"folder {LIB}"])


@pytest.mark.parametrize(
    ("row", "name", "functions", "version"),
    [
        ("hip", "libamdhip64.so", {"hipRuntimeGetVersion": writes(60342134), "hipGraphLaunch": None}, "6.3.42134"),
        ("hip", "libamdhip64.so", {"hipRuntimeGetVersion": writes(70226015)}, "7.2.26015"),
        ("rccl", "librccl.so", {"ncclGetVersion": writes(22707)}, "2.27.7"),
        ("rocrand", "librocrand.so", {"rocrand_get_version": writes(400200)}, "4.2.0"),
        ("rocblas", "librocblas.so", {"rocblas_get_version_string": says(b"5.2.0.dabb6df2b9")}, "5.2.0"),
        ("miopen", "libMIOpen.so", {"miopenGetVersion": writes(3, 5, 1)}, "3.5.1"),
    ],
)
def test_a_copy_bundled_in_torch_is_queried(row: str, name: str, functions: dict[str, Any], version: str) -> None:
    path = f"{SITE}/torch/lib/{name}"
    (copy,) = told(row, environment="/env/bin/python", files={path: ""}, libraries={path: functions})
    assert (copy["version"], copy["version_from"], copy["found_by"]) == (version, "library", ["bundled in torch"])
    assert copy.get("graphs") == ("hipGraphLaunch" in functions if row == "hip" else None)


@pytest.mark.parametrize("function", [says(b"", 3), says(b"no version"), says(b"\xff\xfe")])
def test_words_that_are_not_a_version_are_an_error(function: object) -> None:
    path = f"{SITE}/torch/lib/librocblas.so"
    libraries = {path: {"rocblas_get_version_string": function}}
    (copy,) = told("rocblas", environment="/env/bin/python", files={path: ""}, libraries=libraries)
    assert (copy["version"], copy["status"]) == (None, "present")
    assert copy["error"]


def test_a_wheel_of_rocm_and_a_root_that_a_variable_names_are_searched() -> None:
    wheel = f"{SITE}/_rocm_sdk_core/lib/libhsa-runtime64.so.1.18.71400"
    (copy,) = told("hsa-runtime", environment="/env/bin/python", files={wheel: ""})
    assert (copy["version"], copy["rocm"], copy["found_by"]) == ("1.18", "7.14.0", ["wheel"])
    own = "/own/lib/libhipblas.so.3.2.70201"
    (copy,) = told("hipblas", files={own: ""}, environ={"ROCM_PATH": "/own/"})
    assert (copy["path"], copy["rocm"]) == (own, "7.2.1")


def test_a_soname_is_not_a_version_of_libdrm_but_its_package_has_one() -> None:
    path = "/usr/lib/x86_64-linux-gnu/libdrm_amdgpu.so.1.0.0"
    files = {
        path: "",
        "/var/lib/dpkg/status": "Package: libdrm-amdgpu1\nStatus: install ok installed\nVersion: 2.4.114-1+b1\n\n",
        "/var/lib/dpkg/info/libdrm-amdgpu1:amd64.list": path + "\n",
    }
    (copy,) = told("libdrm-amdgpu", files=files)
    assert (copy["version"], copy["version_from"]) == ("2.4.114", "package")


def test_a_release_is_read_from_a_name_only_where_it_is_one() -> None:
    assert NAMING["facts"]("rocm", "/x/librocblas.so.5.2.70204") == {"rocm": "7.2.4"}
    assert NAMING["facts"]("rocm", "/x/librocblas.so.10.0.100000") == {"rocm": "10.0.0"}
    assert NAMING["facts"]("rocm", "/x/libhsa-runtime64.so.1.14.0") == {}
    assert NAMING["facts"]("version", "/x/libcudart.so.13.0.96123") == {}
