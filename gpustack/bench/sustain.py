"""What follows the burst of a matrix product where it was asked for: the same work without rest, and with zeros."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpustack.bench.timing import Plan, Samples, fitting, sample

if TYPE_CHECKING:
    from gpustack.bench.lab import Job
    from gpustack.bench.telemetry import Telemetry
    from gpustack.bench.timing import Timer, Train

LONG = 0.2  # seconds of a train: between two of them the card is idle for about a thousandth of that
LEAST = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What is measured beside the burst: so many seconds without rest (0: none), and the burst with zeros."""

    sustain: float = 0.0
    zeros: bool = False


def follow(
    job: Job, wishes: Wishes, *, plan: Plan, timer: Timer, watch: Telemetry, told: Callable[[float], None]
) -> dict[str, Any]:
    """Give the lines of all that was wished for; raises ArithmeticError where a result is wrong."""
    said: dict[str, Any] = {}
    if wishes.sustain:
        said["sustained"] = hold(job, wishes.sustain, timer, watch, told)
    if wishes.zeros and job.blank:
        job.blank()
        said["zeros"] = _line(sample(timer, job.run, plan, told), watch, watch.counters())
    if said and (wrong := job.check()):
        raise ArithmeticError(wrong)
    return said


def hold(job: Job, seconds: float, timer: Timer, watch: Telemetry, told: Callable[[float], None]) -> dict[str, Any]:
    """Work for so many seconds without rest, and give what the last half of them brought."""
    runs = fitting(LONG, timer.train(job.run, 1).seconds)
    begun = time.monotonic()
    _until(begun + seconds / 2, job, runs, timer, lambda at: told((at - begun) / seconds))
    before, half = watch.counters(), Samples(runs=runs, begun=time.monotonic())
    half.trains += _until(begun + seconds, job, runs, timer, lambda at: told((at - begun) / seconds))
    half.ended = time.monotonic()
    return {**_line(half, watch, before), "asked": seconds}


def _until(end: float, job: Job, runs: int, timer: Timer, told: Callable[[float], None]) -> list[Train]:
    trains: list[Train] = []
    while time.monotonic() < end or len(trains) < LEAST:
        trains.append(timer.train(job.run, runs))
        told(time.monotonic())
    return trains


def _line(samples: Samples, watch: Telemetry, before: dict[str, Any]) -> dict[str, Any]:
    return {
        "seconds": samples.seconds,
        "clocks": [train.clock_mhz for train in samples.trains if train.clock_mhz],
        "readings": watch.window(samples.begun, samples.ended),
        "before": before,
        "after": watch.counters(),
    }
