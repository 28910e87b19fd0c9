"""Copies and sums between the GPUs of one node: over every link at once, and by NCCL."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from gpustack.bench.sites import Site, follow, move
from gpustack.bench.timing import Train, fitting, pilot

if TYPE_CHECKING:
    from gpustack.bench.card import Card, Memory
    from gpustack.bench.setting import Nccl, Ring
    from gpustack.bench.timing import Timer

TRAIN = 0.02
PIECES = 8
BESIDE = 6  # samples of the figures beside the main one
WAIT = 5.0
NUMBER = 4  # bytes
GATHERING_TRAIN, SHORT = 0.05, 0.01
GATHERING_BESIDE = 7  # samples of the sizes beside the largest


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """The GPU that is measured and another one; ``refused`` is why one of them may not reach the other's memory."""

    card: Card
    here: Site
    there: Site
    refused: str | None

    def room(self, wanted: int) -> int:
        """Return how large a buffer may be on both: as wanted, but at most a quarter of what is free."""
        return min(wanted, self.here.room(), self.there.room())

    def write(self, to: Memory, source: Memory) -> None:
        """Enqueue a copy by this GPU's copy engine, in the order of its work."""
        move(to, source, self.card.stream)

    def crossing(self, ours: tuple[Memory, Memory], theirs: tuple[Memory, Memory], *, both: bool) -> Crossing:
        """Return what takes samples of the copies; see Crossing."""
        return Crossing(self, ours, theirs, both=both)


def paired(card: Card, other: int) -> Pair:
    """Return this GPU and another one, each reaching the other's memory where the driver lets it."""
    here, there = Site(card.ordinal), Site(other)
    return Pair(card=card, here=here, there=there, refused=here.reach(there) or there.reach(here))


class Crossing:
    """Takes samples of the copies from this GPU to the other; beside them those back, and those both ways at once."""

    def __init__(self, pair: Pair, ours: tuple[Memory, Memory], theirs: tuple[Memory, Memory], *, both: bool) -> None:
        """Copy from our first memory to their first, and from their second to our second; all are of one size."""
        self.runs = 1
        self._pair, self._ours, self._theirs, self._both = pair, ours, theirs, both
        card = pair.card
        self._side = card.another()
        self._start, self._ends = card.event(), (card.event(), card.event())
        self._read: list[float] = []
        self._rates: list[tuple[float, float]] = []
        self._ready = False

    def write(self) -> None:
        """Enqueue the copy to the other GPU once."""
        self._pair.write(self._theirs[0], self._ours[0])

    def read(self) -> None:
        """Enqueue the copy from the other GPU once, done by this one's engine."""
        self._pair.write(self._ours[1], self._theirs[1])

    def take(self, timer: Timer) -> Train:
        """Return one sample of the copies to the other GPU; the first few times, take the figures beside it too."""
        if self._pair.refused:
            timer = timer.open()  # the host has a part in them
        if not self._ready:
            self.runs, self._ready = pilot(timer, self.write, TRAIN), True
        if len(self._read) < BESIDE:
            timer.first(self.read)
            self._read.append(timer.train(self.read, self.runs).seconds)
            if self._both:
                timer.train(self._exchange, 1)
                self._rates.append(self._reached())
        return timer.train(self.write, self.runs)

    def told(self) -> Mapping[str, object]:
        """Return the middle of the rates beside the main one, in GB/s."""
        size = self._ours[0].size
        told: dict[str, object] = {"read_gb_s": round(size / median(self._read) / 1e9, 2)}
        if self._rates:
            there, back = (median(rates) / 1e9 for rates in zip(*self._rates, strict=True))
            told["both_gb_s"] = round(there + back, 2)
            told["each_way_gb_s"] = [round(there, 2), round(back, 2)]
        return told

    def _exchange(self) -> None:
        """Enqueue copies both ways, each written by the GPU whose data it is, from one common start.

        Behind what is timed each direction has one piece more, so that neither is alone at its end.
        """
        card, there = self._pair.card, self._pair.there
        card.record(self._start)
        there.after(int(self._start.handle))
        for number in range(PIECES + 1):
            if number == PIECES:
                card.record(self._ends[0])
                follow(int(self._side.handle), there.record())
                self._side.record(self._ends[1])
            self.write()
            there.copy(self._ours[1], self._theirs[1])
        follow(card.stream, there.record())

    def _reached(self) -> tuple[float, float]:
        """Return the bytes a second of each direction in the last exchange, from the common start to its own end."""
        card = self._pair.card
        for event in self._ends:
            card.wait(event, WAIT)
        there, back = (PIECES * self._ours[0].size / max(card.seconds(self._start, end), 1e-9) for end in self._ends)
        return there, back


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathering:
    """Several GPUs, the first being the one that is measured, joined by NCCL."""

    card: Card
    sites: Sequence[Site]
    ring: Ring

    def room(self, wanted: int) -> int:
        """Return how large a buffer may be on each: as wanted, but at most a quarter of what is free."""
        return min(wanted, *(site.room() for site in self.sites))

    @contextmanager
    def buffers(self, size: int) -> Iterator[list[tuple[Memory, Memory]]]:
        """Yield two memories of so many bytes on each GPU: the numbers, and where their sum goes."""
        with ExitStack() as stack:
            yield [
                (stack.enter_context(site.memory(size)), stack.enter_context(site.memory(size))) for site in self.sites
            ]

    def add(self, size: int, buffers: Sequence[tuple[Memory, Memory]]) -> None:
        """Enqueue the sum of the first so many bytes, on the stream of each GPU, the first being that of the card."""
        streams = [self.card.stream, *(site.stream for site in self.sites[1:])]
        ways = [(a.address, b.address, stream) for (a, b), stream in zip(buffers, streams, strict=True)]
        self.ring.add(size // NUMBER, ways)

    def fetch(self, to: Memory, source: Memory) -> None:
        """Copy between two GPUs, one of them the first, and wait for it."""
        move(to, source, self.card.stream)
        self.card.settle()

    def settle(self) -> None:
        """Wait until all GPUs have done what was enqueued."""
        self.card.settle()
        for site in self.sites[1:]:
            site.settle()

    def sampler(self, sizes: Sequence[int], buffers: Sequence[tuple[Memory, Memory]]) -> Sizes:
        """Return what takes samples of the sums of so many bytes each; the last is the one that counts."""
        return Sizes(self, sizes, buffers)

    @property
    def share(self) -> float:
        """What the bus moves for each byte of the sum, as nccl-tests counts it: 2 (n - 1) / n."""
        return 2 * (len(self.sites) - 1) / len(self.sites)


@contextmanager
def joined(card: Card, others: Sequence[int], library: Nccl) -> Iterator[Gathering]:
    """Join this GPU and others by this NCCL; raises NcclError where it refuses."""
    sites = [Site(gpu) for gpu in (card.ordinal, *others)]
    ring = library.join([site.ordinal for site in sites])
    try:
        yield Gathering(card=card, sites=sites, ring=ring)
    finally:
        ring.close()


class Sizes:
    """Takes samples of the largest size; before the first, some of all others."""

    def __init__(self, gathering: Gathering, sizes: Sequence[int], buffers: Sequence[tuple[Memory, Memory]]) -> None:
        """Add up so many bytes each, in these buffers."""
        self.runs = 1
        self._gathering, self._buffers = gathering, buffers
        self._less, self._most = sizes[:-1], sizes[-1]
        self._seen: dict[int, list[float]] = {size: [] for size in sizes}
        self._counts: dict[int, int] = {}

    def take(self, timer: Timer) -> Train:
        """Return one sample of the largest size."""
        if not self._counts:
            self._counts = {size: self._pilot(timer, size) for size in self._seen}
            self.runs = self._counts[self._most]
            for size in self._less:
                self._seen[size] = [self._train(timer, size).seconds for _ in range(GATHERING_BESIDE)]
        train = self._train(timer, self._most)
        self._seen[self._most].append(train.seconds)
        return train

    def told(self) -> Mapping[str, object]:
        """Return the middle of each size: microseconds of one sum, and the bandwidth of the bus in GB/s."""
        share = self._gathering.share
        rows = [(size, median(seconds)) for size, seconds in self._seen.items()]
        return {
            "sizes": [
                {"bytes": size, "us": round(each * 1e6, 2), "bus_gb_s": round(size * share / each / 1e9, 3)}
                for size, each in rows
            ]
        }

    def _pilot(self, timer: Timer, size: int) -> int:
        seconds = GATHERING_TRAIN if size == self._most else SHORT
        runs = pilot(timer, lambda: self._gathering.add(size, self._buffers), seconds)
        return fitting(seconds, self._train(timer, size, runs).seconds)

    def _train(self, timer: Timer, size: int, runs: int | None = None) -> Train:
        return timer.train(lambda: self._gathering.add(size, self._buffers), runs or self._counts[size])
