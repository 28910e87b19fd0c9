"""Work that ends in time: what takes longer is left where it is, with what was understood until then."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from gpustack.model.facts import Facts, Host, Unseen

LATE, LONGER = "there was no time left to read all of it", "a longer --timeout, or a shorter file"
JUDGING, MOST_JUDGING = 0.4, 3.0  # of the time for a command, what judging and writing get, and in seconds
WRITING, MOST_WRITING = 0.1, 0.5
Made = TypeVar("Made")


class OutOfTime(BaseException):
    """The time is up. No ``except Exception`` on the way stops it."""


@contextmanager
def within(until: float | None) -> Iterator[None]:
    """Raise OutOfTime in whatever runs in here once ``time.monotonic()`` is past ``until``; None: it may take its time.

    The alarm also ends a read that waits and an expression that searches. In another thread than the main one, and
    where there are no alarms (Windows), only the start is checked.
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
    """Return until when inputs may be read by a command that has so many seconds from now."""
    return time.monotonic() + seconds - min(seconds * JUDGING, MOST_JUDGING)


def to_judge(seconds: float) -> float:
    """Return until when that command may judge what it has read."""
    return time.monotonic() + seconds - min(seconds * WRITING, MOST_WRITING)


def halfway(until: float | None) -> float | None:
    """Return when half of the time from now is over."""
    return until and (until + time.monotonic()) / 2


def unread(origin: str) -> Unseen:
    """Return that there was no time to read something."""
    return Unseen(what=origin, why=LATE, enable_by=LONGER)


def judged(judge: Callable[[Facts], Made], facts: Facts, until: float | None) -> Made:
    """Return what is judged of facts, or of none where that takes longer, which then says what it leaves out."""
    try:
        with within(until):
            return judge(facts)
    except OutOfTime:
        missed = Unseen(what="what was read", why="there was no time left to judge it", enable_by=LONGER)
        return judge(Facts(taken=facts.taken, host=Host(), not_seen=(*facts.not_seen, missed)))


def _ring(_number: int, _frame: object) -> None:
    raise OutOfTime
