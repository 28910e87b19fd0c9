"""The table of programs: which command of the machine is faulty, how, and what is unknown without its output."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.faults import tree

FAILED, PRESENT = "failed", "present"
SHELL = "#!/bin/sh\nPATH=/usr/bin:/bin\n"
# A description of each faulty program, and its text; {path} is its own.
KINDS: Mapping[str, tuple[str, str]] = {
    "hang": ("sleeps for ever", f"{SHELL}exec sleep 60\n"),
    "text": ("is no program", "\x7fELF and no more"),
    "garbage": ("prints nonsense", f"{SHELL}head -c 5000 /dev/urandom\nhead -c 5000 /dev/urandom >&2\n"),
    "endless": ("prints for ever", f"{SHELL}exec cat /dev/zero\n"),
    "segv": ("segmentation fault", f"{SHELL}kill -SEGV $$\n"),
    "loop": ("is its own interpreter", "#!{path}\n"),
}
# The words listed under what was not checked, where the fault is one that no healthy machine has.
SAYS = {
    "hang": "no answer",
    "endless": "no answer",
    "text": "Exec format error",
    "loop": "Too many levels of symbolic links",
}
TALKERS = ("uname", "modinfo", "nvcc")  # one that prints forever keeps a processor busy as long as it is waited for
# What each prints while it is healthy.
WELL: Mapping[str, str] = {
    "uname": "echo x86_64",
    "modinfo": "echo 'version: 580.159.04'",
    "rpm": "test $1 != -q || echo nvidia-driver 580.159.04-1",  # it does not know which package owns a file
    "journalctl": "echo '[    1.5] machine kernel: NVRM: loading'",
    "nvidia-persistenced": "echo 'nvidia-persistenced: version 580.159.04'",
    "nv-fabricmanager": "echo 'Fabric Manager version is : 580.159.04'",
    "nvidia-ctk": "echo 'NVIDIA Container Toolkit CLI version 1.18.0'",
    "icpx": "echo 'Intel(R) oneAPI DPC++/C++ Compiler 2025.2.0'",
    "nvcc": "echo 'Cuda compilation tools, release 13.0, V13.0.88'",
}
# For each program: the component that runs it, and the fact that nothing else reports.
ASKED: Mapping[str, tuple[str, str]] = {
    "uname": ("linux-kernel", "machine"),
    "modinfo": ("nvidia.ko", "version_on_disk"),
    "rpm": ("nvidia-driver", "packages"),
    "journalctl": ("kernel-log", "readable"),
    "nvidia-persistenced": ("nvidia-persistenced", "version"),
    "nv-fabricmanager": ("nvidia-fabricmanager", "version"),
    "nvidia-ctk": ("nvidia-container-toolkit", "version"),
    "icpx": ("dpcpp", "version"),
    "nvcc": ("cuda-toolkit", "version"),
}
COMPONENTS = sorted({component for component, _ in ASKED.values()})
# Files of the machine that would say the same as a program.
GONE = ("/proc/sys/kernel/arch", "/var/lib/dpkg/status", "/dev/kmsg")
THERE = {"/lib/modules/6.8.0-60-generic/modules.dep": "extra/nvidia.ko:\n", "/var/lib/rpm/rpmdb.sqlite": ""}


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """One faulty program: the component that runs it, its status, and the fact that is unknown without its answer."""

    fault: str
    command: str
    component: str
    status: str
    fact: str

    @property
    def name(self) -> str:
        """Its name among the tests."""
        return f"{self.fault}-{self.command}"

    @property
    def words(self) -> str:
        """The fault in words."""
        return KINDS[self.fault][0]

    @property
    def says(self) -> str:
        """The words in its reason, or in what was not checked."""
        return SAYS.get(self.fault, "")


def programs() -> tuple[Program, ...]:
    """Return every row about programs."""
    return tuple(row for look in looks() for row in look)


def looks() -> tuple[tuple[Program, ...], ...]:
    """Return the rows in groups: in each, every program has one fault, another one each time, until all are used."""
    return tuple(tuple(_rows(turn)) for turn in range(len(KINDS)))


def _rows(turn: int) -> Iterator[Program]:
    kinds = tuple(KINDS)
    for place, (command, (component, fact)) in enumerate(ASKED.items()):
        fault = kinds[(place + turn) % len(kinds)]
        status = FAILED if command == "nvcc" else PRESENT  # without its compiler the toolkit has no version
        if fault != "endless" or command in TALKERS:
            yield Program(fault=fault, command=command, component=component, status=status, fact=fact)


def plant(root: Path, rows: Sequence[Program] = ()) -> Path:
    """Set up a machine whose programs are called, of which these rows are faulty; return its root."""
    tree.plant(root)
    for path in GONE:
        tree.sicken(root, path, "gone")
    for path, text in THERE.items():
        at = root / path[1:]
        at.parent.mkdir(parents=True)
        at.write_text(text)
    folder = root / "usr/bin"
    folder.mkdir(parents=True)
    sick = {row.command: KINDS[row.fault][1].format(path=folder / row.command) for row in rows}
    for command, said in WELL.items():
        (folder / command).write_text(sick.get(command, f"{SHELL}{said}\n"))
        (folder / command).chmod(0o755)
    return root
