"""The table of files: which kernel file is faulty, how, and what the report must say about it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.faults.tree import GPU

if TYPE_CHECKING:
    from gpustack.model.facts import JsonValue

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
# What the report says where the file cannot be read at all; it is listed under what was not checked.
CLOSED = {
    "denied": "permission denied",
    "folder": "is a folder",
    "loop": "Too many levels of symbolic links",
    "pipe": "is a pipe, which is not waited for",
}
OPEN = tuple(kind for kind in KINDS if kind not in CLOSED)
SHORTER = ("/dev/kmsg", "/proc/sys/kernel/tainted")  # truncated, they still say something
# Components that depend on one file together.
SHARED = {"nvidia/": frozenset({"nvidia.ko", "nvidia-driver"}), f"{GPU}/": frozenset({"pci-display", "iommu"})}
# Facts learnt from a file and from another that says the same.
OTHERWISE = {
    ("/sys/module/nvidia/version", "nvidia.ko"): ("version_loaded", "/proc/driver/nvidia/version"),
    ("/sys/module/nvidia/version", "nvidia-driver"): ("module_loaded", "/proc/driver/nvidia/version"),
}
NONSENSE = ("binary", "endless", "encoded", "escapes")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sick:
    """One faulty file: the component that depends on it, its status, and how its facts differ from a healthy one's.

    ``says`` is part of its reason, or why the file is in not_seen. ``fact`` is learnt from the file alone: it is
    unknown, or what is ``left`` of it. The file ``by`` also states the fact ``same``, so that losing it costs nothing.
    """

    fault: str
    path: str
    component: str
    status: str = PRESENT
    says: str = ""
    fact: str = ""
    left: JsonValue = None
    same: str = ""
    by: str = ""

    @property
    def name(self) -> str:
        """Its name among the tests."""
        return f"{self.fault}-{self.path.rpartition('/')[2]}-{self.component}"

    @property
    def words(self) -> str:
        """The fault in words."""
        return KINDS[self.fault]

    @property
    def asked(self) -> str:
        """The path that the probes read the file from."""
        return self.path.replace(GPU, f"{BUS}/0000:00:1a.0")

    @property
    def touches(self) -> frozenset[str]:
        """The components that depend on the file: all others are as they are without the fault."""
        return next((held for part, held in SHARED.items() if part in self.path), frozenset({self.component}))


def files() -> tuple[Sick, ...]:
    """Return every row about files."""
    return (*_closed(), *_needed(), *_doubted(), *_null(), *_left())


def _closed() -> Iterator[Sick]:
    """Yield the files that cannot be read at all: each is named with the reason."""
    needed = {"/proc/sys/kernel/osrelease", f"{GPU}/class", f"{GPU}/vendor"}
    for path, component in (
        ("/proc/sys/kernel/osrelease", "linux-kernel"),
        (f"{GPU}/class", "pci-display"),
        (f"{GPU}/class", "iommu"),
        (f"{GPU}/vendor", "pci-display"),
        (f"{GPU}/vendor", "iommu"),
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
        same, by = OTHERWISE.get((path, component), ("", ""))
        for fault, says in CLOSED.items():
            status = FAILED if path in needed else PRESENT
            yield Sick(fault=fault, path=path, component=component, status=status, says=says, same=same, by=by)


def _needed() -> Iterator[Sick]:
    """Yield the files whose probe has nothing to report when they contain nonsense."""
    for path, component, says in (
        ("/proc/sys/kernel/osrelease", "linux-kernel", "osrelease: no kernel's release stands in it"),
        (f"{GPU}/class", "pci-display", "class: no number of PCI stands in it"),
        (f"{GPU}/class", "iommu", "class: no number of PCI stands in it"),
        (f"{GPU}/vendor", "pci-display", "vendor: no number of PCI stands in it"),
        (f"{GPU}/vendor", "iommu", "vendor: no number of PCI stands in it"),
    ):
        kinds = {"empty", *NONSENSE, "line", "number"} | ({"cut"} if path.startswith(GPU) else set())
        for fault in sorted(kinds):
            yield Sick(fault=fault, path=path, component=component, status=FAILED, says=says)


def _doubted() -> Iterator[Sick]:
    """Yield the files whose nonsense is reported as such."""
    for path, component, fact, why in (
        ("/sys/module/nvidia/version", "nvidia.ko", "", "no release stands in it"),
        ("/sys/module/nvidia/version", "nvidia-driver", "", "no release stands in it"),
        ("/sys/module/nvidia/initstate", "nvidia.ko", "state", "no state of a module stands in it"),
        ("/proc/driver/nvidia/version", "nvidia.ko", "flavour", "no driver's banner stands in it"),
        ("/proc/driver/nvidia/params", "nvidia.ko", "parameters", "no parameter stands in it"),
        ("/var/lib/dpkg/status", "nvidia-driver", "packages", "it is no list of packages, or not a whole one"),
    ):
        same, by = OTHERWISE.get((path, component), ("", ""))
        # So much of a package list is read that an endless one takes a second: the log's row is enough.
        for fault in (*(kind for kind in NONSENSE if kind != "endless" or fact != "packages"), "cut"):
            says = f"not understood: {why}"
            yield Sick(fault=fault, path=path, component=component, says=says, fact=fact, same=same, by=by)


def _null() -> Iterator[Sick]:
    """Yield the files whose nonsense leaves a fact unknown."""
    for path, component, fact in (
        ("/proc/meminfo", "limits", "memory_bytes"),
        ("/proc/mounts", "limits", "shm_bytes"),
        ("/proc/self/limits", "limits", "open_files"),
        ("/proc/sys/kernel/tainted", "linux-kernel", "taint"),
        ("/etc/os-release", "linux-kernel", "os"),
        ("/dev/kmsg", "kernel-log", "readable"),
    ):
        for fault in OPEN:
            if fault != "changing" and (fault != "cut" or path not in SHORTER):
                yield Sick(fault=fault, path=path, component=component, fact=fact)


def _left() -> Iterator[Sick]:
    """Yield the files that have other content: their first third, or what they are changed to."""
    package = {"kind": "deb", "name": "nvidia-driver-580", "version": "590.48.01-1"}
    left: tuple[tuple[str, str, str, str, JsonValue], ...] = (
        ("cut", "/dev/kmsg", "kernel-log", "nvrm", ("NVRM: lo",)),
        ("cut", "/proc/sys/kernel/tainted", "linux-kernel", "taint", 12),
        ("cut", "/proc/sys/kernel/osrelease", "linux-kernel", "release", "6.8.0"),
        ("changing", "/proc/driver/nvidia/version", "nvidia.ko", "flavour", "proprietary"),
        ("changing", "/sys/module/nvidia/version", "nvidia-driver", "module_loaded", "590.48.01"),
        ("changing", "/proc/mounts", "limits", "shm_bytes", 32 << 30),
        ("changing", "/var/lib/dpkg/status", "nvidia-driver", "packages", (package,)),
        ("changing", "/dev/kmsg", "kernel-log", "nvrm", ("NVRM: unloading NVIDIA UNIX Open Kernel Module",)),
    )
    for fault, path, component, fact, value in left:
        yield Sick(fault=fault, path=path, component=component, fact=fact, left=value)
