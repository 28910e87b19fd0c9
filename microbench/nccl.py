"""The collectives that training and serving use at every step, by the NCCL that a framework would load.

id                    unit   formula, for n GPUs: nccl-tests' bus bandwidth
nccl.all_reduce       GB/s   bytes of the largest sum / seconds x 2 (n - 1) / n
nccl.all_gather       GB/s   bytes that each has in the end / seconds x (n - 1) / n
nccl.reduce_scatter   GB/s   bytes that each has at first / seconds x (n - 1) / n
nccl.all_to_all       GB/s   bytes that each has / seconds x (n - 1) / n
nccl.send_recv        GB/s   bytes that each sends to the next / seconds

Numbers of 32 bits are added up, from one memory into another, 4 GiB on each GPU or what a quarter of the free memory
holds; beside that a few smaller sizes, whose time and bandwidth are in the method. A train of sums lies behind the
gate of the first GPU; the kernels of the others wait in theirs until it comes. The numbers are whole ones, so that
their sum is exact in any order: each GPU's result is counted through on the first GPU before and after the timing.
NVLink multicast (NCCL_NVLS_ENABLE) is off unless the user has set the variable.
"""

from __future__ import annotations

import os
import struct
from contextlib import contextmanager
from ctypes import c_uint32, c_uint64
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpustack.bench.card import Memory
    from gpustack.bench.exchange import Gathering
    from gpustack.bench.lab import Job, Lab

LARGEST = 4 << 30
SIZES = (1 << 10, 32 << 10, 1 << 20, 32 << 20, 256 << 20, 1 << 30)
NUMBER, UNIT = 4, 16
SEED, STEP = 0x5DEECE66D, 0x9E3779B97F4A7C15
THREADS = 256
MULTICAST = "NCCL_NVLS_ENABLE"


@contextmanager
def collective(lab: Lab, company: Sequence[int], *, work: str, share: float) -> Iterator[list[Job]]:
    """Return one of NCCL's works over this GPU and those beside it; the bus moves ``share`` times (n - 1) / n of it."""
    joined, library = lab.several.gathering(company)
    with joined as all_:
        count = len(all_.sites)
        part = share if work == "hand_on" else share * (count - 1) / count
        size = all_.room(LARGEST) // (count * UNIT) * count * UNIT
        if not size:
            lab.skip("one of the GPUs has next to no free memory", "nvidia-smi")
        sizes = [*(one // (count * UNIT) * count * UNIT for one in SIZES if one < size), size]
        run = getattr(all_.ring, work)
        with all_.buffers(size) as buffers, lab.memory(size) as scratch:
            _fill(lab, all_, buffers)
            check = partial(CHECKS[work], lab, all_, buffers, scratch)
            multicast = os.environ.get(MULTICAST, "0")
            yield [
                lab.job(
                    "fp32, out of place, one thread for all GPUs",
                    size * part,
                    lambda: all_.run(run, size, buffers),
                    check,
                    sampler=all_.sampler(run, part, [one for one in sizes if one], buffers),
                    bytes=size,
                    kernels=lab.how("nccl"),
                    multicast=None if multicast == "0" else f"{MULTICAST}={multicast}",
                    **library,
                )
            ]


def _fill(lab: Lab, all_: Gathering, buffers: Sequence[tuple[Memory, Memory]]) -> None:
    """Write different numbers to each GPU: they are made on the first one, whose own come last."""
    source = buffers[0][0]
    for place in reversed(range(len(buffers))):
        _run(lab, "fill_whole", source, place)
        all_.settle()
        if place:
            all_.fetch(buffers[place][0], source)


def _clear(all_: Gathering, buffers: Sequence[tuple[Memory, Memory]]) -> None:
    for site, (_, out) in zip(all_.sites, buffers, strict=True):
        site.clear(out)


def _unlike(lab: Lab, all_: Gathering, memories: Sequence[Memory], scratch: Memory) -> str | None:
    """Count on the first GPU what is wrong with the whole sum on each."""
    for site, memory in zip(all_.sites, memories, strict=True):
        all_.fetch(scratch, memory)
        if count := _count(lab, scratch, len(memories)):
            return f"{count} of {memory.size // NUMBER} sums are wrong on GPU {site.ordinal}"
    return None


def _sums(lab: Lab, all_: Gathering, memory: Memory, scratch: Memory) -> tuple[int, int]:
    all_.fetch(scratch, memory)
    return lab.sums(scratch)


def _added(lab: Lab, all_: Gathering, buffers: Sequence[tuple[Memory, Memory]], scratch: Memory) -> str | None:
    """Add up once into cleared memory, and look at the sum on each GPU."""
    _clear(all_, buffers)
    all_.run(all_.ring.add, scratch.size, buffers)
    all_.settle()
    return _unlike(lab, all_, [out for _, out in buffers], scratch)


def _scattered(lab: Lab, all_: Gathering, buffers: Sequence[tuple[Memory, Memory]], scratch: Memory) -> str | None:
    """Add up with a part for each GPU, gather the parts, and look at the whole sum on each; then fill again."""
    _clear(all_, buffers)
    all_.run(all_.ring.scatter, scratch.size, buffers)
    all_.settle()
    all_.run(all_.ring.gather, scratch.size, [(out, source) for source, out in buffers])
    all_.settle()
    wrong = _unlike(lab, all_, [source for source, _ in buffers], scratch)
    _fill(lab, all_, buffers)
    return wrong


def _gathered(lab: Lab, all_: Gathering, buffers: Sequence[tuple[Memory, Memory]], scratch: Memory) -> str | None:
    """Gather parts of the same numbers: every GPU must have those numbers again."""
    source = buffers[0][0]
    for own, _ in buffers[1:]:
        all_.fetch(own, source)
    _clear(all_, buffers)
    all_.run(all_.ring.gather, scratch.size, buffers)
    all_.settle()
    sent = _sums(lab, all_, source, scratch)
    for site, (_, out) in zip(all_.sites, buffers, strict=True):
        if _sums(lab, all_, out, scratch) != sent:
            return f"GPU {site.ordinal} did not get what the others sent"
    return None


def _exchanged(lab: Lab, all_: Gathering, buffers: Sequence[tuple[Memory, Memory]], scratch: Memory) -> str | None:
    """Exchange all parts and exchange them back: nothing may be lost on the way, and all be as it was."""
    sent = [_sums(lab, all_, source, scratch) for source, _ in buffers]
    _clear(all_, buffers)
    all_.run(all_.ring.exchange, scratch.size, buffers)
    all_.settle()
    came = [_sums(lab, all_, out, scratch) for _, out in buffers]
    if sum(one for one, _ in came) % 2**64 != sum(one for one, _ in sent) % 2**64:
        return "what the GPUs got is not what they sent"
    all_.run(all_.ring.exchange, scratch.size, [(out, source) for source, out in buffers])
    all_.settle()
    for site, (source, _), before in zip(all_.sites, buffers, sent, strict=True):
        if _sums(lab, all_, source, scratch) != before:
            return f"GPU {site.ordinal} did not get back what it sent"
    return None


def _handed_on(lab: Lab, all_: Gathering, buffers: Sequence[tuple[Memory, Memory]], scratch: Memory) -> str | None:
    """Hand everything on to the next GPU, which must have it then."""
    _clear(all_, buffers)
    all_.run(all_.ring.hand_on, scratch.size, buffers)
    all_.settle()
    for place, site in enumerate(all_.sites):
        source, out = buffers[place - 1][0], buffers[place][1]
        if _sums(lab, all_, out, scratch) != _sums(lab, all_, source, scratch):
            return f"GPU {site.ordinal} did not get what GPU {all_.sites[place - 1].ordinal} sent"
    return None


CHECKS = {
    "add": _added,
    "gather": _gathered,
    "scatter": _scattered,
    "exchange": _exchanged,
    "hand_on": _handed_on,
}


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


def _row(title: str, limit: str, work: str, share: float, budget: float) -> dict[str, object]:
    return {
        "title": title,
        "unit": "GB/s",
        "limit": limit,
        "scope": "all",
        "budget": budget,
        "prepare": partial(collective, work=work, share=share),
        "quick": False,
    }


BENCHES = {
    "nccl.all_reduce": _row("sum over all GPUs", "nccl.sum", "add", 2.0, 2.5),
    "nccl.all_gather": _row("everybody's part to all GPUs", "nccl.gather", "gather", 1.0, 1.0),
    "nccl.reduce_scatter": _row("sum over all GPUs, a part for each", "nccl.scatter", "scatter", 1.0, 1.0),
    "nccl.all_to_all": _row("a part from each GPU to each", "nccl.exchange", "exchange", 1.0, 1.0),
    "nccl.send_recv": _row("from each GPU to the next", "nccl.hand_on", "hand_on", 1.0, 1.0),
}
