"""Every file that gpustack writes is written atomically: readers find the old file or the new one, never half of one.

A file is created beside its target (``.gpustack-…``), flushed to disk and moved there; it keeps the mode and, if
permitted, the owner of the one it replaces. A symbolic link stays, and its target is replaced. Anything but a regular
file is written to directly: a pipe, a terminal, ``/dev/null``, and a descriptor that we were started with
(``/dev/stdout``, ``/dev/fd/3``), whose file others may be writing to as well.

If no new file can be created in the folder (it belongs to somebody else, or the file is a mount of its own, as in
containers), the file is overwritten once the space for all of it is reserved: a full disk leaves it unchanged.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from gpustack.errors import OutputError

if TYPE_CHECKING:
    from collections.abc import Iterator

DESCRIPTORS = "/proc/self/fd"
MOST_LINKS = 40  # as many as Linux follows
NO_NEW_FILE = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.EBUSY})  # what a folder says that takes none


def write(path: Path, content: str | bytes) -> None:
    """Write a file, completely or not at all; raises OutputError if that fails.

    A pipe whose reader has gone away is not an error.
    """
    data = content.encode("utf-8", "replace") if isinstance(content, str) else content
    try:
        ours = _descriptor(path)
        if ours is not None:
            _all(ours, data)
        elif path.exists() or path.is_symlink():
            _over(path, data)
        else:
            _replace(path, data, None)
    except BrokenPipeError:
        return
    except OSError as error:
        raise OutputError(f"{path} cannot be written: {error.strerror}") from error


def append(path: Path, data: bytes) -> None:
    """Append to a file, all or nothing; raises OutputError if that fails."""
    try:
        with path.open("ab", buffering=0) as file:
            size = file.tell()
            try:
                _all(file.fileno(), data)
            except BaseException:
                file.truncate(size)
                raise
    except OSError as error:
        raise OutputError(f"{path} cannot be written: {error.strerror}") from error


def _over(path: Path, data: bytes) -> None:
    """Overwrite an existing file; the kernel decides whether its links may be followed, above all in /tmp."""
    dangling = os.O_CREAT * (not path.exists())
    held = os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOCTTY | dangling, 0o666)
    try:
        _over_open(path, held, data)
    except BaseException:
        if dangling:
            path.resolve().unlink(missing_ok=True)
        raise
    finally:
        os.close(held)


def _over_open(path: Path, held: int, data: bytes) -> None:
    """Replace the open file that the path leads to, or write to it if it is not a regular file."""
    state, target = os.fstat(held), path.resolve()
    if not stat.S_ISREG(state.st_mode):
        _all(held, data)
        return
    if not os.path.samestat(state, target.stat()):
        raise OSError(errno.ESTALE, "somebody moved it away at that moment")
    try:
        _replace(target, data, state)
    except OSError as error:
        if error.errno not in NO_NEW_FILE:
            raise
        try:
            os.posix_fallocate(held, 0, len(data) or 1)
        except OSError:
            os.ftruncate(held, state.st_size)
            raise
        try:
            _all(held, data)
        finally:
            os.ftruncate(held, len(data))
        os.fsync(held)


def _replace(target: Path, data: bytes, old: os.stat_result | None) -> None:
    """Write a file beside the target, with the old file's mode and owner, and move it there."""
    made = target.with_name(f".gpustack-{os.urandom(8).hex()}")
    try:
        handle = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600 if old else 0o666)
        try:
            _all(handle, data)
            if old:
                with suppress(OSError):
                    os.fchown(handle, old.st_uid, old.st_gid)
                os.fchmod(handle, old.st_mode & 0o777)
            os.fsync(handle)
        finally:
            os.close(handle)
        made.replace(target)
    except BaseException:  # Ctrl-C too
        made.unlink(missing_ok=True)
        raise


def _all(handle: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(handle, left) :]


def _descriptor(path: Path) -> int | None:
    """Return the descriptor of this process that a path such as /dev/stdout names, or None."""
    ours = Path(DESCRIPTORS).resolve()
    named = (one.name for one in _links(path) if one.name.isdecimal() and one.parent.resolve() == ours)
    return next(map(int, named), None)


def _links(path: Path) -> Iterator[Path]:
    """Yield a path and, link by link, what it points to."""
    for _ in range(MOST_LINKS):
        yield path
        if not path.is_symlink():
            return
        path = path.parent / path.readlink()
