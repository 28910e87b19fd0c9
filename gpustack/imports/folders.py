"""A folder that ``--from`` is given: the files in it, and none outside, whatever links lie or come to lie there."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from gpustack.errors import InputError
from gpustack.model.facts import Unseen

ENTER = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


def contents(folder: Path, left: int) -> Iterator[tuple[str, bytes | Unseen]]:
    """Yield each file of a folder with what it holds, or why it is not read; raises InputError where none can be.

    Of each, at most one byte more than what is ``left`` to be read.
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
        raise InputError(f"{folder} holds no file that can be read")


def _held(folder: int, path: Path, left: int) -> bytes | Unseen | None:
    """Return what a file of an opened folder holds, or why that is not read; None for what is no file, or is empty."""
    try:
        inside = path.resolve().relative_to(path.parent.resolve()).parts
        data = read(folder, inside or (path.name,), left + 1)
    except (ValueError, RuntimeError):
        why = "it is a link that leads out of the folder, or nowhere"
        return Unseen(what=str(path), why=why, enable_by="naming the file that it leads to with --from")
    except OSError as error:
        return Unseen(what=str(path), why=f"it cannot be read: {error.strerror}")
    return data if data and data.strip() else None


def read(folder: int, names: Sequence[str], most: int) -> bytes | None:
    """Return what a file below an opened folder holds, or None for what is no file; raises OSError where it cannot.

    No link is followed: the names were found by following them, so that one in the way was put there since.
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
