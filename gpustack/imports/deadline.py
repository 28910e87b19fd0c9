"""How long reading and judging may take, and which files of a folder are read."""

from __future__ import annotations

import os
import re
import signal
import stat
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from gpustack.errors import InputError
from gpustack.model.facts import Facts, Host, Unseen

LATE, LONGER = "there was no time left to read all of it", "a longer --timeout, or a shorter file"
JUDGING, MOST_JUDGING = 0.4, 3.0  # of the time for a command, what judging and writing get, and in seconds
WRITING, MOST_WRITING = 0.1, 0.5
Made = TypeVar("Made")
ENTER = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class OutOfTime(BaseException):
    """The time limit was reached. No ``except Exception`` on the way catches it."""


@contextmanager
def within(until: float | None) -> Iterator[None]:
    """Raise OutOfTime in the enclosed code once ``time.monotonic()`` passes ``until``; None: no limit.

    The alarm also interrupts a waiting read and a searching expression. In other threads than the main one, and without
    alarms (Windows), only the start is checked.
    """
    if until is None:
        yield
        return
    seconds = until - time.monotonic()
    if seconds <= 0:
        raise OutOfTime
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        yield
        return
    handler = signal.signal(signal.SIGALRM, _ring)
    others = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, *others)
        signal.signal(signal.SIGALRM, handler)


def to_read(seconds: float) -> float:
    """Return until when a command with this many seconds from now may read inputs."""
    return time.monotonic() + seconds - min(seconds * JUDGING, MOST_JUDGING)


OUTPUT = frozenset({"", "txt", "log", "out", "err", "json", "csv", "md", "lock", "conf"})
SETTINGS = frozenset({"toml", "yaml", "yml"})
PROJECT = re.compile(
    rb"^(?:\[project\]|\[tool\.|\[\[package\]\]|\[dependencies\]|dependencies:|services:|channels:|apiVersion:)",
    re.MULTILINE,
)


def to_judge(seconds: float) -> float:
    """Return until when that command may judge what it has read."""
    return time.monotonic() + seconds - min(seconds * WRITING, MOST_WRITING)


def halfway(until: float | None) -> float | None:
    """Return the time halfway through this many seconds from now."""
    return until and (until + time.monotonic()) / 2


def unread(origin: str) -> Unseen:
    """Return that there was no time to read something."""
    return Unseen(what=origin, why=LATE, enable_by=LONGER)


def judged(judge: Callable[[Facts], Made], facts: Facts, until: float | None) -> Made:
    """Return the judgement of the facts, or of empty facts that list what was left out if it takes too long."""
    try:
        with within(until):
            return judge(facts)
    except OutOfTime:
        missed = Unseen(what="what was read", why="there was no time left to judge it", enable_by=LONGER)
        return judge(Facts(taken=facts.taken, host=Host(), not_seen=(*facts.not_seen, missed)))


def _ring(_number: int, _frame: object) -> None:
    raise OutOfTime


def contents(folder: Path, left: int) -> Iterator[tuple[str, bytes | Unseen]]:
    """Yield each file of a folder with its content, or why it was not read; raises InputError if none can be.

    Of each, at most one byte more than the ``left`` allowance; only what someone would paste, and of TOML and YAML only
    a project's: other files, such as notes and answers to a case, do not describe a machine.
    """
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise InputError(f"{folder} cannot be read: {error.strerror}") from error
    found = False
    try:
        for name in sorted(os.listdir(handle)):  # noqa: PTH208 - pathlib lists no descriptors
            held = _held(handle, folder / name, left)
            if held:
                found |= not isinstance(held, Unseen)
                yield str(folder / name), held
    finally:
        os.close(handle)
    if not found:
        raise InputError(f"{folder} has no readable file")


def _held(folder: int, path: Path, left: int) -> bytes | Unseen | None:
    """Return the content of a file in an opened folder, or why it was not read; None if empty or not a file."""
    try:
        inside = path.resolve().relative_to(path.parent.resolve()).parts
        data = read(folder, inside or (path.name,), left + 1)
    except (ValueError, RuntimeError):
        why = "it is a link that leads out of the folder or nowhere"
        return Unseen(what=str(path), why=why, enable_by="naming the file that it leads to with --from")
    except OSError as error:
        return Unseen(what=str(path), why=f"it cannot be read: {error.strerror}")
    if data and not pasted(path.name, data):
        return Unseen(what=str(path), why="it is neither output nor a project file", enable_by="naming it with --from")
    return data if data and data.strip() else None


def pasted(name: str, data: bytes) -> bool:
    """Return whether someone would paste this file: output, a snapshot, a project's settings."""
    suffix = name.rpartition(".")[2].lower() if "." in name.lstrip(".") else ""
    return suffix in OUTPUT or suffix.isdecimal() or (suffix in SETTINGS and bool(PROJECT.search(data)))


def read(folder: int, names: Sequence[str], most: int) -> bytes | None:
    """Return the content of a file below an opened folder, None if it is not a file; raises OSError if unreadable.

    No link is followed: the names were resolved before, so one in the way was added since.
    """
    above = os.dup(folder)
    try:
        for name in names[:-1]:
            inner = os.open(name, ENTER, dir_fd=above)
            os.close(above)
            above = inner
        kind = os.stat(names[-1], dir_fd=above, follow_symlinks=False).st_mode
        if not (stat.S_ISREG(kind) or stat.S_ISLNK(kind)):
            return None
        with open(names[-1], "rb", opener=lambda name, _: os.open(name, READ, dir_fd=above)) as file:
            return file.read(most) if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else None
    finally:
        os.close(above)
