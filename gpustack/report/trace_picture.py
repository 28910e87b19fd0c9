"""The machine as a drawing: memory of the host, link, memory of the GPU, multiprocessors, and back, with the figures.

Drawn twice, side by side for wide pages and one below another for phones: words of a drawing cannot wrap.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpustack.model.trace import State
from gpustack.report.page import safe, tag
from gpustack.report.trace_words import SIZES, amount, checking, copying, duration, limit, percent, scaled, shape, three

if TYPE_CHECKING:
    from gpustack.model.trace import Figure, Step, Trace

LINE = 17  # between two lines of words
PAD = 12
UNIT, GAP = 7, 2  # of the small squares that are multiprocessors
MOST_UNITS = 160
LONGEST = 34  # letters of a line in a box


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """Where a place of the machine is drawn."""

    x: int
    y: int
    width: int
    height: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """Where an arrow is drawn, and where its words begin."""

    start: tuple[int, int]
    end: tuple[int, int]
    words: tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One arrangement of the machine."""

    name: str
    size: tuple[int, int]
    boxes: Mapping[str, Box]
    ways: Mapping[str, Way]
    gpu: Box | None = None


WIDE = Plan(
    name="wide",
    size=(1000, 266),
    boxes={
        "host": Box(x=4, y=44, width=236, height=176),
        "memory": Box(x=404, y=44, width=226, height=176),
        "units": Box(x=762, y=44, width=226, height=176),
    },
    gpu=Box(x=392, y=12, width=604, height=246),
    ways={
        "in": Way(start=(244, 106), end=(400, 106), words=(250, 46)),
        "read": Way(start=(634, 106), end=(758, 106), words=(640, 64)),
        "write": Way(start=(758, 150), end=(634, 150), words=(640, 170)),
        "out": Way(start=(400, 150), end=(244, 150), words=(250, 170)),
    },
)
TALL = Plan(
    name="tall",
    size=(340, 744),
    boxes={
        "host": Box(x=42, y=6, width=256, height=150),
        "memory": Box(x=42, y=286, width=256, height=150),
        "units": Box(x=42, y=548, width=256, height=158),
    },
    gpu=Box(x=26, y=260, width=288, height=478),
    ways={
        "in": Way(start=(58, 160), end=(58, 282), words=(68, 182)),
        "out": Way(start=(196, 282), end=(196, 160), words=(206, 182)),
        "read": Way(start=(58, 440), end=(58, 544), words=(68, 470)),
        "write": Way(start=(196, 544), end=(196, 440), words=(206, 470)),
    },
)
CPU_WIDE = Plan(
    name="wide",
    size=(1000, 150),
    boxes={"host": Box(x=4, y=12, width=300, height=126), "cpu": Box(x=560, y=12, width=436, height=126)},
    ways={
        "read": Way(start=(310, 62), end=(554, 62), words=(330, 36)),
        "write": Way(start=(554, 124), end=(310, 124), words=(330, 98)),
    },
)
CPU_TALL = Plan(
    name="tall",
    size=(340, 360),
    boxes={"host": Box(x=6, y=6, width=328, height=126), "cpu": Box(x=6, y=228, width=328, height=126)},
    ways={
        "read": Way(start=(58, 136), end=(58, 224), words=(68, 182)),
        "write": Way(start=(196, 224), end=(196, 136), words=(206, 182)),
    },
)
BENCH = "pcie."  # so begin the figures of the bench, which stand beside the model's own
STEP_AT = {
    "host": (1,),
    "in": (2,),
    "memory": (3,),
    "units": (4,),
    "read": (5,),
    "write": (6,),
    "out": (7,),
    "cpu": (5,),
}


def picture(trace: Trace) -> str:
    """Return both drawings in their card; of a model that the CPU ran alone, without a GPU."""
    plans = (CPU_WIDE, CPU_TALL) if _on_cpu(trace) else (WIDE, TALL)
    return tag("div", "".join(_drawn(trace, plan) for plan in plans), "card machine")


def _drawn(trace: Trace, plan: Plan) -> str:
    said = words(trace)
    parts = list[str]()
    if plan.gpu:
        name = trace.device.name if trace.device else "GPU"
        parts = [_rect(plan.gpu, "gpu"), _text(plan.gpu.x + 16, plan.gpu.y + plan.gpu.height - 11, name, "soft")]
    parts += [_box(plan.boxes[name], said[name], trace, name) for name in plan.boxes]
    parts += [_way(plan.ways[name], said[name], trace, name) for name in plan.ways]
    wide, high = plan.size
    label = "The model's path through the machine"
    return (
        f'<svg class="{plan.name}" role="img" aria-label="{label}" viewBox="0 0 {wide} {high}">{"".join(parts)}</svg>'
    )


def words(trace: Trace) -> Mapping[str, Sequence[str]]:
    """Return what is shown at each place and arrow; in a box the first line is its name."""
    one = trace.subject
    loaded = scaled(one.weight_bytes, SIZES) if one.weight_bytes else ""
    checked, cpu = checking(_step(trace, 7)), _on_cpu(trace)
    error = next((f"error {max(check.error, check.largest):.2g}" for check in trace.checks), "")
    units = trace.device.multiprocessors if trace.device else None
    return {
        "host": _full(
            "Memory of the host (RAM)",
            _timed(trace, 1, "made"),
            f"weights {loaded}" if loaded else "",
            f"input {shape(one.input_shape)}",
            f"7: checked, {duration(checked)}" if checked else "",
            f"answer: {error}" if error else "",
            _limit(trace.memory_ceiling) if cpu else "",
        ),
        "cpu": _full(
            f"CPU, {trace.processor.threads} threads" if trace.processor else "CPU",
            trace.processor.name if trace.processor else "",
            f"{len(trace.layers)} layers" if trace.layers else "",
            _moved(trace),
            _limit(trace.compute_ceiling),
        ),
        "in": _full("2: copied", duration(copying(trace, 2)), *_speed(trace, 2)),
        "memory": _full("Memory of the GPU (VRAM)", _timed(trace, 3, "prepared"), _limit(trace.memory_ceiling)),
        "units": _full(
            f"{units} multiprocessors (SMs)" if units else "Multiprocessors (SMs)",
            _timed(trace, 4, f"{len(trace.kernels)} kernels" if trace.kernels else "kernels"),
            _occupied(trace),
            _limit(trace.compute_ceiling),
        ),
        "read": _full(*_timed(trace, 5, "tensors").split(", "), "" if cpu else _moved(trace)),
        "write": _full(*_timed(trace, 6, "output").split(", ")),
        "out": _full("7: copied back", duration(copying(trace, 7)), *_speed(trace, 7)),
    }


def _full(*lines: str) -> tuple[str, ...]:
    return tuple(line for line in lines if line)


def _step(trace: Trace, number: int) -> Step | None:
    return next((step for step in trace.steps if step.number == number), None)


def _timed(trace: Trace, number: int, word: str) -> str:
    """Return a step by its number, in a word and its time."""
    step = _step(trace, number)
    if step is None or step.seconds is None:
        return f"{number}: {word}"
    return f"{number}: {word}, {duration(step.seconds)}"


def _speed(trace: Trace, number: int) -> Iterator[str]:
    """Yield the bandwidth of a copy of the model's own and its part of the link's."""
    step = _step(trace, number)
    speeds = [one for one in (step.figures if step else ()) if one.unit == "GB/s" and one.name[:5] != BENCH]
    best = max(speeds, key=lambda one: one.value, default=None)
    if best:
        yield f"{three(best.value)} GB/s"
        if best.ratio is not None:
            yield f"{percent(best.ratio)} of the link"


def _limit(one: Figure | None) -> str:
    most = limit(one)
    return f"at most {amount(most, one.unit)}" if one and most else ""


def _occupied(trace: Trace) -> str:
    known = [one.occupancy for one in trace.kernels if one.occupancy is not None]
    ends = dict.fromkeys((percent(min(known)), percent(max(known)))) if known else {}
    return f"occupancy {' to '.join(ends)}" if ends else ""


def _moved(trace: Trace) -> str:
    moved = sum(one.bytes_read + one.bytes_written for one in trace.layers)
    return f"{scaled(moved, SIZES)} moved" if moved else ""


def _on_cpu(trace: Trace) -> bool:
    step = _step(trace, 5)
    return trace.device is None and step is not None and step.seconds is not None


def _class(trace: Trace, name: str) -> str:
    steps = [step for step in trace.steps if step.number in STEP_AT[name]]
    if any(step.status is State.FAILED for step in steps):
        return "failed"
    return "" if any(step.status is State.DONE for step in steps) else "idle"


def _box(box: Box, lines: Sequence[str], trace: Trace, name: str) -> str:
    head, *rest = lines
    parts = [_rect(box, "place"), _text(box.x + PAD, box.y + PAD + 11, head, "name")]
    parts += [_text(box.x + PAD, box.y + PAD + 13 + LINE * row, line) for row, line in enumerate(rest, 1)]
    if name == "units":
        parts += _units(box, trace)
    return _group(parts, _class(trace, name))


def _units(box: Box, trace: Trace) -> Iterator[str]:
    """Yield the multiprocessors as small squares along the lower edge; those with blocks in the first wave are lit."""
    count = min((trace.device.multiprocessors if trace.device else 0) or MOST_UNITS, MOST_UNITS)
    waves = max((one.waves for one in trace.kernels if one.waves is not None), default=0.0)
    lit = round(count * min(waves, 1.0))
    row = (box.width - 2 * PAD + GAP) // (UNIT + GAP)
    rows = -(-count // row)
    for number in range(count):
        x = box.x + PAD + number % row * (UNIT + GAP)
        y = box.y + box.height - PAD - (rows - number // row) * (UNIT + GAP) + GAP
        yield _rect(Box(x=x, y=y, width=UNIT, height=UNIT), "unit busy" if number < lit else "unit")


def _way(way: Way, lines: Sequence[str], trace: Trace, name: str) -> str:
    (x1, y1), (x2, y2) = way.start, way.end
    across, down = (x2 > x1) - (x2 < x1), (y2 > y1) - (y2 < y1)
    back_x, back_y = x2 - 9 * across, y2 - 9 * down
    corners = ((x2, y2), (back_x - 5 * down, back_y - 5 * across), (back_x + 5 * down, back_y + 5 * across))
    tip = " ".join(f"{x},{y}" for x, y in corners)
    parts = [
        f'<line class="way" x1="{x1}" y1="{y1}" x2="{back_x}" y2="{back_y}"/>',
        f'<polygon class="tip" points="{tip}"/>',
    ]
    left, top = way.words
    parts += [_text(left, top + LINE * row, line) for row, line in enumerate(lines)]
    return _group(parts, _class(trace, name))


def _group(parts: Sequence[str], class_: str) -> str:
    return tag("g", "".join(parts), class_)


def _rect(box: Box, class_: str) -> str:
    corner = 2 if class_.startswith("unit") else 6
    size = f'x="{box.x}" y="{box.y}" width="{box.width}" height="{box.height}" rx="{corner}"'
    return f'<rect class="{class_}" {size}/>'


def _text(x: int, y: int, said: str, class_: str = "") -> str:
    kind = f' class="{class_}"' if class_ else ""
    shown = said if len(said) <= LONGEST else f"{said[: LONGEST - 1]}…"
    return f'<text x="{x}" y="{y}"{kind}>{safe(shown)}</text>'
