"""CUDA's other libraries: rows of one probe; where a package's record fits, a large one is not loaded."""

from __future__ import annotations

from typing import Any

import pytest

from gpustack.collect.catalogue import load as catalogue
from tests.told import ToldHost, load

PROBE = load("library/shared_object.py")
ROWS = {one.id: dict(one.data) for one in catalogue()}
SITE = "/env/lib/python3.12/site-packages"
PYTHON = {"path": [SITE], "prefix": "/env", "base_prefix": "/usr", "machine": "x86_64"}
LIBRARY = f"{SITE}/nvidia/cusolver/lib/libcusolver.so.11"
NAME = "nvidia/cusolver/lib/libcusolver.so.11"


# Measured with the wheels nvidia-cusparse-cu12 12.5.8.93, -curand 10.3.9.90, -cufft 11.3.3.83, -cusolver 11.7.3.90 and
# -nvjitlink 12.8.93 on 2026-11-21; tensorrt: getInferLibVersion of 10 and later, and of 9 and before.
@pytest.mark.parametrize(
    ("row", "numbers", "version"),
    [
        ("cusparse", [12, 5, 8], "12.5.8"),
        ("curand", [10309], "10.3.9"),
        ("cufft", [11303], "11.3.3"),
        ("cusolver", [11703], "11.7.3"),
        ("nvjitlink", [12, 8], "12.8"),
        ("tensorrt", [110400], "11.4.0"),
        ("tensorrt", [8601], "8.6.1"),
    ],
)
def test_each_tells_its_version_in_its_own_way(row: str, numbers: list[int], version: str) -> None:
    assert PROBE["decode"](numbers, ROWS[row].get("encodings", [])) == version


def look(files: dict[str, str | bytes | OSError], **said: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - as ToldHost takes it
    host = ToldHost(files, row=ROWS[said.pop("row", "cusolver")], python=PYTHON, **said)
    host.environment = "/env/bin/python"
    seen: list[dict[str, Any]] = PROBE["probe"](host)
    return seen


def record(size: int) -> dict[str, str | bytes | OSError]:
    return {
        LIBRARY: "12345",
        f"{SITE}/nvidia_cusolver_cu12-11.7.3.90.dist-info/RECORD": f"{NAME},sha256=x,{size}\n",
    }


def test_a_large_library_whose_record_fits_is_not_loaded() -> None:
    (one,) = look(record(5), libraries={})
    assert (one["version"], one["version_from"], one["status"]) == ("11.7.3.90", "package", "present")
    assert one["owner"]["name"] == "nvidia-cusolver-cu12"


def test_one_that_was_overwritten_is_queried() -> None:
    def tell(pointer: Any) -> int:  # noqa: ANN401 - ctypes' pointers have no public type
        pointer._obj.value = 11602  # noqa: SLF001 - what a C function would write to
        return 0

    (one,) = look(record(6), libraries={LIBRARY: {"cusolverGetVersion": tell}})
    assert (one["version"], one["version_from"]) == ("11.6.2", "library")


def test_tensorrt_in_its_wheel_and_a_copy_that_does_not_load() -> None:
    files: dict[str, str | bytes | OSError] = {f"{SITE}/tensorrt_libs/libnvinfer.so.10": ""}

    def tell() -> int:
        return 101303

    said = {f"{SITE}/tensorrt_libs/libnvinfer.so.10": {"getInferLibVersion": tell}}
    (one,) = look(files, row="tensorrt", libraries=said)
    assert one["version"] == "10.13.3"
    (one,) = look(files, row="tensorrt", libraries={})
    assert (one["status"], one["version"]) == ("failed", None)


def test_the_lean_and_the_dispatch_runtime_are_not_taken_for_the_whole() -> None:
    names = ("libnvinfer_lean.so.10", "libnvinfer_dispatch.so.10", "libnvinfer_plugin.so.10")
    assert not [name for name in names if PROBE["pattern"](ROWS["tensorrt"]).fullmatch(name)]
