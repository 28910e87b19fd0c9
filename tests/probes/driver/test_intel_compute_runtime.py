"""Intel's compute runtime on fake machines: which halves are installed, and the version by package or file name."""

from __future__ import annotations

from typing import Any

from gpustack.collect import catalogue
from tests.told import ToldHost, load

PROBE = load("driver/intel_compute_runtime.py")
ROW = dict(next(system.data for system in catalogue.load() if system.id == "intel-compute-runtime"))
LIB = "/usr/lib/x86_64-linux-gnu"
DPKG = {
    "/var/lib/dpkg/status": "Package: libze-intel-gpu1\nVersion: 25.31.34666.3-1ubuntu1\n\n",
    "/var/lib/dpkg/info/libze-intel-gpu1.list": f"{LIB}/libze_intel_gpu.so.1.6.34666\n",
}


def look(files: dict[str, Any], **said: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - as ToldHost takes it
    python = {"machine": "x86_64", "executable": "/usr/bin/python3"}
    return PROBE["probe"](ToldHost(files, row=ROW, python=python, **said)) or []


def test_the_release_is_that_of_the_package() -> None:
    links = {f"{LIB}/libze_intel_gpu.so.1": "libze_intel_gpu.so.1.6.34666"}
    (found,) = look({f"{LIB}/libze_intel_gpu.so.1.6.34666": "", **DPKG}, links=links)
    assert (found["version"], found["build"]) == ("25.31.34666.3", "34666")
    assert (found["kind"], found["legacy"]) == ("level-zero", False)
    assert found["owner"]["name"] == "libze-intel-gpu1"


def test_without_a_package_the_build_is_in_the_files_name() -> None:
    links = {f"{LIB}/libze_intel_gpu_legacy1.so.1": "libze_intel_gpu_legacy1.so.1.5.30872"}
    (found,) = look({f"{LIB}/libze_intel_gpu_legacy1.so.1.5.30872": ""}, links=links)
    assert (found["version"], found["build"], found["legacy"], found["owner"]) == (None, "30872", True, None)


def test_the_half_for_opencl_is_the_one_that_is_registered() -> None:
    files = {
        "/etc/OpenCL/vendors/intel.icd": f"{LIB}/intel-opencl/libigdrcl.so\n",
        "/etc/OpenCL/vendors/gone.icd": f"{LIB}/intel-opencl/libigdrcl_legacy1.so\n",
        "/etc/OpenCL/vendors/nvidia.icd": "libnvidia-opencl.so.1\n",
        f"{LIB}/intel-opencl/libigdrcl.so": "",
    }
    (found,) = look(files)
    assert (found["kind"], found["path"]) == ("opencl", f"{LIB}/intel-opencl/libigdrcl.so")


def test_a_machine_without_it_has_none() -> None:
    assert look({}) == []
