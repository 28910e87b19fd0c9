"""The system's clock, held where Python can read it: from April 2262 on Python raises OverflowError for the time."""

import time

LAST = (1 << 63) - 1  # nanoseconds since 1970


def hold() -> None:
    """Stop at the last moment that Python can count, where the clock is beyond it: to log or to record needs a time."""
    try:
        time.time()
    except OverflowError:
        vars(time).update(time=lambda: LAST / 1e9, time_ns=lambda: LAST)
