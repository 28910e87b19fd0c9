"""The link between host and GPU: copies of pinned memory by the GPU's copy engine, one way at a time.

id                unit   formula
pcie.h2d.pinned   GB/s   bytes copied from the host to the GPU / seconds
pcie.d2h.pinned   GB/s   bytes copied from the GPU to the host / seconds

One buffer of 256 MiB is copied again and again; a train of copies lies behind the gate, so the engine never waits for
the host. The checksum of what arrived is compared with that of what was sent.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.bench.lab import Job, Lab

SIZE = 256 << 20


@contextmanager
def to_device(lab: Lab) -> Iterator[list[Job]]:
    """Give the copy from the host to the GPU."""
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

        yield [lab.job("copy engine", size, run, check, bytes=size, traffic="read from the host")]


@contextmanager
def to_host(lab: Lab) -> Iterator[list[Job]]:
    """Give the copy from the GPU to the host."""
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

        yield [lab.job("copy engine", size, run, check, bytes=size, traffic="written to the host")]


BENCHES = {
    "pcie.h2d.pinned": {
        "title": "host to GPU, pinned",
        "unit": "GB/s",
        "limit": "pcie.h2d",
        "prepare": to_device,
    },
    "pcie.d2h.pinned": {
        "title": "GPU to host, pinned",
        "unit": "GB/s",
        "limit": "pcie.d2h",
        "prepare": to_host,
    },
}
