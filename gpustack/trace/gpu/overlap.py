"""Copies and kernels at the same time: the batch in chunks that go through two streams in turn.

Every chunk is copied in, computed and copied out. On one stream that is one thing after the other; on two, with memory
of its own each, the link brings the next chunk while the multiprocessors work on this one. Both are timed by events,
behind a gate, so that what the host takes to enqueue does not show.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from gpustack.model.difference import Overlap
from gpustack.trace.gpu.story import sized

if TYPE_CHECKING:
    from cuda.core import Event, Stream  # pyright: ignore[reportAttributeAccessIssue] - as in the bench's card

    from gpustack.bench.card import Memory
    from gpustack.trace.gpu.device import Runner, Stage

CHUNKS = (8, 4, 2)  # the first that divides the batch
STREAMS = 2
ROUNDS = 5


@dataclass(slots=True, kw_only=True)
class Lane:
    """One stream with a runner for a chunk, and where its input is copied to and its output from."""

    runner: Runner
    stream: Stream
    into: int
    out: int
    each_in: int
    each_out: int


def chunks(batch: int) -> int:
    """Return into how many chunks a batch is cut; one where it cannot be."""
    return next((count for count in CHUNKS if batch % count == 0), 1)


def overlap(stage: Stage, held: Memory) -> Overlap:
    """Return the times of both; the output of the overlapped run lies in ``held`` afterwards."""
    count = chunks(stage.model.batch)
    with ExitStack() as stack:
        lanes = [_lane(stage, stage.model.batch // count, stack) for _ in range(STREAMS)]
        for lane in lanes:
            lane.runner()
            lane.stream.sync()
        turns = Turns(stage=stage, lanes=lanes, count=count, held=held)
        serial = median(turns.timed(one_stream=True) for _ in range(ROUNDS))
        copies = median(turns.timed(one_stream=True, kernels=False) for _ in range(ROUNDS))
        at_once = median(turns.timed(one_stream=False) for _ in range(ROUNDS))
        return Overlap(
            serial_seconds=serial,
            overlapped_seconds=at_once,
            chunks=count,
            streams=STREAMS,
            copy_seconds=copies,
            compute_seconds=max(0.0, serial - copies),
            note=f"a chunk has {stage.model.batch // count} of the inputs: copied in, computed, output copied out",
        )


@dataclass(slots=True, kw_only=True)
class Turns:
    """The chunks, one after the other, on the first stream alone or on all in turn."""

    stage: Stage
    lanes: list[Lane]
    count: int
    held: Memory

    def timed(self, *, one_stream: bool, kernels: bool = True) -> float:
        """Return the seconds from the first copy to the last."""
        card = self.stage.card
        begin, end, done = card.event(), card.event(), card.event()

        def enqueue() -> None:
            card.record(begin)
            lanes = self.lanes[:1] if one_stream else self.lanes
            self._chunks(lanes, begin, kernels=kernels)
            card.record(end)

        self.stage.gate.through(enqueue, done)
        return card.seconds(begin, end)

    def _chunks(self, lanes: list[Lane], begin: Event, *, kernels: bool) -> None:
        card = self.stage.card
        source = self.stage.pinned.address + self.stage.arena.places[self.stage.model.input.name]
        for lane in lanes:
            lane.stream.wait(begin)
        for number in range(self.count):
            lane = lanes[number % len(lanes)]
            card.to_device(lane.into, source + number * lane.each_in, lane.each_in, lane.stream)
            if kernels:
                lane.runner()
            card.to_host(self.held.address + number * lane.each_out, lane.out, lane.each_out, lane.stream)
        for lane in lanes:
            over = card.event()
            lane.stream.record(over)
            card.after(over)


def _lane(stage: Stage, batch: int, stack: ExitStack) -> Lane:
    """Return a stream with a model for so many inputs, made ready on the card's own, where our timer stands."""
    card = stage.card
    mine = sized(stage, batch, stack.enter_context(card.memory(stage.runner.workspace.size)), stack)
    card.settle()
    mine.stream = stream = card.another()
    mine.prepare(lambda _work, _ways: 0)
    model = mine.model
    return Lane(
        runner=mine,
        stream=stream,
        into=mine.addresses[model.input.name],
        out=mine.addresses[model.output.name],
        each_in=model.input.count * model.width,
        each_out=model.output.count * model.width,
    )
