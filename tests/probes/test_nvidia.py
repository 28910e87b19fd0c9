"""What the probes of NVIDIA's driver share, on fake machines."""

from __future__ import annotations

import errno

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.told import ToldHost, load

NVIDIA = load("nvidia.py")
MISSING = "libcuda.so.1: cannot open shared object file: No such file or directory"
DRIVER = "/usr/local/nvidia/lib64"


def test_every_copy_is_reported_once_with_what_it_is_for_the_loaders_first_choice_first() -> None:
    """The H200 host of 2026-11-21, with WSL's library as well: driver files twice, a compat copy, stubs."""
    files = {
        f"{DRIVER}/libcuda.so.580.159.04": "",
        "/usr/local/cuda-13.0/compat/libcuda.so.580.95.05": "",
        "/usr/local/cuda-13.0/lib64/stubs/libcuda.so": "",
        "/usr/lib/wsl/lib/libcuda.so.1": "",
    }
    links = {
        f"{DRIVER}/libcuda.so.1": "libcuda.so.580.159.04",
        "/lib/libcuda.so.1": f"{DRIVER}/libcuda.so.580.159.04",
        "/usr/local/cuda": "/usr/local/cuda-13.0",
        "/usr/local/cuda-13.0/compat/libcuda.so.1": "libcuda.so.580.95.05",
    }
    host = ToldHost(files, links=links, environ={"LD_LIBRARY_PATH": f"{DRIVER}:/usr/local/nvidia/lib"})
    seen = NVIDIA["copies"](host, "libcuda.so")
    assert [(copy["kind"], copy["release"], copy["found_by"]) for copy in seen] == [
        ("driver", "580.159.04", "LD_LIBRARY_PATH"),
        ("wsl", None, "known folder"),
        ("compat", "580.95.05", "known folder"),
        ("stub", None, "known folder"),
    ]
    assert (seen[0]["path"], seen[0]["real"]) == (f"{DRIVER}/libcuda.so.1", f"{DRIVER}/libcuda.so.580.159.04")


def test_a_compat_copy_that_shadows_the_driver_comes_first() -> None:
    files = {"/usr/local/cuda/compat/libcuda.so.1": "", "/usr/lib64/libcuda.so.1": ""}
    seen = NVIDIA["copies"](ToldHost(files, environ={"LD_LIBRARY_PATH": "/usr/local/cuda/compat"}), "libcuda.so")
    assert [(copy["kind"], copy["found_by"]) for copy in seen] == [("compat", "LD_LIBRARY_PATH"), ("driver", "default")]


def test_the_loaders_own_choice_is_reported_where_a_second_file_of_the_name_is_mapped() -> None:
    """WSL: the library in its folder loads the one that Windows provides."""
    path = "/usr/lib/wsl/lib/libcuda.so.1"
    host = ToldHost({path: ""}, libraries={"libcuda.so.1": {}}, maps=["/usr/lib/wsl/drivers/nv/libcuda.so.1.1", path])
    seen = NVIDIA["load"](host, "libcuda.so", [{"real": path}])
    assert (seen["path"], seen["kind"], seen["version"]) == (path, "wsl", None)
    assert seen["loaded"] is not None


def test_no_library_and_no_copy_is_neither_loaded_nor_failed() -> None:
    host = ToldHost(libraries={"libcuda.so.1": OSError(MISSING)})
    assert NVIDIA["load"](host, "libcuda.so", []) == {"loaded": None}


@pytest.mark.parametrize(
    ("copies", "error"),
    [
        ([{"real": "/x"}], MISSING),
        ([], "libcuda.so.1: cannot open shared object file: Permission denied"),
        ([], "libdl.so.2: cannot open shared object file: No such file or directory"),
        ([], "/lib/libcuda.so.1: undefined symbol: x"),
    ],
)
def test_what_is_there_and_cannot_be_loaded_has_failed_in_the_loaders_words(
    copies: list[dict[str, str]], error: str
) -> None:
    seen = NVIDIA["load"](ToldHost(libraries={"libcuda.so.1": OSError(error)}), "libcuda.so", copies)
    assert seen == {"loaded": None, "status": "failed", "error": error}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (x@)", "580.159.04"),
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  520.56.06  Thu Oct  6 21:38:55 UTC 2022\n", "520.56.06"),
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  390.157  Wed Oct 12\n", "390.157"),
        ("GCC version:  gcc version 12.2.0\n", None),
        ("", None),
    ],
)
def test_the_release_in_a_banner(text: str, says: str | None) -> None:
    assert NVIDIA["in_banner"](text) == says


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("/usr/lib/libcuda.so.580.159.04", "580.159.04"),
        ("/usr/lib/libcuda.so.390.157", "390.157"),
        ("/usr/lib/libcuda.so.1", None),
        ("/usr/lib/wsl/lib/libcuda.so.1.1", None),
        ("/usr/lib/libcuda.so", None),
        (None, None),
    ],
)
def test_the_release_in_the_name_of_a_file(name: str | None, says: str | None) -> None:
    assert NVIDIA["release"](name) == says


def test_a_module_is_found_for_the_running_kernel_alone_and_by_either_spelling() -> None:
    files: dict[str, str | bytes | OSError] = {
        "/proc/sys/kernel/osrelease": "6.8.0-50-generic\n",
        "/lib/modules/6.8.0-49-generic/modules.dep": "nvidia-uvm.ko:\n",
    }
    assert NVIDIA["on_disk"](ToldHost(files), "nvidia_uvm") is None
    tree = "/lib/modules/6.8.0-50-generic"
    files[f"{tree}/modules.dep"] = "kernel/not-nvidia-uvm.ko: x\nupdates/nvidia-uvm.ko.xz: updates/nvidia.ko.xz\n"
    assert NVIDIA["on_disk"](ToldHost(files), "nvidia_uvm") == f"{tree}/updates/nvidia-uvm.ko.xz"
    assert NVIDIA["on_disk"](ToldHost(files), "nvidia") is None
    files[f"{tree}/modules.dep"] = "/opt/nvidia.ko:\n"
    assert NVIDIA["on_disk"](ToldHost(files), "nvidia") == "/opt/nvidia.ko"
    files[f"{tree}/modules.dep"] = OSError(errno.EACCES, "Permission denied")
    assert NVIDIA["on_disk"](ToldHost(files), "nvidia") is None


@given(st.text())
def test_no_text_is_too_odd(text: str) -> None:
    assert NVIDIA["kind"](text) in {"driver", "stub", "compat", "wsl"}
    assert NVIDIA["release"](text) is None or ".so." in text
    assert NVIDIA["in_banner"](text) is None or "Module" in text
    assert NVIDIA["in_list"](text, "nvidia") is None or "nvidia.ko" in text
