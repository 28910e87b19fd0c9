"""The path from one GPU to another: copies by their copy engines, and how long a read of the other's memory takes.

id              unit   formula
p2p.bandwidth   GB/s   bytes that the first GPU's copy engine writes into the second GPU's memory / seconds
p2p.latency     ns     seconds of a chain of reads of the second GPU's memory by one thread of the first / reads
p2p.all_to_all  GB/s   bytes that each GPU's copy engine writes to all others / seconds, at once: the sum of all GPUs

Each pair is measured in both directions. Beside the copies that the first GPU writes, the method tells those that it
reads (read_gb_s) and, once for each pair, both directions at once from one common start, each written by the GPU whose
data it is (both_gb_s, their sum). One buffer of 512 MiB is copied again and again, a train of copies behind the gate.
What arrived is copied back and its checksum compared with that of what was sent. Each GPU reaches the other's memory
(peer access) where the driver lets it; where it does not, copies go through the host's memory, and there is no chain of
reads. The chain is one random ring through 2 MiB, a read a line; where it must end is known.
"""

from __future__ import annotations

import random
import struct
from contextlib import ExitStack, contextmanager
from ctypes import c_uint32
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpustack.bench.lab import Job, Lab

SIZE, SHARE = 512 << 20, 256 << 20
STEP, LARGEST_PART = 1 << 16, 4  # a quarter of what is free is used
RING = 2 << 20
LINE = 128
WORD = 8
READS = 2048
PEERS = "nvidia-smi topo -p2p r"


@contextmanager
def bandwidth(lab: Lab, company: Sequence[int]) -> Iterator[list[Job]]:
    """Return the copy from this GPU to another."""
    pair = lab.several.pair(company[0])
    size = pair.room(SIZE)
    if not size:
        lab.skip("one of the two GPUs has next to no free memory", "nvidia-smi")
    here, there = pair.here, pair.there
    with (
        here.memory(size) as source,
        here.memory(size) as back,
        there.memory(size) as target,
        there.memory(size) as far,
    ):
        lab.fill(source)
        sent = lab.sums(source)
        pair.write(far, source)
        copies = pair.crossing((source, back), (target, far), both=lab.gpu < company[0])

        def check() -> str | None:
            lab.settle()
            there.clear(target)
            copies.write()
            lab.settle()
            here.clear(back)
            pair.write(back, target)
            return None if lab.sums(back) == sent else f"GPU {there.ordinal} did not get what GPU {here.ordinal} sent"

        yield [
            lab.job(
                "copy engine of the first GPU, writing",
                size,
                copies.write,
                check,
                sampler=copies,
                gated=not pair.refused,
                bytes=size,
                traffic="written to the other GPU",
                peer_access="refused" if pair.refused else "enabled",
                refused=pair.refused,
            )
        ]


@contextmanager
def latency(lab: Lab, company: Sequence[int]) -> Iterator[list[Job]]:
    """Return the chain of reads of another GPU's memory."""
    pair = lab.several.pair(company[0])
    if pair.refused:
        lab.skip(f"no peer access: {pair.refused}", PEERS)
    ring, last = _ring(RING // LINE)
    with pair.here.memory(RING) as near, pair.there.memory(RING) as far, lab.memory(WORD) as at:
        lab.put(near, ring)
        pair.write(far, near)
        lab.clear(at)
        run = lab.launcher("pcie", "chase", 1, 1, [far, c_uint32(READS), at])

        def check() -> str | None:
            lab.clear(at)
            run()
            (found,) = struct.unpack("Q", lab.bytes_of(at, 0, WORD))
            return None if found == last else f"the chain of reads led to place {found}, not to {last}"

        label = f"one thread, {READS} dependent reads"
        yield [lab.job(label, READS, run, check, bytes=RING, kernels=lab.how("pcie"), peer_access="enabled")]


@contextmanager
def all_to_all(lab: Lab, company: Sequence[int]) -> Iterator[list[Job]]:
    """Return the copies from each GPU to every other, all at once."""
    sites, refused = lab.several.everybody(company)
    if refused:
        lab.skip(f"no peer access: {refused}", PEERS)
    count = len(sites)
    size = min(SHARE, *(site.room() * LARGEST_PART // (2 * count) for site in sites)) // STEP * STEP
    if not size:
        lab.skip("one of the GPUs has next to no free memory", "nvidia-smi")
    with ExitStack() as stack:
        held = [
            (
                stack.enter_context(site.memory(size)),
                [stack.enter_context(site.memory(size)) for _ in range(count - 1)],
            )
            for site in sites
        ]
        scratch, sent = stack.enter_context(lab.memory(size)), []
        pair = lab.several.pair(company[0])
        for source, _ in held:
            lab.fill(scratch)
            sent.append(lab.sums(scratch))
            pair.write(source, scratch)
            lab.settle()
        copies = lab.several.crowd(sites, held)

        def check() -> str | None:
            for site, (_, targets) in zip(sites, held, strict=True):
                for target in targets:
                    site.clear(target)
            copies.run()
            lab.settle()
            for place, (site, (_, targets)) in enumerate(zip(sites, held, strict=True)):
                for step, target in enumerate(targets, 1):
                    pair.write(scratch, target)
                    lab.settle()
                    if lab.sums(scratch) != sent[place - step]:
                        return f"GPU {site.ordinal} did not get what GPU {sites[place - step].ordinal} sent"
            return None

        yield [
            lab.job(
                "copy engine of each GPU, writing to the others in turn",
                copies.moved,
                copies.run,
                check,
                sampler=copies,
                bytes=size,
                traffic="written to other GPUs",
                peer_access="enabled",
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


BENCHES = {
    "p2p.bandwidth": {
        "title": "GPU to GPU",
        "unit": "GB/s",
        "limit": "p2p.copy",
        "scope": "pair",
        "budget": 0.6,
        "prepare": bandwidth,
    },
    "p2p.all_to_all": {
        "title": "each GPU to every other, all at once",
        "unit": "GB/s",
        "limit": "p2p.every",
        "scope": "all",
        "budget": 0.4,
        "prepare": all_to_all,
    },
    "p2p.latency": {
        "title": "one read of another GPU's memory",
        "unit": "ns",
        "limit": "p2p.latency",
        "scope": "pair",
        "budget": 0.4,
        "prepare": latency,
        "quick": False,
    },
}
