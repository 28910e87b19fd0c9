"""The sum over all GPUs that training needs at every step, by the NCCL that a framework would load.

id                unit   formula
nccl.all_reduce   GB/s   bytes of the largest sum / seconds x 2 (n - 1) / n, for n GPUs: nccl-tests' bus bandwidth

Numbers of 32 bits are added up, from one memory into another, 4 GiB on each GPU or what a quarter of the free memory
holds; beside that a few smaller sizes, of which the method tells time and bandwidth. A train of sums lies behind the
gate of the first GPU; the kernels of the others wait in theirs until it comes. The numbers are whole ones, so that
their sum is exact in any order: each GPU's result is counted through on the first GPU before and after the timing.
NVLink multicast (NCCL_NVLS_ENABLE) is off unless the user has set the variable.
"""

from __future__ import annotations

import os
import struct
from contextlib import contextmanager
from ctypes import c_uint32, c_uint64
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpustack.bench.card import Memory
    from gpustack.bench.exchange import Gathering
    from gpustack.bench.lab import Job, Lab

LARGEST = 4 << 30
SIZES = (1 << 10, 32 << 10, 1 << 20, 32 << 20, 256 << 20, 1 << 30)
NUMBER = 4
SEED, STEP = 0x5DEECE66D, 0x9E3779B97F4A7C15
THREADS = 256
MULTICAST = "NCCL_NVLS_ENABLE"


@contextmanager
def all_reduce(lab: Lab, company: Sequence[int]) -> Iterator[list[Job]]:
    """Give the sum over this GPU and those beside it."""
    joined, library = lab.several.gathering(company)
    with joined as all_:
        size = all_.room(LARGEST)
        if not size:
            lab.skip("one of the GPUs has next to no free memory", "nvidia-smi")
        sizes = [*(one for one in SIZES if one < size), size]
        with all_.buffers(size) as buffers:
            _fill(lab, all_, buffers)
            multicast = os.environ.get(MULTICAST, "0")
            yield [
                lab.job(
                    "fp32, out of place, one thread for all GPUs",
                    size * all_.share,
                    lambda: all_.add(size, buffers),
                    lambda: _wrong(lab, all_, buffers),
                    sampler=all_.sampler(sizes, buffers),
                    bytes=size,
                    kernels=lab.how("nccl"),
                    multicast=None if multicast == "0" else f"{MULTICAST}={multicast}",
                    **library,
                )
            ]


def _fill(lab: Lab, all_: Gathering, buffers: Sequence[tuple[Memory, Memory]]) -> None:
    """Put other numbers on each GPU: they are made on the first one, whose own come last."""
    source = buffers[0][0]
    for place in reversed(range(len(buffers))):
        _run(lab, "fill_whole", source, place)
        all_.settle()
        if place:
            all_.fetch(buffers[place][0], source)


def _wrong(lab: Lab, all_: Gathering, buffers: Sequence[tuple[Memory, Memory]]) -> str | None:
    """Add up once into cleared memory, and count on the first GPU what is wrong on each."""
    for site, (_, sum_) in zip(all_.sites, buffers, strict=True):
        site.clear(sum_)
    all_.add(buffers[0][0].size, buffers)
    all_.settle()
    for place, (_, sum_) in enumerate(buffers):
        here = buffers[0][1]
        if place:
            all_.fetch(here, sum_)
        if count := _count(lab, here, len(buffers)):
            gpu = all_.sites[place].ordinal
            return f"{count} of {sum_.size // NUMBER} sums are wrong on GPU {gpu}"
    return None


def _count(lab: Lab, sums: Memory, gpus: int) -> int:
    with lab.memory(8) as found:
        lab.clear(found)
        _run(lab, "unlike", sums, 0, c_uint32(gpus), found)
        (count,) = struct.unpack("Q", lab.bytes_of(found, 0, 8))
    return int(count)


def _run(lab: Lab, kernel: str, memory: Memory, place: int, *more: c_uint32 | Memory) -> None:
    count, seed = c_uint64(memory.size // NUMBER), c_uint64((SEED + place * STEP) % 2**64)
    given = [memory, count, seed, c_uint32(lab.random), *more]
    lab.launcher("nccl", kernel, 8 * lab.multiprocessors, THREADS, given)()


BENCHES = {
    "nccl.all_reduce": {
        "title": "sum over all GPUs",
        "unit": "GB/s",
        "limit": "nccl.sum",
        "scope": "all",
        "budget": 2.5,
        "prepare": all_reduce,
        "quick": False,
    },
}
