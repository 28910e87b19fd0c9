"""The sum over all GPUs as the bench measures it: buffers on each, one call for all, and samples of several sizes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from gpustack.bench.sites import Site, move
from gpustack.bench.timing import fitting, pilot

if TYPE_CHECKING:
    from gpustack.bench.card import Card, Memory
    from gpustack.bench.nccl import Nccl, Ring
    from gpustack.bench.timing import Timer, Train

NUMBER = 4  # bytes
TRAIN, SHORT = 0.05, 0.01
BESIDE = 7  # samples of the sizes beside the largest


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathering:
    """Several GPUs, the first being the one that is measured, joined by NCCL."""

    card: Card
    sites: Sequence[Site]
    ring: Ring

    def room(self, wanted: int) -> int:
        """Give how large a buffer may be on each: as wanted, but at most a quarter of what is free."""
        return min(wanted, *(site.room() for site in self.sites))

    @contextmanager
    def buffers(self, size: int) -> Iterator[list[tuple[Memory, Memory]]]:
        """Give two memories of so many bytes on each GPU: the numbers, and where their sum goes."""
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
        """Give what takes samples of the sums of so many bytes each; the last is the one that counts."""
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
        """Give one sample of the largest size."""
        if not self._counts:
            self._counts = {size: self._pilot(timer, size) for size in self._seen}
            self.runs = self._counts[self._most]
            for size in self._less:
                self._seen[size] = [self._train(timer, size).seconds for _ in range(BESIDE)]
        train = self._train(timer, self._most)
        self._seen[self._most].append(train.seconds)
        return train

    def told(self) -> Mapping[str, object]:
        """Give the middle of each size: microseconds of one sum, and the bandwidth of the bus in GB/s."""
        share = self._gathering.share
        rows = [(size, median(seconds)) for size, seconds in self._seen.items()]
        return {
            "sizes": [
                {"bytes": size, "us": round(each * 1e6, 2), "bus_gb_s": round(size * share / each / 1e9, 3)}
                for size, each in rows
            ]
        }

    def _pilot(self, timer: Timer, size: int) -> int:
        seconds = TRAIN if size == self._most else SHORT
        runs = pilot(timer, lambda: self._gathering.add(size, self._buffers), seconds)
        return fitting(seconds, self._train(timer, size, runs).seconds)

    def _train(self, timer: Timer, size: int, runs: int | None = None) -> Train:
        return timer.train(lambda: self._gathering.add(size, self._buffers), runs or self._counts[size])
