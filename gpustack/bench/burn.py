"""Work that is kept going: the load that heats a GPU and compares every bit, and copies both ways at once.

Each direction is timed over pieces of its own, while the other goes on: who ends first is given more to do, untimed.

{"at": "stress"}                                         the load begins
{"state": {"spent": S, "each": S, "products": N, ...}}   how one round of it went, with the counts of that round

The same product of the same operands made in the same way has the same bits every time. So each result is compared on
the device with the first, which was itself compared with sums in float64; and the sums over A, B and that first result
tell after each round whether they are still what they were.
"""

from __future__ import annotations

import ctypes
import math
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import count, cycle
from statistics import median
from typing import TYPE_CHECKING, Any

from gpustack.bench import suite
from gpustack.bench.timing import Timer, Train, fitting
from gpustack.model import record

if TYPE_CHECKING:
    from gpustack.bench.card import Argument, Card, Memory
    from gpustack.bench.child import Desk
    from gpustack.bench.lab import Job, Lab, Load

PIECES = 4
WAIT = 5.0
ID = "stress"
DTYPES = (((8, 0), "bf16"), ((7, 0), "fp16"), ((0, 0), "fp32"))  # the GPU from which on tensor cores support this
MARGIN = 16  # one part in this many of the free memory is left to others
LONG = 0.2
FOUND = struct.Struct("3Q")
NONE = (1 << 64) - 1
UNIT, THREADS, WRITER = 16, 256, "write_plain_1"
STEADY, REST = 0.75, 0.1  # of the sustained time; seconds between two load steps
# Patterns written over the memory in turn: the first word, and the increment per word.
PATTERNS = ((0, 0), (0xFFFFFFFF, 0), (0x55555555, 0), (0xAAAAAAAA, 0), (0x9E3779B9, 0x85EBCA6B))
UNWRITTEN = 0xFF  # not a number in these types, so a missing store does not leave the last round's result
READINGS = 2  # kept of each round, so that those of a day still fit


@dataclass(slots=True)
class Way:
    """One direction: its source and target memory, and how many untimed pieces follow the timed ones."""

    device: Memory
    host: Memory
    more: int = 1


class Duplex:
    """Both directions, as work and as its sampler."""

    runs = 1

    def __init__(self, card: Card, inward: tuple[Memory, Memory], outward: tuple[Memory, Memory]) -> None:
        """Copy between these memories, each a device's and a host's, all of one size."""
        self._card, self._side = card, card.another()
        self._start, self._ends, self._last = card.event(), (card.event(), card.event()), card.event()
        self._inward, self._outward = Way(*inward), Way(*outward)
        self._size = inward[0].size
        self._seen: list[tuple[float, float]] = []

    @property
    def moved(self) -> int:
        """The bytes timed in one run, in both directions."""
        return 2 * PIECES * self._size

    def run(self) -> None:
        """Enqueue the pieces of both directions, and make the default stream wait for the other one."""
        card, side = self._card, self._side
        card.record(self._start)
        side.wait(self._start)
        for number in range(PIECES + max(self._inward.more, self._outward.more)):
            if number == PIECES:
                card.record(self._ends[0])
                side.record(self._ends[1])
            if number < PIECES + self._inward.more:
                card.to_device(self._inward.device.address, self._inward.host.address, self._size)
            if number < PIECES + self._outward.more:
                card.to_host(self._outward.host.address, self._outward.device.address, self._size, side)
        side.record(self._last)
        card.after(self._last)

    def balance(self) -> None:
        """Run, and give the faster direction enough extra pieces to outlast the slower one."""
        self.run()
        self._card.wait(self._last, WAIT)
        inward, outward = self.rates()
        more = min(PIECES, math.ceil(PIECES * (max(inward, outward) / min(inward, outward) - 1))) + 1
        self._inward.more, self._outward.more = (more, 1) if inward > outward else (1, more)

    def rates(self) -> tuple[float, float]:
        """Return the bytes per second of each direction in the last run, from the common start to its own end."""
        for event in self._ends:
            self._card.wait(event, WAIT)
        first, second = (max(self._card.seconds(self._start, end), 1e-9) for end in self._ends)
        return PIECES * self._size / first, PIECES * self._size / second

    def take(self, timer: Timer) -> Train:
        """Return one sample: the seconds in which both directions move the timed bytes, each at its own rate."""
        train = timer.train(self.run, 1)
        self._seen.append(self.rates())
        return Train(self.moved / sum(self._seen[-1]), train.clock_mhz)

    def told(self) -> Mapping[str, object]:
        """Return the median of each direction's rates."""
        inward, outward = (median(rates) / 1e9 for rates in zip(*self._seen, strict=True))
        return {"h2d_gb_s": round(inward, 2), "d2h_gb_s": round(outward, 2)}


@record
class Ring:
    """Consecutive memory for many results, the function that makes each, and the expected result."""

    lab: Lab
    load: Load
    memory: Memory
    runs: tuple[Callable[[], None], ...]

    def sums(self) -> tuple[tuple[int, int], ...]:
        """Return the sums over the operands and the first result."""
        return tuple(self.lab.sums(one) for one in (*self.load.data, self.load.result))

    def compare(self, count: int) -> tuple[int, int, int | None]:
        """Return how many bits and words of the results are wrong, and the offset of the first wrong byte."""
        each = self.load.size // UNIT
        units, apart = ctypes.c_uint64(count * each), ctypes.c_uint64(each)
        with self.lab.memory(FOUND.size) as found:
            self.lab.put(found, FOUND.pack(0, 0, NONE))
            arguments: list[Argument] = [self.memory, units, self.load.result, apart, found]
            self.lab.launcher("gemm", "differ", 8 * self.lab.multiprocessors, THREADS, arguments)()
            bits, words, first = FOUND.unpack(self.lab.bytes_of(found, 0, FOUND.size))
        return bits, words, None if first == NONE else first * UNIT

    def pattern(self, number: int) -> int:
        """Write a pattern over the whole memory, and return how many units of 16 bytes differ from it."""
        seed, factor = (ctypes.c_uint32(word) for word in PATTERNS[number % len(PATTERNS)])
        units, blocks = ctypes.c_uint64(self.memory.size // UNIT), 8 * self.lab.multiprocessors
        with self.lab.memory(8) as count:
            self.lab.clear(count)
            given: list[Argument] = [self.memory, units, seed, factor]
            self.lab.launcher("hbm", WRITER, blocks, THREADS, given)()
            self.lab.launcher("hbm", "wrong", blocks, THREADS, [*given, count])()
            (wrong,) = struct.unpack("Q", self.lab.bytes_of(count, 0, 8))
        return int(wrong)


def burn(desk: Desk, seconds: float) -> None:
    """Load the GPU for this many seconds, and report each round; raises if it cannot, or if everything is wrong."""
    desk.outlet.say("at", ID)
    dtype = next(dtype for least, dtype in DTYPES if desk.lab.capability >= least)
    bench = next(bench for bench in suite.listed() if bench.id == f"gemm.{dtype}")
    with ExitStack() as stack:
        job, ring = _ring(desk.lab, stack.enter_context(bench.prepare(desk.lab)), stack)
        runs, sums = fitting(LONG, desk.timer.train(ring.runs[0], 1).seconds), ring.sums()
        sizes = {"memory": ring.memory.size, "result": ring.load.size}
        facts = {**job.method, **sizes, "dtype": dtype, "amount": job.amount, "way": job.label}
        begun, spent = time.monotonic(), 0.0
        for number in count():
            if spent >= seconds:
                break
            steps = begun + STEADY * seconds
            told = {**_told(desk, ring, runs, begun + seconds, steps), "changed": ring.sums() != sums}
            told["pattern"] = ring.pattern(number)
            spent = time.monotonic() - begun
            desk.outlet.say("state", {**facts, **told, "spent": spent})


def _told(desk: Desk, ring: Ring, runs: int, until: float, steps: float) -> dict[str, Any]:
    """Run one round, and return the card's telemetry and the errors."""
    begun, before = time.monotonic(), desk.watch.counters()
    desk.watch.forget(begun)
    trains, rests = _round(desk, ring, runs, until, steps)
    seen, clocks = desk.watch.window(begun, time.monotonic()), [train.clock_mhz for _, train in trains]
    held = [clock for clock in clocks if clock]
    products = sum(count for count, _ in trains)
    return {
        "products": products,
        "steps": rests,
        "each": median(train.seconds for _, train in trains),
        "clock": median(held) if held else None,
        "wrong": ring.compare(products),
        "readings": seen[:: max(1, len(seen) // READINGS)][-READINGS:],
        "before": before,
        "after": desk.watch.counters(),
    }


def _ring(lab: Lab, jobs: list[Job], stack: ExitStack) -> tuple[Job, Ring]:
    """Allocate the memory with the first way that reproduces the right product; raises ArithmeticError for none."""
    free = lab.free()
    wrong: str | None = None
    memory: Memory | None = None
    for job in jobs:
        if not (load := job.load) or (wrong := job.check()):
            continue
        size = (free - free // MARGIN) // load.size * load.size
        if size < 2 * load.size:
            lab.skip(f"only {free >> 20} MiB of the GPU's memory are free", "nvidia-smi")
        memory = memory or stack.enter_context(lab.memory(size))
        runs = tuple(load.into(memory.address + at) for at in range(0, memory.size - load.size + 1, load.size))
        ring = Ring(lab=lab, load=load, memory=memory, runs=runs)
        for run in runs[:2]:
            run()
        if not ring.compare(2)[0]:
            return job, ring
        wrong = "the same matrix product of the same numbers gave different results"
    raise ArithmeticError(wrong or "there is no matrix product to load the GPU with")


def _round(desk: Desk, ring: Ring, runs: int, until: float, steps: float) -> tuple[list[tuple[int, Train]], int]:
    """Fill the ring once, or as time allows; return the trains with their product counts, and the load steps.

    From ``steps`` on the load goes in steps from idle to full and back, where power supplies and regulators fail.
    """
    ring.lab.clear(ring.memory, byte=UNWRITTEN)
    taken: list[tuple[int, Train]] = []
    rests = 0
    for at in range(0, len(ring.runs), runs):
        some = ring.runs[at : at + runs]
        taken.append((len(some), desk.timer.train(_in_turn(some), len(some))))
        desk.outlet.part((at + len(some)) / len(ring.runs))
        if time.monotonic() >= until:
            break
        if time.monotonic() >= steps:
            time.sleep(REST)
            rests += 1
    return taken, rests


def _in_turn(runs: Sequence[Callable[[], None]]) -> Callable[[], None]:
    """Return a function that runs the next of these each time, cyclically."""
    turns = cycle(runs)

    def run() -> None:
        next(turns)()

    return run
