"""Tests that time processes: each gets three attempts, and its seconds are those of an idle machine."""

from __future__ import annotations

import time

import pytest

in_time = pytest.mark.flaky(reruns=2, reruns_delay=1)
TURNS, USUAL = 2_000_000, 0.1  # turns of an empty loop, and the seconds that an idle machine takes for them at most


def idle(seconds: float) -> float:
    """Return how long this machine may take for what an idle one does in these seconds, by timing some work now."""
    begun = time.monotonic()
    for _ in range(TURNS):
        pass
    return seconds * max(1.0, (time.monotonic() - begun) / USUAL)
