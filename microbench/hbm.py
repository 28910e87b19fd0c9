"""The GPU's own memory: how fast it is read, written and copied when the caches do not help.

id          unit   formula
hbm.read    GB/s   bytes read / seconds
hbm.write   GB/s   bytes written / seconds
hbm.copy    GB/s   (bytes read + bytes written) / seconds

The set is 8 times the second-level cache and at least 4 GiB where the memory allows. Which block count, unrolling and
kind of access is fastest differs between cards, so several are tried and the best is measured. Every word counts: the
sum of what was read, the words that were written, and the checksum of what was copied are compared on the device.
"""

from __future__ import annotations

import struct
from contextlib import contextmanager
from ctypes import c_uint32, c_uint64
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gpustack.bench.card import Argument
    from gpustack.bench.lab import Job, Lab

SIZE = 4 << 30
CACHES = 8
UNIT = 16
SLOTS = 1024
SEED, FACTOR = 0x9E3779B9, 0x85EBCA6B
ALL = 0  # a block for every tile, instead of so many blocks a multiprocessor

# Access, loads in flight a thread, threads a block, blocks a multiprocessor. The best of 128 ways on an H200 come first
# (2026-11-21: read 4619, write 4707, copy 4306 GB/s); the last of each are for cards that like few blocks.
READS = (
    ("streaming", 4, 128, ALL),
    ("streaming", 8, 256, ALL),
    ("plain", 8, 256, ALL),
    ("plain", 4, 128, ALL),
    ("streaming", 2, 512, ALL),
    ("streaming", 4, 1024, 64),
    ("plain", 8, 1024, 32),
    ("streaming", 8, 512, 16),
)
WRITES = (
    ("streaming", 1, 256, ALL),
    ("streaming", 1, 1024, ALL),
    ("plain", 2, 128, ALL),
    ("streaming", 2, 1024, ALL),
    ("plain", 1, 256, ALL),
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


def _size(lab: Lab) -> int:
    """Give a size that fills no way's last tile, so that the checks see what becomes of the rest."""
    return lab.room(max(SIZE, CACHES * lab.l2_bytes)) - UNIT


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
    """Give the ways to read a large set, each adding up every word of it."""
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
            return lab.job(_label(way), size, run, checker(run), bytes=size, traffic="read")

        yield [job(way) for way in READS[: lab.variants]]


@contextmanager
def write(lab: Lab) -> Iterator[list[Job]]:
    """Give the ways to write a large set, each word another."""
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
            return lab.job(_label(way), size, run, checker(run), bytes=size, traffic="written")

        yield [job(way) for way in WRITES[: lab.variants]]


@contextmanager
def copy(lab: Lab) -> Iterator[list[Job]]:
    """Give the ways to copy a large set: the driver's own, and ours."""
    size = _size(lab)
    with lab.memory(size) as source, lab.memory(size) as target:
        lab.fill(source)
        wanted = lab.sums(source)

        def job(label: str, run: Callable[[], None]) -> Job:
            def check() -> str | None:
                lab.clear(target, byte=0xFF)
                run()
                return None if lab.sums(target) == wanted else "the copy differs from its source"

            return lab.job(label, 2 * size, run, check, bytes=size, traffic="read + written")

        def ours(way: tuple[str, int, int, int]) -> Job:
            given: list[Argument] = [target, source, c_uint64(size // UNIT)]
            name = f"copy_{way[0]}_{way[1]}"
            return job(_label(way), lab.launcher("hbm", name, _grid(lab, way, size), way[2], given))

        yield [job("the driver's copy", lab.copier(target, source)), *map(ours, COPIES[: lab.variants - 1])]


BENCHES = {
    "hbm.read": {"title": "device memory, read", "unit": "GB/s", "limit": "hbm", "prepare": read},
    "hbm.write": {"title": "device memory, write", "unit": "GB/s", "limit": "hbm", "prepare": write},
    "hbm.copy": {"title": "device memory, copy", "unit": "GB/s", "limit": "hbm", "prepare": copy},
}
