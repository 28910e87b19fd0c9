"""This process's limits on what GPU programs need much of: shared memory, locked memory, open files.

Shared memory is a file system in memory at /dev/shm; its size is that of the mount, or half of the memory if the mount
sets none (Documentation/filesystems/tmpfs.rst). RDMA network cards use locked memory.
"""

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List, Optional

    from probes.host import Answer, Host

UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
LIMITS = {"memlock_bytes": "Max locked memory", "open_files": "Max open files"}
UNLIMITED = "unlimited"
CAP_IPC_LOCK = 14  # linux/capability.h: allows locking memory beyond any limit


def probe(host: "Host") -> "Answer":
    """Return the sizes and limits in bytes; "unlimited" stays a word, unknown values are null."""
    memory = re.search(r"^MemTotal:\s+(\d{1,15}) kB", host.read("/proc/meminfo", 1 << 16) or "", re.MULTILINE)
    total = int(memory.group(1)) << 10 if memory else None
    said = host.read("/proc/self/limits", 1 << 14) or ""
    return {
        "shm_bytes": shared(host.read("/proc/mounts", 1 << 20) or "", total),
        "memory_bytes": total,
        **{name: limit(said, words) for name, words in LIMITS.items()},
        "may_lock": may_lock(host.read("/proc/self/status", 1 << 14) or ""),
        "rdma": host.list("/sys/class/infiniband"),
    }


def shared(mounts: str, total: "Optional[int]") -> "Optional[int]":
    """Return the size of /dev/shm in bytes, or None if nothing with a size is mounted there."""
    rows = [row.split(" ") for row in mounts.splitlines()]
    found: "List[List[str]]" = [row for row in rows if len(row) > 3 and row[1:3] == ["/dev/shm", "tmpfs"]]  # noqa: S108, PLR2004 - the mount of that name; device, place, kind, options
    if not found:
        return None
    size = re.search(r"(?:^|,)size=(\d{1,18})([kmg%]?)(?:,|$)", found[-1][3].lower())
    if not size:
        return total // 2 if total else None
    if size.group(2) == "%":
        return total * int(size.group(1)) // 100 if total else None
    return int(size.group(1)) * UNITS[size.group(2)]


def limit(said: str, words: str) -> "Optional[object]":
    """Return the effective (soft) limit, as a number or as the word unlimited."""
    found = re.search(r"^%s\s+(\d{1,19}|unlimited)\s" % words, said, re.MULTILINE)
    if not found:
        return None
    return UNLIMITED if found.group(1) == UNLIMITED else int(found.group(1))


def may_lock(said: str) -> "Optional[bool]":
    """Return whether this process may lock memory beyond its limit, as root may."""
    found = re.search(r"^CapEff:\s+([0-9a-f]{1,16})$", said, re.MULTILINE)
    return bool(int(found.group(1), 16) >> CAP_IPC_LOCK & 1) if found else None
