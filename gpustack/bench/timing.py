"""How long something takes on the device: prepare, warm up, measure, and sustain.

One sample is a train: the same work enqueued many times behind a closed gate, between two events, so that neither the
cost of enqueuing nor the events' resolution of half a microsecond shows. Before and after it every multiprocessor
records its time and its clock counter, which gives the actual clock in exactly this window.
"""

from __future__ import annotations

import ctypes
import math
import struct
import time
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gpustack.bench.case import DRIFT, FINE, LEAST, drift, quantile, settled
from gpustack.model import record

if TYPE_CHECKING:
    from gpustack.bench.card import Card, Memory
    from gpustack.bench.lab import Job
    from gpustack.bench.telemetry import Telemetry

MOST_RUNS = 400  # the driver queues about a thousand launches; more would block behind the closed gate
PATIENCE_NS = 500_000_000  # none of our kernels runs for a second, the gate included
WAIT = 5.0
SLOTS = 1024
ALIKE = 0.01
LAST = 3
OVERDRAFT = 4
SETTLING = 4  # the host varies too much to settle, so only this share of the warm-up time is spent on it
LONG = 0.2  # seconds of a train: between two of them the card is idle for about a thousandth of that
LEAST_TRAINS = 2
EDGE = 0.15  # share of the time in which all work at once: at the edges not all may


@record
class Plan:
    """How to sample: seconds of a train, rest after each, maximum warm-up, and all samples; and their number."""

    train: float = 0.02
    rest: float = 0.0
    warm: float = 1.0
    budget: float = 1.0
    least: int = 12
    most: int = 400


@dataclass(frozen=True, slots=True)
class Train:
    """The time of one train, per run; the clock held in MHz, if it could be counted."""

    seconds: float
    clock_mhz: float | None


@dataclass(slots=True)
class Samples:
    """All trains of one measurement, each of this many runs, and when they ran (on the monotonic clock)."""

    runs: int
    trains: list[Train] = field(default_factory=list)
    begun: float = 0.0
    ended: float = 0.0

    @property
    def seconds(self) -> list[float]:
        """The seconds per run, train by train."""
        return [train.seconds for train in self.trains]


class Timer:
    """Runs trains on one card. ``gated`` becomes false once the gate fails, and stays so."""

    def __init__(self, card: Card, flag: Memory, slots: tuple[Memory, Memory], notes: tuple[Memory, Memory]) -> None:
        """Use this pinned flag, these slots on the card and their pinned copies."""
        self._card = card
        self._flag = (ctypes.c_uint32 * 2).from_address(flag.address)
        self._slots, self._notes = slots, notes
        self._begin, self._end, self._done = card.event(), card.event(), card.event()
        self._gate = card.launcher("engine", "gate", 1, 1, [flag, ctypes.c_uint64(PATIENCE_NS)])
        blocks = 4 * card.multiprocessors
        self._stamps = [card.launcher("engine", "stamp", blocks, 32, [slot, ctypes.c_uint32(SLOTS)]) for slot in slots]
        self.gated = True

    def first(self, run: Callable[[], None]) -> None:
        """Run once and wait, with the gate open: lazy loading might wait for the closed gate."""
        run()
        self._card.record(self._done)
        self._card.wait(self._done, WAIT)

    def open(self) -> Timer:
        """Return the same timer without the gate: for work that involves the host."""
        other = copy(self)
        other.gated = False
        return other

    def closed(self) -> Timer:
        """Return the same timer with the gate again: a single failure may only mean a delayed host."""
        other = copy(self)
        other.gated = True
        return other

    def train(self, run: Callable[[], None], runs: int) -> Train:
        """Return the time of this many runs; without the gate once it has failed."""
        if self.gated:
            taken = self._take(run, runs, self._gate)
            self.gated = not self._flag[1]
            if self.gated:
                return taken
        return self._take(run, runs, lambda: None)

    def _take(self, run: Callable[[], None], runs: int, hold: Callable[[], None]) -> Train:
        card = self._card
        self._flag[0], self._flag[1] = 0, 0
        for slot in self._slots:
            card.fill(slot, 0)
        hold()
        self._stamps[0]()
        card.record(self._begin)
        for _ in range(runs):
            run()
        card.record(self._end)
        self._stamps[1]()
        for note, slot in zip(self._notes, self._slots, strict=True):
            card.copy(note, slot)
        card.record(self._done)
        self._flag[0] = 1
        card.wait(self._done, WAIT)
        return Train(card.seconds(self._begin, self._end) / runs, self._clock())

    def _clock(self) -> float | None:
        """Return the median clock of the multiprocessors between the two stamps, in MHz."""
        layout = struct.Struct(f"{2 * SLOTS}Q")
        before, after = (layout.unpack(ctypes.string_at(note.address, layout.size)) for note in self._notes)
        held = sorted(
            (after[at + 1] - before[at + 1]) * 1000 / (after[at] - before[at])
            for at in range(0, 2 * SLOTS, 2)
            if before[at] and after[at] > before[at] and after[at + 1] > before[at + 1]
        )
        return quantile(held, 0.5) if held else None


def sample(timer: Timer, run: Callable[[], None], plan: Plan, progress: Callable[[float], None]) -> Samples:
    """Return the samples of some work, after warming up, until they have settled or the budget is spent."""
    runs = pilot(timer, run, plan.train)
    runs = warm_up(timer, run, runs, plan)
    return gather(lambda: timer.train(run, runs), runs, plan, progress)


def settle(take: Callable[[], Train], plan: Plan) -> None:
    """Discard samples until the last three agree within a percent, or their share of the time is spent."""
    begun, taken = time.monotonic(), [take().seconds]
    while time.monotonic() - begun < plan.warm / SETTLING and not _alike(taken[-LAST:]):
        taken.append(take().seconds)


def gather(take: Callable[[], Train], runs: int, plan: Plan, progress: Callable[[float], None]) -> Samples:
    """Collect samples of this many runs each until they have settled, or the budget is spent."""
    samples = Samples(runs=runs, begun=time.monotonic())
    while not enough(samples, plan):
        samples.trains.append(take())
        progress((time.monotonic() - samples.begun) / plan.budget)
        time.sleep(plan.rest)
    samples.ended = time.monotonic()
    return samples


def beside(job: Job, timer: Timer, plan: Plan, start: Callable[[], object]) -> Samples:
    """Return the samples of a work that others do concurrently: those from its first to its last moments."""
    samples = Samples(runs=pilot(timer, job.run, plan.train))
    start()
    begun = samples.begun = time.monotonic()
    first, last = begun + EDGE * plan.budget, begun + plan.budget
    while (now := time.monotonic()) < last + EDGE * plan.budget or not samples.trains:
        train = timer.train(job.run, samples.runs)
        if now >= first and time.monotonic() <= last:
            samples.trains.append(train)
        elif now >= last and not samples.trains:
            samples.trains.append(train)  # too slow for a train to fit between the edges
    samples.ended = time.monotonic()
    return samples


def enough(samples: Samples, plan: Plan) -> bool:
    """Return whether the samples have settled, or the budget is spent: soon for few samples, which say little."""
    count, spent = len(samples.trains), time.monotonic() - samples.begun
    if count >= plan.most or spent >= plan.budget * (1 if count >= LEAST else OVERDRAFT):
        return count > 0
    return count >= plan.least and settled(samples.seconds, FINE) and abs(drift(samples.seconds)) <= DRIFT


def pilot(timer: Timer, run: Callable[[], None], seconds: float) -> int:
    """Return how many runs make a train of this many seconds, as far as a single run shows."""
    timer.first(run)
    return fitting(seconds, timer.train(run, 1).seconds)


def fitting(seconds: float, each: float) -> int:
    """Return how many runs of this duration each make a train of this many seconds."""
    return max(1, min(MOST_RUNS, math.ceil(seconds / max(each, 1e-9))))


def warm_up(timer: Timer, run: Callable[[], None], runs: int, plan: Plan) -> int:
    """Run until the last three trains agree within a percent, or time is up; return the runs per train."""
    begun, taken = time.monotonic(), [timer.train(run, runs).seconds]
    while time.monotonic() - begun < plan.warm and not _alike(taken[-LAST:]):
        time.sleep(plan.rest)
        runs = fitting(plan.train, taken[-1])
        taken.append(timer.train(run, runs).seconds)
    return fitting(plan.train, taken[-1])


def _alike(taken: list[float]) -> bool:
    return len(taken) == LAST and max(taken) - min(taken) <= ALIKE * min(taken)


@record
class Wishes:
    """What is measured besides the burst: this many sustained seconds (0: none), and the burst with zeros."""

    sustain: float = 0.0
    zeros: bool = False


def follow(
    job: Job, wishes: Wishes, *, plan: Plan, timer: Timer, watch: Telemetry, told: Callable[[float], None]
) -> dict[str, Any]:
    """Return the lines for everything requested; raises ArithmeticError if a result is wrong."""
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
    """Work for this many seconds without rest, and return the results of the second half."""
    runs = fitting(LONG, timer.train(job.run, 1).seconds)
    begun = time.monotonic()
    _until(begun + seconds / 2, job, runs, timer, lambda at: told((at - begun) / seconds))
    before, half = watch.counters(), Samples(runs=runs, begun=time.monotonic())
    half.trains += _until(begun + seconds, job, runs, timer, lambda at: told((at - begun) / seconds))
    half.ended = time.monotonic()
    return {**_line(half, watch, before), "asked": seconds}


def _until(end: float, job: Job, runs: int, timer: Timer, told: Callable[[float], None]) -> list[Train]:
    trains: list[Train] = []
    while time.monotonic() < end or len(trains) < LEAST_TRAINS:
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
