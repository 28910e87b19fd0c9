"""The driver's version in each of its parts, from fake files and package lists."""

from __future__ import annotations

import errno
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.told import Host, ToldHost, load

DRIVER = load("driver/nvidia_driver.py")
BANNER = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (builder@)  \n"
LIB = "/usr/lib/x86_64-linux-gnu"
STATUS = """Package: nvidia-driver-580-open
Status: install ok installed
Priority: optional
Version: 580.95.05-0ubuntu0.24.04.2
Description: NVIDIA driver (open kernel) metapackage
 Package: not-a-package

Package: libnvidia-compute-580
Architecture: amd64
Status: install ok installed
Version: 580.95.05-0ubuntu0.24.04.2

Package: libnvidia-compute-570
Status: deinstall ok config-files
Version: 570.1-1

Package: nvidia-container-toolkit
Status: install ok installed
Version: 1.17.8-1

Package: nvidia-cuda-toolkit
Status: install ok installed
Version: 12.0.140

Package: linux-modules-nvidia-580-open-6.8.0-50-generic
Status: install ok installed
Version: 6.8.0-50.51

Package: zlib1g
Status: install ok installed
Version: 1.3
"""
RPM = " ".join(["rpm", "-q", "--qf", "%{NAME} %{VERSION}-%{RELEASE}\\n", *DRIVER["RPMS"].split()])


def look(files: dict[str, Any], **told: Any) -> Any:  # noqa: ANN401 - a probe's answer
    return DRIVER["probe"](ToldHost(files, **told))


def test_the_h200_host() -> None:
    folder = "/usr/local/nvidia/lib64"
    files = {
        f"{folder}/libcuda.so.580.159.04": "",
        f"{folder}/libnvidia-ml.so.580.159.04": "",
        "/usr/local/cuda-13.0/compat/libcuda.so.580.95.05": "",
        "/sys/module/nvidia/version": "580.159.04\n",
    }
    links = {
        f"{folder}/libcuda.so.1": "libcuda.so.580.159.04",
        f"{folder}/libnvidia-ml.so.1": "libnvidia-ml.so.580.159.04",
        "/usr/local/cuda-13.0/compat/libcuda.so.1": "libcuda.so.580.95.05",
    }
    search = {"LD_LIBRARY_PATH": f"/usr/local/cuda-13.0/compat:{folder}"}
    assert look(files, links=links, environ=search) == {
        "version": "580.159.04",
        "libraries": [f"{folder}/libcuda.so.580.159.04", f"{folder}/libnvidia-ml.so.580.159.04"],
        "libcuda": "580.159.04",
        "libnvidia_ml": "580.159.04",
        "module_loaded": "580.159.04",
        "module_on_disk": None,
        "packages": [],
        "firmware": [],
    }


def test_a_machine_in_the_middle_of_an_upgrade_shows_each_part_at_its_own_release() -> None:
    files = {
        "/proc/sys/kernel/osrelease": "6.8.0-50-generic\n",
        "/lib/modules/6.8.0-50-generic/modules.dep": "updates/nvidia.ko.xz:\n",
        f"{LIB}/libcuda.so.580.95.05": "",
        "/proc/driver/nvidia/version": BANNER,
        "/lib/firmware/nvidia/580.95.05/gsp_ga10x.bin": "",
        "/lib/firmware/nvidia/ga102/gsp/gsp.bin": "",
        "/opt/firmware/nvidia/580.159.04/gsp_ga10x.bin": "",
        "/sys/module/firmware_class/parameters/path": "/opt/firmware\n",
        "/var/lib/dpkg/status": STATUS,
        "/usr/bin/nvidia-uninstall": "",
    }
    links = {f"{LIB}/libcuda.so.1": "libcuda.so.580.95.05"}
    commands = {"modinfo -F version /lib/modules/6.8.0-50-generic/updates/nvidia.ko.xz": "575.57.08\n"}
    seen = look(files, links=links, commands=commands)
    assert (seen["version"], seen["libcuda"], seen["libnvidia_ml"]) == ("580.95.05", "580.95.05", None)
    assert (seen["module_loaded"], seen["module_on_disk"]) == ("580.159.04", "575.57.08")
    assert seen["firmware"] == ["580.159.04", "580.95.05"]
    assert seen["packages"] == [
        {"kind": "deb", "name": "nvidia-driver-580-open", "version": "580.95.05-0ubuntu0.24.04.2"},
        {"kind": "deb", "name": "libnvidia-compute-580", "version": "580.95.05-0ubuntu0.24.04.2"},
        {"kind": "deb", "name": "linux-modules-nvidia-580-open-6.8.0-50-generic", "version": "6.8.0-50.51"},
        {"kind": "runfile", "name": "nvidia-installer", "version": None},
    ]


def test_rpm_and_pacman_tell_their_packages() -> None:
    said = "nvidia-driver 580.95.05-1.fc43\npackage nvidia-open is not installed\n"
    seen = look({"/var/lib/rpm/rpmdb.sqlite": ""}, commands={RPM: (1, said)})
    assert seen["packages"] == [{"kind": "rpm", "name": "nvidia-driver", "version": "580.95.05-1.fc43"}]
    nonsense = look({"/var/lib/rpm/rpmdb.sqlite": ""}, commands={RPM: (0, "\ufffdt,\x1bC 6\x17Z\ufffd{9\nx 6%;*a\n")})
    assert nonsense is None
    database = "/var/lib/pacman/local"
    names = ["nvidia-580.95.05-2", "nvidia-open-dkms-580.95.05-1", "nvidia-container-toolkit-1.17.8-1", "zlib-1:1.3-1"]
    seen = look({f"{database}/{name}/desc": "" for name in names})
    assert [(row["name"], row["version"]) for row in seen["packages"]] == [
        ("nvidia", "580.95.05-2"),
        ("nvidia-open-dkms", "580.95.05-1"),
    ]


def test_wsl_has_libraries_and_no_release() -> None:
    seen = look({"/usr/lib/wsl/lib/libcuda.so.1": ""}, environ={"LD_LIBRARY_PATH": "/usr/lib/wsl/lib"})
    assert (seen["version"], seen["libraries"]) == (None, ["/usr/lib/wsl/lib/libcuda.so.1"])


def test_a_module_without_libraries_is_a_driver_without_a_release() -> None:
    seen = look({"/sys/module/nvidia/version": "580.159.04\n"})
    assert (seen["version"], seen["libraries"], seen["module_loaded"]) == (None, [], "580.159.04")


def test_stubs_compat_copies_and_firmware_alone_are_not_a_driver() -> None:
    files = {
        "/usr/local/cuda/compat/libcuda.so.1": "",
        "/usr/local/cuda/lib64/stubs/libcuda.so.1": "",
        "/lib/firmware/nvidia/570.144/gsp.bin": "",
    }
    search = {"LD_LIBRARY_PATH": "/usr/local/cuda/compat:/usr/local/cuda/lib64/stubs"}
    assert look(files, environ=search) is None


def test_nothing_at_all_and_all_denied_are_absence() -> None:
    assert look({}) is None
    denied = OSError(errno.EACCES, "Permission denied")
    host = ToldHost({"/var/lib/dpkg/status": denied, "/sys/module/nvidia/version": denied})
    assert DRIVER["probe"](host) is None
    assert host.why("/var/lib/dpkg/status") == "denied"


def test_a_module_on_disk_that_cannot_be_read_has_no_release() -> None:
    running = {"/proc/sys/kernel/osrelease": "6.8\n", "/lib/modules/6.8/modules.dep": "nvidia.ko:\n"}
    assert look(running) is None
    assert look(running, commands={"modinfo -F version /lib/modules/6.8/nvidia.ko": (1, "")}) is None


def test_this_machine_answers() -> None:
    seen = DRIVER["probe"](Host())
    assert seen is None or seen["libraries"] or seen["module_loaded"] or seen["module_on_disk"] or seen["packages"]


@given(st.text())
def test_no_text_is_too_odd(text: str) -> None:
    paths = ["/var/lib/dpkg/status", "/proc/driver/nvidia/version", "/sys/module/nvidia/version"]
    host = ToldHost(dict.fromkeys(paths, text))
    assert all(row["kind"] == "deb" for row in DRIVER["debs"](host))
    DRIVER["probe"](host)
