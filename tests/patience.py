"""Tests that watch real processes by the clock have three attempts: a busy host may hold up one, a fault fails all."""

from __future__ import annotations

import pytest

in_time = pytest.mark.flaky(reruns=2, reruns_delay=1)
