"""Ctrl-C as a word and no exception: what is known by then is reported, and nothing is left half done."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

HEARD: list[int] = []  # each Ctrl-C that was heeded


def heard() -> bool:
    """Return whether anybody pressed Ctrl-C and was heeded."""
    return bool(HEARD)


@contextmanager
def heeded(tell: Callable[[], object]) -> Iterator[int | None]:
    """While this lasts, Ctrl-C calls ``tell`` and makes the descriptor that is given readable, which wakes who waits.

    Gives None where Ctrl-C is somebody else's business (in another thread than the main one, or where it is ignored),
    and where no more files may be opened.
    """
    alone = threading.current_thread() is threading.main_thread()
    if not alone or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield None
        return
    try:
        ear, mouth = os.pipe()
    except OSError:
        yield None
        return
    os.set_blocking(mouth, False)

    def hear(number: int, _frame: object) -> None:
        HEARD.append(number)
        tell()
        with suppress(BlockingIOError):
            os.write(mouth, b"!")

    before = signal.signal(signal.SIGINT, hear)
    try:
        yield ear
    finally:
        signal.signal(signal.SIGINT, before)
        os.close(ear)
        os.close(mouth)
