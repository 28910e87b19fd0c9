"""The caches: how fast the second level and the shared memory are read by all multiprocessors together.

id          unit   formula
l2.read     GB/s   bytes read / seconds, of a set that the second-level cache holds
smem.read   GB/s   bytes read / seconds, of 32 KiB in the shared memory of every block

The set of the second level is a third of it, read past the first level. Slices of it are dealt out to many blocks, of
which several read the same slice at different times (as gpu-benches' gpu-l2-cache does); in the last ways every block
keeps to a slice of its own, which is slower where the cache serves two who ask for one line at once. The sum of all
words that were read (modulo 2^32) is compared with that of the set.
"""

from __future__ import annotations

import struct
from contextlib import ExitStack, contextmanager
from ctypes import c_uint32
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gpustack.bench.card import Argument, Memory
    from gpustack.bench.lab import Job, Lab

UNIT = 16
SLOTS = 1024
RUN = 4 << 30  # bytes that one run reads in the second level: half a millisecond on a large card
PART = 3  # of the cache is one set
SLICE = 512 << 10
SLICES = 16  # at least: fewer would be read in step
# Loads in flight a thread, threads a block, blocks a multiprocessor with slices of their own (0: slices are shared).
# The best on an H200 come first (2026-11-21: 10.0 TB/s of 20 MB; slices of their own 9.05).
L2 = ((8, 256, 0), (4, 256, 0), (8, 512, 2), (4, 512, 0), (1, 512, 0), (4, 1024, 1))
ROOM = 32 << 10
ROUNDS = 4096
SMEM = ((512, 4), (256, 4), (1024, 2), (256, 6), (1024, 1))  # threads a block, blocks a multiprocessor


@contextmanager
def level2(lab: Lab) -> Iterator[list[Job]]:
    """Return the ways to read a set that stays in the second-level cache."""
    ways = [_deal(lab, way) for way in L2[: lab.variants]]
    with ExitStack() as stack:
        sums = stack.enter_context(lab.memory(4 * SLOTS))
        sources = {size: stack.enter_context(lab.memory(size)) for size in {deal.size for deal in ways}}
        for source in sources.values():
            lab.fill(source)
        wholes = {size: lab.sums(source)[0] for size, source in sources.items()}

        def job(deal: Deal) -> Job:
            turns = max(1, RUN // deal.size)
            grid, passes = (deal.slices, turns) if deal.own else (deal.slices * turns, 1)
            counts = (c_uint32(deal.tiles), c_uint32(deal.slices), c_uint32(passes))
            given: list[Argument] = [sources[deal.size], *counts, sums, c_uint32(SLOTS)]
            run = lab.launcher("cache", f"l2_{deal.loads}", grid, deal.threads, given)
            check = _checker(lab, run, sums, wholes[deal.size] * turns)
            size, how = deal.size, lab.how("cache")
            return lab.job(deal.label, size * turns, run, check, bytes=size, traffic="read", passes=turns, kernels=how)

        yield [job(deal) for deal in ways]


class Deal(NamedTuple):
    """How a set is dealt out: loads in flight a thread, threads a block, tiles a slice, slices, and whose they are."""

    loads: int
    threads: int
    tiles: int
    slices: int
    own: bool

    @property
    def size(self) -> int:
        """The bytes of the set."""
        return UNIT * self.loads * self.threads * self.tiles * self.slices

    @property
    def label(self) -> str:
        """A description of the access."""
        whose = "a slice of its own a block" if self.own else "slices shared"
        flight = f"{self.loads} x 16 bytes in flight a thread, {self.threads} threads"
        return f"{self.size / 2**20:.1f} MiB, {flight}, {whose}"


def _deal(lab: Lab, way: tuple[int, int, int]) -> Deal:
    """Return the deal of a set of about its part of the cache."""
    loads, threads, blocks = way
    tile, whole = UNIT * loads * threads, lab.l2_bytes // PART
    if blocks:
        slices = blocks * lab.multiprocessors
        return Deal(loads, threads, max(1, whole // (tile * slices)), slices, own=True)
    tiles = max(1, min(SLICE, whole // SLICES) // tile)
    return Deal(loads, threads, tiles, max(1, whole // (tile * tiles)), own=False)


@contextmanager
def shared(lab: Lab) -> Iterator[list[Job]]:
    """Return the ways to read shared memory, 16 bytes a thread."""
    with lab.memory(ROOM) as source, lab.memory(4 * SLOTS) as sums:
        lab.fill(source)
        whole, _ = lab.sums(source)

        def job(way: tuple[int, int]) -> Job:
            threads, grid = way[0], way[1] * lab.multiprocessors
            given: list[Argument] = [source, c_uint32(ROUNDS), sums, c_uint32(SLOTS)]
            run = lab.launcher("cache", f"smem_{threads}", grid, threads, given)
            check = _checker(lab, run, sums, whole * ROUNDS * grid)
            label = f"16 bytes a thread, {threads} threads, {way[1]} blocks a multiprocessor"
            turns, how = ROUNDS * grid, lab.how("cache")
            return lab.job(label, ROOM * turns, run, check, bytes=ROOM, traffic="read", passes=turns, kernels=how)

        yield [job(way) for way in SMEM[: lab.variants]]


def _checker(lab: Lab, run: Callable[[], None], sums: Memory, wanted: int) -> Callable[[], str | None]:
    def check() -> str | None:
        lab.clear(sums)
        run()
        found = sum(struct.unpack(f"{SLOTS}I", lab.bytes_of(sums, 0, 4 * SLOTS)))
        good = (found - wanted) % 2**32 == 0
        return None if good else f"the words that were read add up to {found % 2**32}, not to {wanted % 2**32}"

    return check


BENCHES = {
    "l2.read": {"title": "second-level cache, read", "unit": "GB/s", "limit": "l2", "prepare": level2},
    "smem.read": {"title": "shared memory, read", "unit": "GB/s", "limit": "smem", "prepare": shared},
}
