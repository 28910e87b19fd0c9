"""The link between host and GPU: copies by the GPU's copy engines, and how long a single read takes.

id                  unit   formula
pcie.h2d.pinned     GB/s   bytes copied from the host to the GPU / seconds
pcie.d2h.pinned     GB/s   bytes copied from the GPU to the host / seconds
pcie.h2d.all        GB/s   as pcie.h2d.pinned, to all GPUs at the same time, each from memory near to it: their sum
pcie.d2h.all        GB/s   as pcie.d2h.pinned, from all GPUs at the same time: their sum
pcie.h2d.far        GB/s   as pcie.h2d.pinned, of memory on the NUMA node that is furthest from the GPU
pcie.d2h.far        GB/s   as pcie.d2h.pinned, of memory there
pcie.bidir.pinned   GB/s   the two directions' bytes / seconds, both at once, added up
pcie.h2d.pageable   GB/s   as pcie.h2d.pinned, of memory that is not pinned: the host's processor copies it too
pcie.d2h.pageable   GB/s   as pcie.d2h.pinned, of memory that is not pinned
pcie.latency        ns     seconds of a chain of reads of pinned host memory by one thread / reads

One buffer of 128 MiB is copied again and again (in both directions, one each); a train of copies lies behind the gate,
so the engine never waits for the host. The checksum of what arrived is compared with that of what was sent.
In both directions at once, one start is common to both; each is timed while the other goes on, and the figure is their
sum, with each direction's beside it. Copies of memory that is not pinned have no gate, since the host takes part in
them. The chain of reads is one random ring through 2 MiB, one read for each line; where it must end is known. It is
made in several buffers, which are read in turn, since a buffer's place in memory affects the time.
"""

from __future__ import annotations

import ctypes
import random
import struct
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import cycle
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gpustack.bench.card import Memory
    from gpustack.bench.lab import Job, Lab
    from gpustack.bench.numa import Pageable

SIZE = 128 << 20
RING = 2 << 20
LINE = 128
WORD = 8
READS = 2048
RINGS = 8
BUDGET = 0.4  # host work varies, and more samples hardly help
LONG = 3.0  # seconds: both directions at once vary by a percent during the first second


@contextmanager
def to_device(lab: Lab) -> Iterator[list[Job]]:
    """Return the copy from the host to the GPU."""
    size = lab.room(SIZE)
    with lab.pinned(size) as host, lab.memory(size) as device:
        lab.fill(device)
        lab.copier(host, device)()
        sent = lab.sums(device)
        run = lab.copier(device, host)

        def check() -> str | None:
            lab.clear(device, byte=0xFF)
            run()
            return None if lab.sums(device) == sent else "the GPU did not get what the host sent"

        yield [lab.job("copy engine", size, run, check, bytes=size, traffic="read from the host", numa=lab.place)]


@contextmanager
def to_host(lab: Lab) -> Iterator[list[Job]]:
    """Return the copy from the GPU to the host."""
    size = lab.room(SIZE)
    with lab.pinned(size) as host, lab.memory(size) as device, lab.memory(size) as back:
        lab.fill(device)
        sent = lab.sums(device)
        run = lab.copier(host, device)

        def check() -> str | None:
            lab.clear(back, byte=0xFF)
            lab.copier(host, back)()
            run()
            lab.copier(back, host)()
            return None if lab.sums(back) == sent else "the host did not get what the GPU sent"

        yield [lab.job("copy engine", size, run, check, bytes=size, traffic="written to the host", numa=lab.place)]


@contextmanager
def from_far(lab: Lab) -> Iterator[list[Job]]:
    """Return the copy to the GPU from memory on the NUMA node that is furthest from it."""
    with lab.several.far() as place, to_device(lab) as jobs:
        yield [replace(job, method={**job.method, "numa": place}) for job in jobs]


@contextmanager
def to_far(lab: Lab) -> Iterator[list[Job]]:
    """Return the copy from the GPU to memory on the NUMA node that is furthest from it."""
    with lab.several.far() as place, to_host(lab) as jobs:
        yield [replace(job, method={**job.method, "numa": place}) for job in jobs]


@contextmanager
def both(lab: Lab) -> Iterator[list[Job]]:
    """Return the copies in both directions at once."""
    size = lab.room(SIZE)
    with lab.memory(size) as source, lab.memory(size) as target, lab.pinned(size) as out, lab.pinned(size) as into:
        lab.fill(source)
        lab.copier(out, source)()
        sent = lab.sums(source)
        copies = lab.duplex((target, out), (source, into))
        copies.balance()

        def check() -> str | None:
            lab.clear(target, byte=0xFF)
            lab.copier(into, target)()
            copies.run()
            if lab.sums(target) != sent:
                return "the GPU did not get what the host sent"
            lab.copier(target, into)()
            return None if lab.sums(target) == sent else "the host did not get what the GPU sent"

        yield [
            lab.job(
                "two copy engines, one common start",
                copies.moved,
                copies.run,
                check,
                sampler=copies,
                bytes=size,
                traffic="read from and written to the host",
                numa=lab.place,
            )
        ]


@contextmanager
def from_pageable(lab: Lab) -> Iterator[list[Job]]:
    """Return the copy to the GPU from memory that is not pinned."""
    with _pageable(lab) as (host, device):
        yield [_unpinned(lab, lambda: host.to_device(device), host, device, "read from the host")]


@contextmanager
def to_pageable(lab: Lab) -> Iterator[list[Job]]:
    """Return the copy from the GPU to memory that is not pinned."""
    with _pageable(lab) as (host, device):
        yield [_unpinned(lab, lambda: host.to_host(device), host, device, "written to the host")]


@contextmanager
def _pageable(lab: Lab) -> Iterator[tuple[Pageable, Memory]]:
    size = lab.room(SIZE)
    with lab.memory(size) as device, lab.pageable(size) as host:
        lab.fill(device)
        host.to_host(device)
        yield host, device


def _unpinned(lab: Lab, run: Callable[[], None], host: Pageable, device: Memory, traffic: str) -> Job:
    def check() -> str | None:
        lab.fill(device)
        sent = lab.sums(device)
        host.to_host(device)
        lab.clear(device, byte=0xFF)
        host.to_device(device)
        return None if lab.sums(device) == sent else "what came back is not what was sent"

    return lab.job(
        "driver, pageable memory",
        host.size,
        run,
        check,
        gated=False,
        bytes=host.size,
        traffic=traffic,
        processor=lab.processor,
        numa=lab.place,
    )


@contextmanager
def latency(lab: Lab) -> Iterator[list[Job]]:
    """Return the chain of reads."""
    ring, last = _ring(RING // LINE)
    with lab.memory(WORD) as at, ExitStack() as stack:
        hosts = [stack.enter_context(lab.pinned(RING)) for _ in range(RINGS)]
        for host in hosts:
            ctypes.memmove(host.address, ring, RING)
        lab.clear(at)
        turns = cycle([lab.launcher("pcie", "chase", 1, 1, [host, ctypes.c_uint32(READS), at]) for host in hosts])

        def run() -> None:
            next(turns)()

        def check() -> str | None:
            for _ in hosts:
                lab.clear(at)
                run()
                (found,) = struct.unpack("Q", lab.bytes_of(at, 0, WORD))
                if found != last:
                    return f"the chain of reads led to place {found}, not to {last}"
            return None

        yield [
            lab.job(
                f"one thread, {READS} dependent reads",
                READS,
                run,
                check,
                bytes=RING,
                rings=RINGS,
                kernels=lab.how("pcie"),
                processor=lab.processor,
                numa=lab.place,
            )
        ]


def _ring(lines: int) -> tuple[bytes, int]:
    """Return words, the first of each line being the place of the next, in one random ring; and where the reads end."""
    order = list(range(1, lines))
    random.Random(lines).shuffle(order)  # noqa: S311 - no secret, a chain that no prefetcher foresees
    step = LINE // WORD
    words = [0] * (lines * step)
    for here, following in zip([0, *order], [*order, 0], strict=True):
        words[here * step] = following * step
    return struct.pack(f"{len(words)}Q", *words), [0, *order][READS % lines] * step


def _row(title: str, limit: str, prepare: object, **more: object) -> dict[str, object]:
    unit = "ns" if limit == "pcie.latency" else "GB/s"
    return {"title": title, "unit": unit, "limit": limit, "prepare": prepare, "alone": "scope" not in more, **more}


LATER = {"budget": BUDGET, "quick": False}
BENCHES = {
    "pcie.h2d.pinned": _row("host to GPU, pinned", "pcie.h2d", to_device),
    "pcie.d2h.pinned": _row("GPU to host, pinned", "pcie.d2h", to_host),
    "pcie.h2d.all": _row("host to all GPUs at once, pinned", "pcie.h2d", to_device, scope="abreast"),
    "pcie.d2h.all": _row("all GPUs to host at once, pinned", "pcie.d2h", to_host, scope="abreast"),
    "pcie.bidir.pinned": _row("both directions at once, pinned", "pcie.bidir", both, budget=LONG, quick=False),
    "pcie.h2d.far": _row("host to GPU, pinned, from the far NUMA node", "pcie.far", from_far, **LATER),
    "pcie.d2h.far": _row("GPU to host, pinned, to the far NUMA node", "pcie.far", to_far, **LATER),
    "pcie.h2d.pageable": _row("host to GPU, not pinned", "pcie.pageable", from_pageable, **LATER),
    "pcie.d2h.pageable": _row("GPU to host, not pinned", "pcie.pageable", to_pageable, **LATER),
    "pcie.latency": _row("one read of the host's memory", "pcie.latency", latency, **LATER),
}
