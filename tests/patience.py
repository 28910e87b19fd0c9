"""Tests that time processes: each gets three attempts, and its seconds are those of an idle machine."""

from __future__ import annotations

import time

import pytest

in_time = pytest.mark.flaky(reruns=2, reruns_delay=1)
WORK = 0.1  # seconds of CPU time


def idle(seconds: float) -> float:
    """Return how long this machine may take for what an idle one does in these seconds, by timing some work now."""
    begun, used = time.monotonic(), time.process_time()
    while time.process_time() - used < WORK:
        pass
    return seconds * max(1.0, (time.monotonic() - begun) / WORK)
