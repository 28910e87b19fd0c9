"""A machine's /proc, /sys and /dev in a folder, healthy but for one faulty file; real children of gpustack read it."""

from __future__ import annotations

import ctypes
import os
import shutil
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from gpustack.collect import catalogue, probing
from gpustack.collect.probe_results import parse
from gpustack.collect.subprocesses import Door
from gpustack.collect.workers import ask
from gpustack.model.facts import Environment, Facts

if TYPE_CHECKING:
    from gpustack.model.facts import Component

GPU = "/sys/devices/pci0000:00/0000:00:1a.0"
BANNER = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build\n"
FILES: Mapping[str, str] = {
    "/proc/sys/kernel/osrelease": "6.8.0-60-generic\n",
    "/proc/sys/kernel/hostname": "machine\n",
    "/proc/sys/kernel/arch": "x86_64\n",
    "/proc/sys/kernel/tainted": "12288\n",
    "/proc/cmdline": "root=/dev/sda1 iommu=pt\n",
    "/proc/cpuinfo": "processor : 0\nflags : fpu sse avx\n",
    "/proc/meminfo": "MemTotal:       1056768000 kB\n",
    "/proc/mounts": "tmpfs /dev/shm tmpfs rw,size=67108864k 0 0\n",
    "/proc/self/limits": "Max open files            1024                 524288               files     \n",
    "/proc/self/status": "Name:\tpython\nCapEff:\t0000000000000000\n",
    "/proc/driver/nvidia/version": BANNER,
    "/proc/driver/nvidia/params": "EnableGpuFirmware: 18\nNVreg_Anything: 1\n",
    "/proc/driver/nvidia/gpus/0000:00:1a.0/information": "Model: \t\t NVIDIA H200\nDevice Minor: \t 0\n",
    "/sys/module/nvidia/version": "580.159.04\n",
    "/sys/module/nvidia/initstate": "live\n",
    "/sys/module/nvidia/refcnt": "12\n",
    f"{GPU}/class": "0x030200\n",
    f"{GPU}/vendor": "0x10de\n",
    f"{GPU}/device": "0x2335\n",
    f"{GPU}/current_link_width": "16\n",
    "/etc/os-release": 'ID=ubuntu\nPRETTY_NAME="Ubuntu 24.04.2 LTS"\n',
    "/etc/ld.so.cache": "",
    "/var/lib/dpkg/status": "Package: nvidia-driver-580\nStatus: install ok installed\nVersion: 580.159.04-1\n\n",
    "/dev/kmsg": "6,1,100,-;NVRM: loading NVIDIA UNIX Open Kernel Module\n",
}
LINKS = {
    "/sys/bus/pci/devices/0000:00:1a.0": "../../../devices/pci0000:00/0000:00:1a.0",
    f"{GPU}/driver": "../../../bus/pci/drivers/nvidia",
}
OTHER = {"580.159.04": "590.48.01", "Open Kernel Module for": "Kernel Module for", "67108864k": "33554432k",
         " loading": " unloading"}  # fmt: skip
ASKED = ["linux-kernel", "limits", "iommu", "pci-display", "nvidia.ko", "nvidia-driver", "kernel-log"]
UNREADABLE = (1, 2)  # CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH: without them root is denied access like anybody else
# Starts what follows without the right to read what is forbidden, whoever runs it.
MEEK = (
    "import ctypes,os,sys;l=ctypes.CDLL(None);[l.prctl(24,c,0,0,0) for c in (1,2)];os.execv(sys.argv[1],sys.argv[1:])"
)


def plant(root: Path) -> Path:
    """Set up the healthy machine; return its root."""
    for path, text in FILES.items():
        at = root / path[1:]
        at.parent.mkdir(parents=True, exist_ok=True)
        at.write_text(text)
    (root / "sys/bus/pci/drivers/nvidia").mkdir(parents=True)
    for path, said in LINKS.items():
        at = root / path[1:]
        at.parent.mkdir(parents=True, exist_ok=True)
        at.symlink_to(said)
    return root


def look(root: Path, ids: Sequence[str] = ASKED) -> Facts:
    """Return the facts of that machine, read by children that have no more rights than an ordinary user."""
    systems = [replace(one, target=False, alone=False) for one in catalogue.load() if one.id in ids]
    tasks = probing.plan((Environment(python=sys.executable, kind="own"),), {"PATH": ""}, systems, deep=False)
    meek = [
        replace(task, argv=(sys.executable, "-I", "-S", "-c", MEEK, *task.argv), more={"root": str(root)})
        for task in tasks
    ]
    door = Door()
    components, unseen = parse(tuple(ask(meek, door, door.now() + 9.0)))
    return Facts(
        taken="2026-11-21T12:00:00+00:00", host=catalogue.describe(components), components=components, not_seen=unseen
    )


def with_driver(facts: Facts, well: Facts) -> Facts:
    """Return these facts with the libraries of a healthy machine."""
    seen = {one.id for one in facts.components}
    more: tuple[Component, ...] = tuple(one for one in well.components if one.id not in seen)
    return replace(facts, components=(*facts.components, *more))


# What can be wrong with a file. Each gets its path and its healthy text.


def _denied(at: Path, _: str) -> None:
    at.chmod(0)


def _folder(at: Path, _: str) -> None:
    at.unlink()
    at.mkdir()


def _loop(at: Path, _: str) -> None:
    at.unlink()
    at.symlink_to(at.name)


def _pipe(at: Path, _: str) -> None:
    at.unlink()
    os.mkfifo(at)


def _gone(at: Path, _: str) -> None:
    at.unlink()


def _empty(at: Path, _: str) -> None:
    at.write_bytes(b"")


def _binary(at: Path, _: str) -> None:
    at.write_bytes(bytes(range(256)) * 16)


def _cut(at: Path, text: str) -> None:
    at.write_text(text[: len(text) // 3])


def _endless(at: Path, _: str) -> None:
    with at.open("wb") as file:
        file.truncate(1 << 40)


def _line(at: Path, _: str) -> None:
    at.write_bytes(b"A" * (8 << 20))


def _encoded(at: Path, text: str) -> None:
    at.write_bytes(text.encode("utf-16"))


def _number(at: Path, _: str) -> None:
    at.write_text("9" * 5000 + "\n")


def _escapes(at: Path, _: str) -> None:
    at.write_text("\x1b[2J\x1b]0;owned\x07\u202e\x9b31m\n")


SICK: Mapping[str, Callable[[Path, str], None]] = {
    "denied": _denied,
    "folder": _folder,
    "loop": _loop,
    "pipe": _pipe,
    "gone": _gone,
    "empty": _empty,
    "binary": _binary,
    "cut": _cut,
    "endless": _endless,
    "line": _line,
    "encoded": _encoded,
    "number": _number,
    "escapes": _escapes,
}


def sicken(root: Path, path: str, fault: str) -> None:
    """Make one file of the machine faulty."""
    SICK[fault](root / path[1:], FILES[path])


def other(text: str) -> str:
    """Return the content of a file on another healthy machine."""
    for here, there in OTHER.items():
        text = text.replace(here, there)
    return text


@contextmanager
def changing(root: Path, path: str) -> Iterator[None]:
    """Rewrite a file for as long as this lasts: its content is different at every moment, longer or shorter."""
    at, text, done = root / path[1:], other(FILES[path]), threading.Event()
    at.write_text(text)

    def rewrite() -> None:
        with at.open("r+") as file:
            while not done.is_set():
                file.truncate(len(text))
                file.seek(len(text))
                file.write("\n" * 200_000)
                file.flush()

    writer = threading.Thread(target=rewrite, daemon=True)
    writer.start()
    try:
        yield
    finally:
        done.set()
        writer.join()


def remove(root: Path) -> None:
    """Remove the machine, forbidden files as well."""
    shutil.rmtree(root, ignore_errors=True)


def may_drop() -> bool:
    """Return whether a child can be denied what root may read; where we are not root, it is denied anyway."""
    return os.geteuid() != 0 or ctypes.CDLL(None).prctl(23, UNREADABLE[0], 0, 0, 0) in (0, 1)
