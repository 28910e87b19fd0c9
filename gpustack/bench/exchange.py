"""Copies and sums between the GPUs of one node: over all links at once, and with NCCL."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from statistics import median
from typing import TYPE_CHECKING, TypeAlias

from gpustack.bench.routes import Site, follow, move
from gpustack.bench.timing import Timer, Train, fitting, pilot
from gpustack.model import record

if TYPE_CHECKING:
    from gpustack.bench.card import Card, Memory
    from gpustack.bench.setting import Nccl, Ring

TRAIN = 0.02
PIECES = 8
BESIDE = 6  # samples of the figures beside the main one
WAIT = 5.0
NUMBER = 4  # bytes
GATHERING_TRAIN, SHORT = 0.05, 0.01
GATHERING_BESIDE = 7  # samples of the sizes beside the largest
Work: TypeAlias = "Callable[[int, Sequence[tuple[int, int, int]]], None]"  # of a Ring: numbers, and everybody's way


@record
class Pair:
    """The GPU to measure and another one; ``refused`` is why one of them cannot access the other's memory."""

    card: Card
    here: Site
    there: Site
    refused: str | None

    def room(self, wanted: int) -> int:
        """Return the buffer size on both: as requested, but at most a quarter of the free memory."""
        return min(wanted, self.here.room(), self.there.room())

    def write(self, to: Memory, source: Memory) -> None:
        """Enqueue a copy by this GPU's copy engine, in stream order."""
        move(to, source, self.card.stream)

    def crossing(self, ours: tuple[Memory, Memory], theirs: tuple[Memory, Memory], *, both: bool) -> Crossing:
        """Return the sampler of the copies; see Crossing."""
        return Crossing(self, ours, theirs, both=both)


def paired(card: Card, other: int) -> Pair:
    """Return this GPU and another one, each accessing the other's memory if the driver allows it."""
    here, there = Site(card.ordinal), Site(other)
    return Pair(card=card, here=here, there=there, refused=here.reach(there) or there.reach(here))


class Crossing:
    """Samples the copies from this GPU to the other and, besides, those back and both ways at once."""

    def __init__(self, pair: Pair, ours: tuple[Memory, Memory], theirs: tuple[Memory, Memory], *, both: bool) -> None:
        """Copy from our first memory to their first, and from their second to our second, all of one size."""
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
        """Enqueue the copy from the other GPU once, by this one's engine."""
        self._pair.write(self._ours[1], self._theirs[1])

    def take(self, timer: Timer) -> Train:
        """Return one sample of the copies to the other GPU; the first few times, measure the additional figures too."""
        if self._pair.refused:
            timer = timer.open()  # the host takes part in them
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
        """Return the medians of the additional rates, in GB/s."""
        size = self._ours[0].size
        told: dict[str, object] = {"read_gb_s": round(size / median(self._read) / 1e9, 2)}
        if self._rates:
            there, back = (median(rates) / 1e9 for rates in zip(*self._rates, strict=True))
            told["both_gb_s"] = round(there + back, 2)
            told["each_way_gb_s"] = [round(there, 2), round(back, 2)]
        return told

    def _exchange(self) -> None:
        """Enqueue copies both ways from one common start, each written by the GPU that has its data.

        After its timed part each direction has one more piece, so that neither ends alone.
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
        """Return the bytes per second of each direction in the last exchange, from the common start to its own end."""
        card = self._pair.card
        for event in self._ends:
            card.wait(event, WAIT)
        there, back = (PIECES * self._ours[0].size / max(card.seconds(self._start, end), 1e-9) for end in self._ends)
        return there, back


@record
class Gathering:
    """Several GPUs joined by NCCL, the one to measure first."""

    card: Card
    sites: Sequence[Site]
    ring: Ring

    def room(self, wanted: int) -> int:
        """Return the buffer size on each: as requested, but at most a quarter of the free memory."""
        return min(wanted, *(site.room() for site in self.sites))

    @contextmanager
    def buffers(self, size: int) -> Iterator[list[tuple[Memory, Memory]]]:
        """Yield two memories of this many bytes on each GPU: the numbers, and the target of their sum."""
        with ExitStack() as stack:
            yield [
                (stack.enter_context(site.memory(size)), stack.enter_context(site.memory(size))) for site in self.sites
            ]

    def run(self, work: Work, size: int, buffers: Sequence[tuple[Memory, Memory]]) -> None:
        """Enqueue a work on the first bytes, on each GPU's stream, the card's first."""
        streams = [self.card.stream, *(site.stream for site in self.sites[1:])]
        ways = [(a.address, b.address, stream) for (a, b), stream in zip(buffers, streams, strict=True)]
        work(size // NUMBER, ways)

    def fetch(self, to: Memory, source: Memory) -> None:
        """Copy between two GPUs, one of them the first, and wait."""
        move(to, source, self.card.stream)
        self.card.settle()

    def settle(self) -> None:
        """Wait until all GPUs have finished."""
        self.card.settle()
        for site in self.sites[1:]:
            site.settle()

    def sampler(
        self, work: Work, share: float, sizes: Sequence[int], buffers: Sequence[tuple[Memory, Memory]]
    ) -> Sizes:
        """Return the sampler of a work for each of these sizes in bytes; the last is the main one.

        ``share`` is the bus traffic per byte, as nccl-tests counts it.
        """
        return Sizes(self, work, share, sizes, buffers)


@contextmanager
def joined(card: Card, others: Sequence[int], library: Nccl) -> Iterator[Gathering]:
    """Join this GPU and others with this NCCL; raises NcclError on failure."""
    sites = [Site(gpu) for gpu in (card.ordinal, *others)]
    ring = library.join([site.ordinal for site in sites])
    try:
        yield Gathering(card=card, sites=sites, ring=ring)
    finally:
        ring.close()


class Sizes:
    """Samples the largest size; before the first sample, also all others."""

    def __init__(
        self,
        gathering: Gathering,
        work: Work,
        share: float,
        sizes: Sequence[int],
        buffers: Sequence[tuple[Memory, Memory]],
    ) -> None:
        """Do the work on each of these sizes in bytes, in these buffers."""
        self.runs = 1
        self._gathering, self._buffers, self._work, self._share = gathering, buffers, work, share
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
        """Return the medians for each size: microseconds of one sum, and the bus bandwidth in GB/s."""
        share = self._share
        rows = [(size, median(seconds)) for size, seconds in self._seen.items()]
        return {
            "sizes": [
                {"bytes": size, "us": round(each * 1e6, 2), "bus_gb_s": round(size * share / each / 1e9, 3)}
                for size, each in rows
            ]
        }

    def _pilot(self, timer: Timer, size: int) -> int:
        seconds = GATHERING_TRAIN if size == self._most else SHORT
        runs = pilot(timer, lambda: self._gathering.run(self._work, size, self._buffers), seconds)
        return fitting(seconds, self._train(timer, size, runs).seconds)

    def _train(self, timer: Timer, size: int, runs: int | None = None) -> Train:
        return timer.train(lambda: self._gathering.run(self._work, size, self._buffers), runs or self._counts[size])


class Everybody:
    """Samples the copies from each GPU to every other, all at once from one common start."""

    runs = 1

    def __init__(self, card: Card, sites: Sequence[Site], held: Sequence[tuple[Memory, Sequence[Memory]]]) -> None:
        """Copy each GPU's first memory into one of each other's; the first GPU is the card's."""
        self._card, self._sites, self._held = card, sites, held
        self._start, self._last = card.event(), card.event()
        self._sides, self._ends = [card.another() for _ in sites], [card.event() for _ in sites]
        self._rates: list[list[float]] = []
        self.moved = len(sites) * (len(sites) - 1) * held[0][0].size

    def run(self) -> None:
        """Enqueue all copies, each GPU's in turn to the others, the next one first."""
        card, count = self._card, len(self._sites)
        card.record(self._start)
        for site in self._sites:
            site.after(int(self._start.handle))
        for step in range(1, count):
            for place, site in enumerate(self._sites):
                site.copy(self._held[(place + step) % count][1][step - 1], self._held[place][0])
        for site, side, end in zip(self._sites, self._sides, self._ends, strict=True):
            done = site.record()
            follow(int(side.handle), done)
            side.record(end)
            follow(card.stream, done)

    def take(self, timer: Timer) -> Train:
        """Return one sample: the seconds in which everything is moved, each GPU at its own rate."""
        train = timer.train(self.run, 1)
        for end in self._ends:
            self._card.wait(end, WAIT)
        each = self.moved / len(self._sites)
        self._rates.append([each / max(self._card.seconds(self._start, end), 1e-9) for end in self._ends])
        return Train(self.moved / sum(self._rates[-1]), train.clock_mhz)

    def told(self) -> Mapping[str, object]:
        """Return the median rate that each GPU sent at."""
        rates = [median(each) / 1e9 for each in zip(*self._rates, strict=True)]
        named = zip(self._sites, rates, strict=True)
        return {"cards": [{"gpu": site.ordinal, "gb_s": round(rate, 2)} for site, rate in named]}


def everybody(card: Card, others: Sequence[int]) -> tuple[list[Site], str | None]:
    """Return this GPU and others, each accessing every other's memory, or why one of them cannot."""
    sites = [Site(gpu) for gpu in (card.ordinal, *others)]
    reasons = (one.reach(other) for one in sites for other in sites if one is not other)
    return sites, next(filter(None, reasons), None)
