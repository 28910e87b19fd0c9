"""The cost of allocating memory from the device's pool and freeing it, in stream order.

id            unit   formula
alloc.async   µs     (seconds of 2 N pairs - seconds of N) / N, less Python's own part

A pair is cuMemAllocAsync of 1 MiB and cuMemFreeAsync, called in a loop that runs in C, with arguments made beforehand;
Python's own overhead is measured separately and subtracted. This is host work: the pool keeps its memory. The check
writes random bits to memory allocated this way, and reads them back.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.bench.lab import Job, Lab

SIZE = 1 << 20
PAIRS = 2048
BUDGET = 0.4  # host work varies, and more samples hardly help


@contextmanager
def pool(lab: Lab) -> Iterator[list[Job]]:
    """Return the pair of an allocation and its release."""
    size = lab.room(SIZE)
    calls = lab.allocations(size)

    def check() -> str | None:
        calls(PAIRS)
        with lab.memory(size) as taken, lab.memory(size) as other:
            lab.fill(other)
            lab.copier(taken, other)()
            lab.clear(other)
            written = lab.sums(taken)
            lab.copier(other, taken)()
            return (
                None if lab.sums(other) == written != (0, 0) else "memory from the pool does not keep what is written"
            )

    yield [
        lab.job(
            "cuMemAllocAsync and cuMemFreeAsync",
            1,
            lambda: calls(1),
            check,
            sampler=lab.slope(calls, count=PAIRS),
            bytes=size,
            processor=lab.processor,
            numa=lab.place,
        )
    ]


BENCHES = {
    "alloc.async": {
        "title": "memory from the pool and back",
        "unit": "µs",
        "limit": "none",
        "budget": BUDGET,
        "prepare": pool,
        "quick": False,
    },
}
