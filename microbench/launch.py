"""The cost of starting work: a kernel that does nothing, launched by itself and as a node of a graph.

id              unit   formula
launch.kernel   µs     (seconds of 2 N launches - seconds of N) / N, less Python's own part
launch.graph    µs     (seconds of 2 R replays - seconds of R) / (R x nodes replayed)

Each launch depends on the one before, all in one stream. The driver's own functions are called in a loop that runs in
C, with arguments made beforehand; what Python adds to a call is measured by the same loop over a function that does
nothing, subtracted, and reported. The GPU's own part is that of launches queued behind the gate; the figure is the
larger of the host's part and the GPU's. Several equal graphs are replayed in turn, since a graph's place in memory
affects its cost. Every launch of the check counts itself.
"""

from __future__ import annotations

import struct
from contextlib import ExitStack, contextmanager
from ctypes import c_uint64
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from gpustack.bench.calls import Calls
    from gpustack.bench.card import Memory
    from gpustack.bench.lab import Job, Lab

LAUNCHES = 1024
QUEUED = 400  # behind the gate
NODES = 1024
GRAPHS = 4
REPLAYS = 4  # of each graph
BUDGET = 0.4  # host work varies, and more samples hardly help


@contextmanager
def alone(lab: Lab) -> Iterator[list[Job]]:
    """Return the launch of a kernel by itself."""
    with lab.memory(8) as count:
        calls, counting = _launches(lab, 0), _launches(lab, count.address)
        check = _checker(lab, count, lambda: counting(LAUNCHES), LAUNCHES)
        yield [
            lab.job(
                "cuLaunchKernel",
                1,
                lambda: calls(1),
                check,
                sampler=lab.slope(calls, count=LAUNCHES, queued=QUEUED),
                kernels=lab.how("launch"),
                processor=lab.processor,
                numa=lab.place,
            )
        ]


@contextmanager
def graph(lab: Lab) -> Iterator[list[Job]]:
    """Return the replay of graphs whose nodes follow one another."""
    plain = _launches(lab, 0)
    with lab.memory(8) as count, ExitStack() as stack:
        graphs = [stack.enter_context(lab.replays(lambda: plain(NODES))) for _ in range(GRAPHS)]
        calls = replace(graphs[0], steps=[step for one in graphs for step in one.steps])
        counting = _launches(lab, count.address)
        counted = stack.enter_context(lab.replays(lambda: counting(NODES)))
        yield [
            lab.job(
                "cuGraphLaunch",
                NODES * GRAPHS,
                lambda: calls(1),
                _checker(lab, count, lambda: counted(1), NODES),
                sampler=lab.slope(calls, count=REPLAYS, operations=NODES * GRAPHS),
                nodes=NODES,
                graphs=GRAPHS,
                kernels=lab.how("launch"),
                processor=lab.processor,
                numa=lab.place,
            )
        ]


def _launches(lab: Lab, counter: int) -> Calls:
    return lab.launches("launch", "nothing", [c_uint64(counter)])


def _checker(lab: Lab, count: Memory, run: Callable[[], None], wanted: int) -> Callable[[], str | None]:
    def check() -> str | None:
        lab.clear(count)
        run()
        (found,) = struct.unpack("I", lab.bytes_of(count, 0, 4))
        return None if found == wanted else f"{found} of {wanted} launches were run"

    return check


BENCHES = {
    "launch.kernel": {
        "title": "launch of a kernel",
        "unit": "µs",
        "limit": "none",
        "budget": BUDGET,
        "prepare": alone,
    },
    "launch.graph": {
        "title": "launch of a node of a graph",
        "unit": "µs",
        "limit": "none",
        "budget": BUDGET,
        "prepare": graph,
        "quick": False,
    },
}
