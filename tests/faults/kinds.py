"""The kinds of fault: a description of each, and how a library's file is damaged."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from pathlib import Path

MACHINE = 18  # where an ELF header states its processor
SPARC = 2

# Descriptions of what a function does, or loading the file (tests/fakes/sick.h).
KINDS: Mapping[str, str] = {
    "hang": "sleeps for ever",
    "spin": "turns for ever",
    "stop": "stops itself",
    "vfork": "waits in the kernel (state D)",
    "unkillable": "sleeps for ever and cannot be killed",
    "unkillable-vfork": "waits in the kernel and cannot be killed",
    "segv": "segmentation fault",
    "bus": "bus error",
    "fpe": "division by zero",
    "ill": "illegal instruction",
    "kill": "killed from outside",
    "abort": "abort",
    "exit0": "exit(0)",
    "exit7": "exit(7)",
    "smash": "smashes its stack",
    "deep": "runs out of stack",
    "hog": "takes all memory",
    "endless": "prints for ever",
    "forge": "answers for another probe",
    "shut": "closes every descriptor",
    "garbage": "answers nonsense",
    "slow": "takes 0.06 s, and answers",
    "slow5": "takes 5 s, and answers",
    "late": "takes 5 s, and has 1.2 s",
    "chatter": "prints much, and answers",
    "litter": "leaves a process behind, and answers",
    "missing": "lacks the function",
    "undefined": "calls what nobody has",
    "needs": "needs a library that is missing",
    "text": "is no library but text",
    "cut": "is cut after 1 KB",
    "empty": "is empty",
    "folder": "is a folder",
    "foreign": "is for another processor",
    "loop": "is a link to itself",
}


def _text(_: Path, at: Path) -> None:
    at.write_text("no library at all, though long enough to look like one to the loader " * 9)


def _cut(source: Path, at: Path) -> None:
    at.write_bytes(source.read_bytes()[:1024])


def _empty(_: Path, at: Path) -> None:
    at.touch()


def _folder(_: Path, at: Path) -> None:
    at.mkdir()


def _foreign(source: Path, at: Path) -> None:
    data = bytearray(source.read_bytes())
    struct.pack_into("<H", data, MACHINE, SPARC)
    at.write_bytes(data)


def _loop(_: Path, at: Path) -> None:
    at.symlink_to(at.name)


FILES: Mapping[str, Callable[[Path, Path], None]] = {
    "text": _text,
    "cut": _cut,
    "empty": _empty,
    "folder": _folder,
    "foreign": _foreign,
    "loop": _loop,
}
DAMAGES = frozenset({*FILES, "missing", "undefined", "needs"})
