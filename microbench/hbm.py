"""The GPU's own memory: how fast it is read, written, copied and computed on without help of the caches.

id          unit   formula
hbm.read    GB/s   bytes read / seconds
hbm.write   GB/s   bytes written / seconds
hbm.copy    GB/s   (bytes read + bytes written) / seconds
hbm.triad   GB/s   (bytes read twice + bytes written) / seconds, of a = b + s c in doubles (as BabelStream counts)

All arrays together are 400 times the second-level cache and at least 16 GiB where a quarter of the free memory holds
each, so that under 0.3 % can be found in the cache. Which block count, unrolling and kind of access is fastest differs
between cards, so several are tried and the best is measured; a copy is also made by the driver, and by bulk copies
through shared memory where the GPU has them (from Hopper on, compiled here). Every word counts: the sum of what was
read, the words that were written, the checksum of what was copied, and every a are compared on the device.
"""

from __future__ import annotations

import struct
from contextlib import contextmanager
from ctypes import c_float, c_uint32, c_uint64
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gpustack.bench.card import Argument
    from gpustack.bench.lab import Job, Lab

SIZE = 16 << 30
CACHES = 400
UNIT = 16
SLOTS = 1024
SEED, FACTOR = 0x9E3779B9, 0x85EBCA6B
SCALAR = 0.4  # BabelStream's
ALL = 0  # a block for every tile, instead of so many blocks a multiprocessor

# Access, loads in flight a thread, threads a block, blocks a multiprocessor. The best of all ways on an H200 come first
# (2026-11-21: read 4634, write 4717, copy 4300, triad 4400 GB/s); the last of each are for cards that like few blocks.
READS = (
    ("plain", 8, 256, ALL),
    ("streaming", 8, 256, ALL),
    ("plain", 4, 128, ALL),
    ("streaming", 4, 128, ALL),
    ("streaming", 2, 128, ALL),
    ("streaming", 4, 1024, 64),
    ("plain", 8, 1024, 32),
    ("streaming", 8, 512, 16),
)
WRITES = (
    ("streaming", 1, 256, ALL),
    ("streaming", 1, 1024, ALL),
    ("plain", 1, 1024, ALL),
    ("plain", 2, 128, ALL),
    ("streaming", 2, 1024, ALL),
    ("plain", 8, 1024, 64),
    ("plain", 2, 512, 16),
)
COPIES = (
    ("streaming", 1, 128, ALL),
    ("plain", 1, 128, ALL),
    ("plain", 1, 256, ALL),
    ("streaming", 2, 128, ALL),
    ("streaming", 8, 1024, 64),
    ("plain", 2, 1024, 32),
)
TRIADS = (
    ("plain", 1, 1024, ALL),
    ("streaming", 1, 1024, ALL),
    ("plain", 1, 128, ALL),
    ("streaming", 1, 256, ALL),
    ("streaming", 2, 128, ALL),
    ("streaming", 4, 256, ALL),
    ("plain", 2, 1024, 32),
)
BULKS = ((8192, 32768), (16384, 32768))  # bytes of a piece, and of the shared memory that a block takes for it


def _size(lab: Lab, arrays: int = 1) -> int:
    """Return the size of one of so many arrays. No variant's last tile is full, so that checks cover the rest."""
    return lab.room(max(SIZE, CACHES * lab.l2_bytes) // arrays) - UNIT


def _label(way: tuple[str, int, int, int]) -> str:
    access, loads, threads, blocks = way
    grid = f"{blocks} blocks a multiprocessor" if blocks else "a block a tile"
    return f"{access} access, {loads} x 16 bytes in flight a thread, {threads} threads, {grid}"


def _grid(lab: Lab, way: tuple[str, int, int, int], size: int) -> int:
    _, loads, threads, blocks = way
    tiles = -(-size // (UNIT * loads * threads))
    return min(tiles, blocks * lab.multiprocessors or tiles)


@contextmanager
def read(lab: Lab) -> Iterator[list[Job]]:
    """Return the ways to read a large set, each adding up every word of it."""
    size = _size(lab)
    with lab.memory(size) as source, lab.memory(8 * SLOTS) as sums:
        lab.fill(source)
        wanted, _ = lab.sums(source)

        def checker(run: Callable[[], None]) -> Callable[[], str | None]:
            def check() -> str | None:
                lab.clear(sums)
                run()
                found = sum(struct.unpack(f"{SLOTS}Q", lab.bytes_of(sums, 0, 8 * SLOTS))) % 2**64
                return None if found == wanted else f"the words that were read add up to {found}, not to {wanted}"

            return check

        def job(way: tuple[str, int, int, int]) -> Job:
            given: list[Argument] = [source, c_uint64(size // UNIT), sums, c_uint32(SLOTS)]
            run = lab.launcher("hbm", f"read_{way[0]}_{way[1]}", _grid(lab, way, size), way[2], given)
            return lab.job(_label(way), size, run, checker(run), bytes=size, traffic="read", kernels=lab.how("hbm"))

        yield [job(way) for way in READS[: lab.variants]]


@contextmanager
def write(lab: Lab) -> Iterator[list[Job]]:
    """Return the ways to write a large set, each word another."""
    size = _size(lab)
    seed, factor = (c_uint32(SEED), c_uint32(FACTOR)) if lab.random else (c_uint32(), c_uint32())
    with lab.memory(size) as target, lab.memory(8) as count:
        given: list[Argument] = [target, c_uint64(size // UNIT), seed, factor]
        compare = lab.launcher("hbm", "wrong", 8 * lab.multiprocessors, 256, [*given, count])

        def checker(run: Callable[[], None]) -> Callable[[], str | None]:
            def check() -> str | None:
                lab.clear(target, byte=0xFF)
                lab.clear(count)
                run()
                compare()
                (wrong,) = struct.unpack("Q", lab.bytes_of(count, 0, 8))
                return f"{wrong} of {size // UNIT} units of 16 bytes do not hold what was written" if wrong else None

            return check

        def job(way: tuple[str, int, int, int]) -> Job:
            run = lab.launcher("hbm", f"write_{way[0]}_{way[1]}", _grid(lab, way, size), way[2], given)
            how = lab.how("hbm")
            return lab.job(_label(way), size, run, checker(run), bytes=size, traffic="written", kernels=how)

        yield [job(way) for way in WRITES[: lab.variants]]


@contextmanager
def copy(lab: Lab) -> Iterator[list[Job]]:
    """Return the ways to copy a large set: the driver's own, ours, and bulk copies."""
    size = _size(lab, 2)
    with lab.memory(size) as source, lab.memory(size) as target:
        lab.fill(source)
        wanted = lab.sums(source)
        given: list[Argument] = [target, source, c_uint64(size // UNIT)]

        def job(label: str, run: Callable[[], None], kernels: str) -> Job:
            def check() -> str | None:
                lab.clear(target, byte=0xFF)
                run()
                return None if lab.sums(target) == wanted else "the copy differs from its source"

            return lab.job(label, 2 * size, run, check, bytes=size, traffic="read + written", kernels=kernels)

        def ours(way: tuple[str, int, int, int]) -> Job:
            run = lab.launcher("hbm", f"copy_{way[0]}_{way[1]}", _grid(lab, way, size), way[2], given)
            return job(_label(way), run, lab.how("hbm"))

        def bulk(way: tuple[int, int]) -> Job:
            piece, room = way
            run = lab.launcher("hbm", f"bulk_{piece}_{room}", -(-size // piece), 32, given)
            return job(f"bulk copies of {piece} bytes through {room} of shared memory", run, lab.how("hbm"))

        first, *others = COPIES
        bulks = [bulk(way) for way in BULKS if lab.has("hbm", f"bulk_{way[0]}_{way[1]}")]
        jobs = [job("the driver's copy", lab.copier(target, source), "the driver's"), ours(first), *bulks]
        yield [*jobs, *map(ours, others)][: lab.variants]


@contextmanager
def triad(lab: Lab) -> Iterator[list[Job]]:
    """Return the ways to compute a = b + s c over three large arrays."""
    size = _size(lab, 3)
    with lab.memory(size) as a, lab.memory(size) as b, lab.memory(size) as c, lab.memory(8) as count:
        for operand in (b, c):
            lab.fill(operand, "fp32")  # two of these make a double that is neither infinite nor no number
        given: list[Argument] = [a, b, c, c_uint64(size // UNIT), c_float(SCALAR)]
        compare = lab.launcher("hbm", "unequal", 8 * lab.multiprocessors, 256, [*given, count])

        def checker(run: Callable[[], None]) -> Callable[[], str | None]:
            def check() -> str | None:
                lab.clear(a, byte=0xFF)
                lab.clear(count)
                run()
                compare()
                (wrong,) = struct.unpack("Q", lab.bytes_of(count, 0, 8))
                return f"{wrong} of {size // UNIT} units of 16 bytes are not b + s c" if wrong else None

            return check

        def job(way: tuple[str, int, int, int]) -> Job:
            run = lab.launcher("hbm", f"triad_{way[0]}_{way[1]}", _grid(lab, way, size), way[2], given)
            how, traffic = lab.how("hbm"), "2 read + 1 written"
            return lab.job(_label(way), 3 * size, run, checker(run), bytes=size, traffic=traffic, kernels=how)

        yield [job(way) for way in TRIADS[: lab.variants]]


BENCHES = {
    "hbm.read": {"title": "device memory, read", "unit": "GB/s", "limit": "hbm", "prepare": read},
    "hbm.write": {"title": "device memory, write", "unit": "GB/s", "limit": "hbm", "prepare": write},
    "hbm.copy": {"title": "device memory, copy", "unit": "GB/s", "limit": "hbm", "prepare": copy},
    "hbm.triad": {"title": "device memory, triad", "unit": "GB/s", "limit": "hbm", "prepare": triad},
}
