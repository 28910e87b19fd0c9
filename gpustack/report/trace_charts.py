"""Drawings of a trace: the layers under the roofline, the time of each batch, and its timeline as a file for Perfetto.

That file, also for chrome://tracing, is in the Trace Event Format, a JSON object:
https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU. Times are in microseconds; events of
one thread must be nested or disjoint, so overlapping ones get threads of their own.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import ceil, floor, log10
from typing import TypeAlias

from gpustack.model import record
from gpustack.model.trace import Figure, Moment, State, Trace
from gpustack.model.writing import plain
from gpustack.report.page import safe, tag
from gpustack.report.trace_words import BOUND, duration, figure, headline, limit, model, three

WIDE, HIGH = 640, 410
LEFT, RIGHT, TOP, BOTTOM = 108, 16, 16, 84
MOST_DECADES = 6
LEAST = 1e-12


@record
class Frame:
    """The decades of both axes."""

    x: tuple[int, int]
    y: tuple[int, int]

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Return the position of a point on the drawing, kept within it."""
        across = (log10(max(x, LEAST)) - self.x[0]) / (self.x[1] - self.x[0])
        up = (log10(max(y, LEAST)) - self.y[0]) / (self.y[1] - self.y[0])
        across, up = min(max(across, 0.0), 1.0), min(max(up, 0.0), 1.0)
        return LEFT + across * (WIDE - LEFT - RIGHT), HIGH - BOTTOM - up * (HIGH - TOP - BOTTOM)


def roofline(trace: Trace) -> str:
    """Return the layers under the limits of memory and arithmetic, or nothing if too little is known."""
    memory, peak, cache = map(limit, (trace.memory_ceiling, trace.compute_ceiling, trace.cache_ceiling))
    if not memory or not peak:
        return ""
    unit, scale = ("TFLOP/s", 1.0) if peak >= 1 else ("GFLOP/s", 1e3)
    points = [
        (one, one.intensity, scale * (one.tflops or 0.0)) for one in trace.layers if _real(one.intensity, one.tflops)
    ]
    if not points:
        return ""
    compute, memory, cache = scale * peak, scale * memory / 1e3, scale * (cache or 0.0) / 1e3  # both per FLOP/byte
    ridge = compute / memory
    frame = Frame(x=_decades([*(x for _, x, _ in points), ridge]), y=_decades([*(y for _, _, y in points), compute]))
    drawn = [*_axes(frame, "operations per byte moved (FLOP/byte)", unit)]
    drawn += [_roof(frame, cache, compute, "roof cache")] if cache else []
    drawn += [_roof(frame, memory, compute, "roof")]
    for one, x, y in points:
        left, top = frame.at(x, y)
        kind = one.bound.value if one.bound else "memory"
        said = f"{one.name}: {three(y)} {unit} at {three(x)} FLOP/byte, {duration(one.seconds)}"
        drawn.append(
            f'<circle class="point {kind}" cx="{left:.1f}" cy="{top:.1f}" r="6"><title>{safe(said)}</title></circle>'
        )
    kinds = dict.fromkeys(one.bound for one, _, _ in points if one.bound)
    keys = [(one.value, f"layer bound by {BOUND[one]}") for one in kinds]
    keys += [("roof", f"limit: memory {_bandwidth(trace.memory_ceiling)}, arithmetic {three(compute)} {unit}")]
    keys += [("roof cache", f"limit of the cache: {_bandwidth(trace.cache_ceiling)}")] if cache else []
    return _chart("Layers under the roofline", drawn, keys)


def _bandwidth(one: Figure | None) -> str:
    return f"{three(limit(one) or 0.0)} GB/s"


def _roof(frame: Frame, slope: float, compute: float, kind: str) -> str:
    """Return the line of a bandwidth, as operations per second at each FLOP/byte, up to the arithmetic peak."""
    begin = max(10.0 ** frame.x[0], 10.0 ** frame.y[0] / slope)
    corner, end = min(compute / slope, 10.0 ** frame.x[1]), 10.0 ** frame.x[1]
    places = (frame.at(begin, begin * slope), frame.at(corner, compute), frame.at(end, compute))
    return f'<polyline class="{kind}" points="{_points(places)}"/>'


def times(trace: Trace) -> str:
    """Return the time of each batch on the CPU and on the GPU, or nothing if fewer than two batches are known."""
    if not trace.crossover:
        return ""
    kinds = {
        "cpu": [(one.batch, one.cpu_seconds) for one in trace.crossover.points if _real(one.cpu_seconds)],
        "gpu": [(one.batch, one.gpu_seconds) for one in trace.crossover.points if _real(one.gpu_seconds)],
    }
    every = [pair for held in kinds.values() for pair in held]
    if any(len(held) < 2 for held in kinds.values()):  # noqa: PLR2004 - a line has two ends
        return ""
    frame = Frame(x=_decades([x for x, _ in every]), y=_decades([1e3 * (y or 0.0) for _, y in every]))
    drawn = list(_axes(frame, "inputs per batch", "time per batch in ms"))
    for kind, held in kinds.items():
        places = [frame.at(x, 1e3 * (y or 0.0)) for x, y in held]
        drawn.append(f'<polyline class="{kind}" points="{_points(places)}"/>')
        drawn += [f'<circle class="point {kind}" cx="{x:.1f}" cy="{y:.1f}" r="5"/>' for x, y in places]
    return _chart("Time per batch", drawn, [("cpu", "CPU"), ("gpu", "GPU")])


def _chart(label: str, drawn: Sequence[str], keys: Sequence[tuple[str, str]]) -> str:
    box = f'viewBox="0 0 {WIDE} {HIGH}"'
    svg = f'<svg role="img" aria-label="{safe(label)}" {box}>{"".join(drawn)}</svg>'
    items = "".join(tag("li", f"<i></i>{safe(said)}", kind) for kind, said in keys)
    return tag("div", svg + tag("ul", items, "key"), "card chart")


def _axes(frame: Frame, across: str, up: str) -> Iterator[str]:
    """Yield a line and a number for each power of ten, fewer if there are many, and the titles of both axes."""
    middle = (TOP + HIGH - BOTTOM) / 2
    yield f'<text x="{(LEFT + WIDE - RIGHT) / 2}" y="{HIGH - 10}" text-anchor="middle">{safe(across)}</text>'
    turned = f'transform="rotate(-90 24 {middle})" text-anchor="middle"'
    yield f'<text x="24" y="{middle}" {turned}>{safe(up)}</text>'
    for number in _marks(frame.x):
        x, _ = frame.at(10.0**number, 1.0)
        yield f'<line class="axis" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{HIGH - BOTTOM}"/>'
        anchor = "end" if number == frame.x[1] else "middle"
        yield f'<text x="{x:.1f}" y="{HIGH - BOTTOM + 34}" text-anchor="{anchor}">{_power(number)}</text>'
    for number in _marks(frame.y):
        _, y = frame.at(1.0, 10.0**number)
        yield f'<line class="axis" x1="{LEFT}" x2="{WIDE - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield f'<text x="{LEFT - 8}" y="{y + 5:.1f}" text-anchor="end">{_power(number)}</text>'


def _marks(ends: tuple[int, int]) -> range:
    return range(ends[0], ends[1] + 1, max(1, ceil((ends[1] - ends[0]) / MOST_DECADES)))


def _power(number: int) -> str:
    return f"{10**number:,}" if 0 <= number <= 4 else f"{10.0**number:g}"  # noqa: PLR2004 - 10,000 is still read at a glance


def _real(*values: float | None) -> bool:
    """Return whether all of these can be drawn on a logarithmic scale."""
    return all(one is not None and one - one == 0 and one > 0 for one in values)


def _decades(values: Sequence[float]) -> tuple[int, int]:
    low, high = floor(log10(max(min(values), LEAST))), ceil(log10(max(*values, LEAST)))
    return low, max(high, low + 1)


def _points(places: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in places)


Event: TypeAlias = "dict[str, object]"
PROCESS = 1
STEPS = "the seven steps"
MICRO = 1e6
DIGITS = 3  # nanoseconds
SHORTEST = 1e-9  # seconds: anything shorter is drawn this long


def perfetto(trace: Trace) -> str:
    """Return the JSON text of the file."""
    lanes = _lanes([*_steps(trace), *trace.timeline])
    about = {"model": model(trace), "result": headline(trace), "made by": f"gpustack {trace.tool.version}"}
    held = {"traceEvents": [*_names(trace, lanes), *_events(lanes, trace)], "displayTimeUnit": "ns", "otherData": about}
    return json.dumps(plain(held), indent=1, allow_nan=False).replace("\x7f", "\\u007f") + "\n"


def _steps(trace: Trace) -> Iterator[Moment]:
    """Yield the steps as consecutive moments, each beginning where the timeline says."""
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
    """Return the threads: one for each track, and more if moments of one track overlap."""
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
    """Return whether a moment is after the others of a thread, or within those still open."""
    return all(_end(one) <= _end(other) or _begin(one) >= _end(other) for other in lane)


def _begin(one: Moment) -> float:
    return round(max(one.begin, 0.0) * MICRO, DIGITS)


def _end(one: Moment) -> float:
    return round(_begin(one) + _long(one), DIGITS)


def _long(one: Moment) -> float:
    return round(max(one.seconds, SHORTEST) * MICRO, DIGITS)


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
                "cat": f"step {one.step}" if one.step else "outside the steps",
                "ph": "X",
                "ts": _begin(one),
                "dur": _long(one),
                "pid": PROCESS,
                "tid": number,
                "args": {name: held for name, held in args.items() if held is not None},
            }
