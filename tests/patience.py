"""Tests that watch processes by the clock: each has three attempts, and its seconds are those of an idle machine."""

from __future__ import annotations

import time

import pytest

in_time = pytest.mark.flaky(reruns=2, reruns_delay=1)
WORK = 0.1  # seconds of a processor


def idle(seconds: float) -> float:
    """Return how long what takes an idle machine so many seconds may take this one, by how long some work takes now."""
    begun, used = time.monotonic(), time.process_time()
    while time.process_time() - used < WORK:
        pass
    return seconds * max(1.0, (time.monotonic() - begun) / WORK)
