"""How much memory programs may share and lock, according to the kernel's files."""

from __future__ import annotations

import os
import resource

import pytest

from tests.told import Host, ToldHost, load

probe = load("container/limits.py")["probe"]
GIB = 1 << 30
MEMORY = "MemTotal:       16777216 kB\nMemFree: 1 kB\n"


@pytest.mark.parametrize(
    ("options", "size"),
    [
        ("rw,nosuid,nodev,noexec,relatime,size=65536k,inode64", 64 << 20),
        ("rw,size=8g", 8 * GIB),
        ("rw,size=1048576", 1 << 20),
        ("rw,size=25%", 4 * GIB),
        ("rw,nosuid,nodev", 8 * GIB),
        ("rw,size=lots", 8 * GIB),
    ],
)
def test_shared_memory_has_the_size_of_its_mount_or_half_of_the_memory(options: str, size: int) -> None:
    host = ToldHost(
        {"/proc/mounts": f"proc /proc proc rw 0 0\nshm /dev/shm tmpfs {options} 0 0\n", "/proc/meminfo": MEMORY}
    )
    assert probe(host)["shm_bytes"] == size


def test_the_last_mount_counts_and_what_is_not_told_is_null() -> None:
    mounts = "tmpfs /dev/shm tmpfs rw,size=1g 0 0\nshm /dev/shm tmpfs rw,size=64m 0 0\n"
    assert probe(ToldHost({"/proc/mounts": mounts}))["shm_bytes"] == 64 << 20
    assert probe(ToldHost()) == {
        "shm_bytes": None,
        "memory_bytes": None,
        "memlock_bytes": None,
        "open_files": None,
        "may_lock": None,
        "rdma": [],
    }
    assert probe(ToldHost({"/proc/mounts": "shm /dev/shm tmpfs rw,size=10% 0 0\n"}))["shm_bytes"] is None


@pytest.mark.parametrize(
    ("mask", "may"), [("000001ffffffffff", True), ("0000000000004000", True), ("00000000a80425fb", False)]
)
def test_limits_are_those_in_force_and_root_is_above_them(mask: str, may: bool) -> None:  # noqa: FBT001 - a row
    said = "Limit  Soft Limit  Hard Limit  Units\nMax locked memory         65536        unlimited      bytes\n"
    files = {"/proc/self/limits": said + "Max open files     unlimited     unlimited   files\n"}
    status = {"/proc/self/status": f"Name:\tx\nCapEff:\t{mask}\n"}
    seen = probe(ToldHost({**files, **status, "/sys/class/infiniband/mlx5_0/x": ""}))
    assert (seen["memlock_bytes"], seen["open_files"]) == (65536, "unlimited")
    assert (seen["may_lock"], seen["rdma"]) == (may, ["mlx5_0"])


def test_on_this_machine_it_says_what_the_system_says() -> None:
    seen = probe(Host())
    soft = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    assert seen["memlock_bytes"] == ("unlimited" if soft == resource.RLIM_INFINITY else soft)
    if seen["shm_bytes"] is not None:
        there = os.statvfs("/dev/shm")  # noqa: S108 - what is asked about
        assert abs(there.f_blocks * there.f_frsize - seen["shm_bytes"]) <= seen["shm_bytes"] // 50
