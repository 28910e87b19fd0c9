"""Two files that constantly change places, for tests of code that reads one of them meanwhile."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

RENAME = ctypes.CDLL(None, use_errno=True).renameat2
HERE, EXCHANGE = -100, 2  # AT_FDCWD, RENAME_EXCHANGE


@contextmanager
def swapping(place: Path, other: Path) -> Iterator[None]:
    """While this lasts, keep exchanging the files at two paths, in a separate process."""
    child = os.fork()
    if not child:
        try:
            while True:
                exchange(other, place)
        finally:
            os._exit(1)
    try:
        yield
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def exchange(one: Path, other: Path) -> None:
    """Exchange two paths atomically: renameat2 with RENAME_EXCHANGE."""
    if RENAME(HERE, os.fsencode(one), HERE, os.fsencode(other), EXCHANGE):
        raise OSError(ctypes.get_errno(), "renameat2")
