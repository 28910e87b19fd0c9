"""Copies in both directions of the link at once, from one common start, each on a stream and copy engine of its own.

Each direction is timed over pieces of its own, while the other goes on: who ends first is given more to do, untimed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from gpustack.bench.timing import Train

if TYPE_CHECKING:
    from gpustack.bench.card import Card, Memory
    from gpustack.bench.timing import Timer

PIECES = 4
WAIT = 5.0


@dataclass(slots=True)
class Way:
    """One direction: the memory that it moves between, and how many pieces follow those that are timed."""

    device: Memory
    host: Memory
    more: int = 1


class Duplex:
    """Both directions, as work and as what takes its samples."""

    runs = 1

    def __init__(self, card: Card, inward: tuple[Memory, Memory], outward: tuple[Memory, Memory]) -> None:
        """Copy between these memories, each a device's and a host's; all are of one size."""
        self._card, self._side = card, card.another()
        self._start, self._ends, self._last = card.event(), (card.event(), card.event()), card.event()
        self._inward, self._outward = Way(*inward), Way(*outward)
        self._size = inward[0].size
        self._seen: list[tuple[float, float]] = []

    @property
    def moved(self) -> int:
        """The bytes that are timed in one run, in both directions."""
        return 2 * PIECES * self._size

    def run(self) -> None:
        """Enqueue the pieces of both directions, and have the usual stream wait for the other one's."""
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
        """Run, and give the faster direction so many pieces more that it outlasts the slower one."""
        self.run()
        self._card.wait(self._last, WAIT)
        inward, outward = self.rates()
        more = min(PIECES, math.ceil(PIECES * (max(inward, outward) / min(inward, outward) - 1))) + 1
        self._inward.more, self._outward.more = (more, 1) if inward > outward else (1, more)

    def rates(self) -> tuple[float, float]:
        """Give the bytes a second of each direction in the last run, from the common start to its own end."""
        for event in self._ends:
            self._card.wait(event, WAIT)
        first, second = (max(self._card.seconds(self._start, end), 1e-9) for end in self._ends)
        return PIECES * self._size / first, PIECES * self._size / second

    def take(self, timer: Timer) -> Train:
        """Give one sample: the seconds in which both directions move what is timed, each at its own rate."""
        train = timer.train(self.run, 1)
        self._seen.append(self.rates())
        return Train(self.moved / sum(self._seen[-1]), train.clock_mhz)

    def told(self) -> Mapping[str, object]:
        """Give the middle of each direction's rates."""
        inward, outward = (median(rates) / 1e9 for rates in zip(*self._seen, strict=True))
        return {"h2d_gb_s": round(inward, 2), "d2h_gb_s": round(outward, 2)}
