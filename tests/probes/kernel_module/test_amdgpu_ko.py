"""The kernel's amdgpu on fake machines: its origin, what blocks it, its nodes and this login's access to them."""

from __future__ import annotations

import errno
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.told import ToldHost, load

MODULE = load("kernel_module/amdgpu_ko.py")
SHARED = load("modules.py")
RELEASE = "6.8.0-50-generic"
TREE = f"/lib/modules/{RELEASE}"
STATUS = "Name:\tpython\nUid:\t1000\t1000\t1000\t1000\nGid:\t1000\t1000\t1000\t1000\nGroups:\t27 1000 \n"
GROUPS = "root:x:0:\nvideo:x:44:ann\nrender:x:993:ann,bob\nann:x:1000:\nsudo:x:27:ann\n"
USERS = "root:x:0:0::/root:/bin/sh\nann:x:1000:1000::/home/ann:/bin/sh\n"
LOADED = {
    "/proc/sys/kernel/osrelease": RELEASE,
    "/sys/module/amdgpu/initstate": "live\n",
    "/sys/module/amdgpu/parameters/gpu_recovery": "-1\n",
    "/sys/module/amdgpu/parameters/dc": "-1\n",
    "/sys/class/kfd/kfd/topology/generation_id": "2",
    "/proc/self/status": STATUS,
    "/etc/group": GROUPS,
    "/etc/passwd": USERS,
}
DEVICE = "/sys/devices/pci0000:00/0000:03:00.0"
RENDER = {f"{DEVICE}/vendor": "0x1002\n"}
LINKS = {"/sys/class/drm/renderD128/device": DEVICE}
SHUT = {"mode": "0o660", "gid": 993, "kind": "char", "readable": False, "writable": False}


def look(files: dict[str, Any], **more: Any) -> Any:  # noqa: ANN401 - a probe's answer
    return MODULE["probe"](ToldHost(files, **more))


def test_neither_loaded_nor_on_disk_is_absent() -> None:
    assert look({}) is None
    assert look({"/proc/sys/kernel/osrelease": RELEASE}) is None


@pytest.mark.parametrize(
    ("more", "build", "version"),
    [
        ({f"{TREE}/modules.dep": "kernel/drivers/gpu/drm/amd/amdgpu/amdgpu.ko.zst: x\n"}, "in-tree", None),
        ({"/sys/module/amdgpu/version": "6.14.14\n"}, "dkms", "6.14.14"),
        ({f"{TREE}/modules.dep": "updates/dkms/amdgpu.ko: x\n"}, "dkms", None),
    ],
)
def test_the_kernels_own_module_has_no_version_and_is_told_from_amds(
    more: dict[str, str], build: str, version: str | None
) -> None:
    found = look({**LOADED, **more})
    assert (found["loaded"], found["build"], found["version"]) == (True, build, version)
    assert found["parameters"] == {"gpu_recovery": "-1"}


def test_a_module_on_disk_that_a_file_keeps_out() -> None:
    rule = {"/etc/modprobe.d/no.conf": "blacklist amdgpu\n", "/proc/cmdline": "quiet module_blacklist=amdgpu"}
    files = {"/proc/sys/kernel/osrelease": RELEASE, f"{TREE}/modules.dep": "kernel/amdgpu.ko: x\n", **rule}
    found = look(files)
    assert (found["loaded"], found["kfd"], found["nodes"]) == (False, False, [])
    assert found["blacklisted"] == ["/etc/modprobe.d/no.conf", "/proc/cmdline"]


def test_nodes_of_amd_alone_with_owner_and_what_this_login_may() -> None:
    other = {"/sys/devices/pci0000:00/0000:00:02.0/vendor": "0x8086\n"}
    links = {**LINKS, "/sys/class/drm/renderD129/device": "/sys/devices/pci0000:00/0000:00:02.0"}
    devices = {"/dev/kfd": SHUT, "/dev/dri/renderD128": {**SHUT, "readable": True, "writable": True}}
    found = look({**LOADED, **RENDER, **other}, links=links, devices=devices)
    assert [(one["path"], one["pci"], one["group"], one["readable"]) for one in found["nodes"]] == [
        ("/dev/kfd", None, "render", False),
        ("/dev/dri/renderD128", "0000:03:00.0", "render", True),
    ]
    assert found["login"] == {"root": False, "gids": [27, 1000], "groups": [], "account_groups": ["video", "render"]}


def test_missing_nodes_are_reported_as_missing() -> None:
    found = look({**LOADED, **RENDER}, links=LINKS)
    assert [(one["path"], one["exists"], one["group"]) for one in found["nodes"]] == [
        ("/dev/kfd", False, None),
        ("/dev/dri/renderD128", False, None),
    ]


def test_a_login_that_cannot_be_read_says_nothing_of_itself() -> None:
    files: dict[str, Any] = {**LOADED, "/proc/self/status": OSError(errno.EACCES, "denied")}
    assert look(files)["login"] == {"root": None, "gids": [], "groups": [], "account_groups": []}


def test_root_and_groups_of_the_nodes_are_named_and_no_others() -> None:
    status = STATUS.replace("1000", "0").replace("27", "27 993")
    host = ToldHost({**LOADED, "/proc/self/status": status})
    assert SHARED["login"](host, ["render"]) == {
        "root": True, "gids": [0, 27, 993], "groups": ["render"], "account_groups": [],
    }  # fmt: skip


@given(st.text(max_size=300))
def test_no_text_makes_it_raise(text: str) -> None:
    files = dict.fromkeys([*LOADED, f"{TREE}/modules.dep", "/proc/cmdline", "/etc/modprobe.d/x.conf"], text)
    look({**files, **RENDER}, links=LINKS, devices={"/dev/kfd": SHUT})
