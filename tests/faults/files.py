"""The table of files: which of the kernel's files is sick, how, and what the report must say of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tests.faults.tree import GPU

FAILED, PRESENT = "failed", "present"
BUS = "/sys/bus/pci/devices"
KINDS = {
    "denied": "may not be read",
    "folder": "is a folder",
    "loop": "is a link to itself",
    "pipe": "is a pipe that nobody writes to",
    "empty": "is empty",
    "binary": "is binary",
    "cut": "is cut",
    "endless": "has no end (a terabyte)",
    "line": "is one line of 8 MB",
    "encoded": "is in UTF-16",
    "number": "is a number of 5000 digits",
    "escapes": "is escapes for terminals",
    "changing": "changes while it is read",
}
# What the report says where the file cannot be read at all; it stands among what was not seen.
CLOSED = {
    "denied": "permission denied",
    "folder": "is a folder",
    "loop": "Too many levels of symbolic links",
    "pipe": "is a pipe, which is not waited for",
}
OPEN = tuple(kind for kind in KINDS if kind not in CLOSED)
NONSENSE = ("binary", "endless", "encoded", "escapes")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sick:
    """One sick file: the component that rests on it, its status, and what stands in its reason or in not_seen.

    ``fact`` is learnt from that file alone, and is null where the file is of no use.
    """

    fault: str
    path: str
    component: str
    status: str
    says: str = ""
    fact: str = ""

    @property
    def name(self) -> str:
        """Its name among the tests."""
        return f"{self.fault}-{self.path.rpartition('/')[2]}-{self.component}"

    @property
    def words(self) -> str:
        """The fault in words."""
        return KINDS[self.fault]


def files() -> tuple[Sick, ...]:
    """Give every row about files."""
    return (*_closed(), *_needed(), *_doubted(), *_null())


def _closed() -> Iterator[Sick]:
    """Give the files that cannot be read at all: each is named with the reason."""
    needed = {"/proc/sys/kernel/osrelease", f"{GPU}/class", f"{GPU}/vendor"}
    for path, component in (
        ("/proc/sys/kernel/osrelease", "linux-kernel"),
        (f"{GPU}/class", "pci-display"),
        (f"{GPU}/vendor", "pci-display"),
        (f"{GPU}/current_link_width", "pci-display"),
        ("/proc/driver/nvidia/version", "nvidia.ko"),
        ("/proc/driver/nvidia/params", "nvidia.ko"),
        ("/sys/module/nvidia/version", "nvidia-driver"),
        ("/sys/module/nvidia/initstate", "nvidia.ko"),
        ("/proc/meminfo", "limits"),
        ("/proc/mounts", "limits"),
        ("/proc/self/limits", "limits"),
        ("/var/lib/dpkg/status", "nvidia-driver"),
        ("/etc/ld.so.cache", "nvidia-driver"),
        ("/dev/kmsg", "kernel-log"),
    ):
        for fault, says in CLOSED.items():
            status = FAILED if path in needed else PRESENT
            yield Sick(fault=fault, path=path, component=component, status=status, says=says)


def _needed() -> Iterator[Sick]:
    """Give the files without which a probe has nothing to say, holding nonsense."""
    for path, component, says in (
        ("/proc/sys/kernel/osrelease", "linux-kernel", "osrelease: no kernel's release stands in it"),
        (f"{GPU}/class", "pci-display", "class: no number of PCI stands in it"),
        (f"{GPU}/vendor", "pci-display", "vendor: no number of PCI stands in it"),
    ):
        kinds = {"empty", *NONSENSE, "line", "number"} | ({"cut"} if component == "pci-display" else set())
        for fault in sorted(kinds):
            yield Sick(fault=fault, path=path, component=component, status=FAILED, says=says)


def _doubted() -> Iterator[Sick]:
    """Give the files whose nonsense is told as such."""
    for path, component, fact, says in (
        ("/sys/module/nvidia/version", "nvidia.ko", "", "not understood: no release stands in it"),
        ("/sys/module/nvidia/initstate", "nvidia.ko", "state", "not understood: no state of a module stands in it"),
        ("/proc/driver/nvidia/version", "nvidia.ko", "flavour", "not understood: no driver's banner stands in it"),
    ):
        for fault in NONSENSE:
            yield Sick(fault=fault, path=path, component=component, status=PRESENT, says=says, fact=fact)


def _null() -> Iterator[Sick]:
    """Give the files whose nonsense leaves a fact unknown."""
    for path, component, fact in (
        ("/proc/meminfo", "limits", "memory_bytes"),
        ("/proc/mounts", "limits", "shm_bytes"),
        ("/proc/self/limits", "limits", "open_files"),
        ("/proc/sys/kernel/tainted", "linux-kernel", "taint"),
        ("/etc/os-release", "linux-kernel", "os"),
        ("/dev/kmsg", "kernel-log", "readable"),
    ):
        for fault in OPEN:
            if fault not in {"cut", "changing"}:
                yield Sick(fault=fault, path=path, component=component, status=PRESENT, fact=fact)
    for path, component, status in (
        ("/proc/driver/nvidia/version", "nvidia.ko", PRESENT),
        ("/sys/module/nvidia/version", "nvidia-driver", PRESENT),
        ("/proc/mounts", "limits", PRESENT),
        ("/var/lib/dpkg/status", "nvidia-driver", PRESENT),
        ("/dev/kmsg", "kernel-log", PRESENT),
    ):
        for fault in ("changing", "cut"):
            yield Sick(fault=fault, path=path, component=component, status=status)
