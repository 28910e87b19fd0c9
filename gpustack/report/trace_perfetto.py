"""A trace as a file for Perfetto and chrome://tracing: the Trace Event Format, as a JSON object.

The format: https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU. Times are in microseconds;
events of one thread must lie within one another or apart, so what overlaps gets a thread of its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from gpustack.model.plain import plain
from gpustack.model.trace import Moment, State
from gpustack.report.trace_words import figure, headline, model

if TYPE_CHECKING:
    from gpustack.model.trace import Trace

Event: TypeAlias = "dict[str, object]"
PROCESS = 1
STEPS = "the seven steps"
MICRO = 1e6
DIGITS = 3  # nanoseconds
LEAST = 1e-9  # seconds: what is shorter is drawn so long


def render(trace: Trace) -> str:
    """Return the JSON text of the file."""
    lanes = _lanes([*_steps(trace), *trace.timeline])
    about = {"model": model(trace), "result": headline(trace), "made by": f"gpustack {trace.tool.version}"}
    held = {
        "traceEvents": [*_names(trace, lanes), *_events(lanes, trace)],
        "displayTimeUnit": "ns",
        "otherData": about,
    }
    return json.dumps(plain(held), indent=1, allow_nan=False).replace("\x7f", "\\u007f") + "\n"


def _steps(trace: Trace) -> Iterator[Moment]:
    """Yield the steps as moments one after the other, each beginning where the timeline says that it did."""
    end = 0.0
    for step in trace.steps:
        if step.status is State.DONE and step.seconds is not None:
            begins = (one.begin for one in trace.timeline if one.step == step.number)
            begin = max(end, min(begins, default=end))
            yield Moment(
                track=STEPS, name=f"{step.number} {step.name}", begin=begin, seconds=step.seconds, step=step.number
            )
            end = begin + step.seconds


def _lanes(moments: Sequence[Moment]) -> list[tuple[str, list[Moment]]]:
    """Return the threads: one for each track, and more where moments of one track overlap."""
    lanes: dict[tuple[str, int], list[Moment]] = {}
    for one in sorted(moments, key=lambda held: (held.begin, -held.seconds)):
        number = 1
        while (lane := lanes.setdefault((one.track, number), [])) and not _fits(one, lane):
            number += 1
        lane.append(one)
    order = list(dict.fromkeys(one.track for one in moments))
    named = sorted(lanes.items(), key=lambda item: (order.index(item[0][0]), item[0][1]))
    return [(track if number == 1 else f"{track} ({number})", held) for (track, number), held in named]


def _fits(one: Moment, lane: Sequence[Moment]) -> bool:
    """Tell whether a moment lies after the others of a thread, or within those that are still open."""
    return all(_end(one) <= _end(other) or _begin(one) >= _end(other) for other in lane)


def _begin(one: Moment) -> float:
    return round(max(one.begin, 0.0) * MICRO, DIGITS)


def _end(one: Moment) -> float:
    return round(_begin(one) + _long(one), DIGITS)


def _long(one: Moment) -> float:
    return round(max(one.seconds, LEAST) * MICRO, DIGITS)


def _names(trace: Trace, lanes: Iterable[tuple[str, Sequence[Moment]]]) -> Iterator[Event]:
    """Yield the name of the process, and the name and place of each thread."""
    named = f"gpustack trace: {trace.subject.name}, {trace.subject.size}, {trace.subject.precision}"
    yield _about("process_name", 0, {"name": named})
    for number, (track, _) in enumerate(lanes, 1):
        yield _about("thread_name", number, {"name": track})
        yield _about("thread_sort_index", number, {"sort_index": number})


def _about(name: str, thread: int, what: Mapping[str, object]) -> Event:
    return {"name": name, "ph": "M", "pid": PROCESS, "tid": thread, "args": dict(what)}


def _events(lanes: Iterable[tuple[str, Sequence[Moment]]], trace: Trace) -> Iterator[Event]:
    told = {f"{step.number} {step.name}": "; ".join(map(figure, step.figures)) for step in trace.steps}
    for number, (_, moments) in enumerate(lanes, 1):
        for one in moments:
            detail = one.detail or (told.get(one.name) if one.track == STEPS else None)
            args = {"step": one.step, "detail": detail}
            yield {
                "name": one.name,
                "cat": f"step {one.step}" if one.step else "beside the steps",
                "ph": "X",
                "ts": _begin(one),
                "dur": _long(one),
                "pid": PROCESS,
                "tid": number,
                "args": {name: held for name, held in args.items() if held is not None},
            }
