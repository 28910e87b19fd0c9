"""A trace as one HTML file that loads nothing: the picture of the machine, the steps, the roofline, the layers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from gpustack.model.trace import Figure, State, Step, Trace
from gpustack.report import stack_html, trace_charts
from gpustack.report import trace_words as words
from gpustack.report.page import bullets, document, recorded, safe, section, table, tag

TONES = {State.DONE: "good", State.FAILED: "bad", State.SKIPPED: "none", State.NEEDS_GPU: "none"}
LAYER = ("layer", "in", "out", "time", "FLOP/byte", "reached", "of limit", "bound by")
KERNEL = ("kernel", "grid", "block", "warps", "registers", "shared", "occupancy", "waves", "units", "time")
BATCH = ("batch", "CPU", "GPU", "kernels", "copies")
BENCH = "pcie."  # prefix of the bench's figures, shown beside the model's own
MOST_UNITS = 160  # squares drawn for multiprocessors
PLACES = {"host": 1, "in": 2, "memory": 3, "units": 4, "read": 5, "write": 6, "out": 7, "cpu": 5}  # each with its step
SHARES = tag("ul", '<li class="share"><i></i>bar: share of the time of all steps</li>', "key")
WORDS = {State.DONE: "done", State.FAILED: "failed", State.SKIPPED: "trace", State.NEEDS_GPU: "trace"}


def render(trace: Trace) -> str:
    """Return the page."""
    return document(
        f"gpustack trace: {words.headline(trace)}",
        "\n".join(filter(None, _parts(trace))),
        "finding",
        "report",
        "picture",
        "charts",
        "trace",
    )


def _parts(trace: Trace) -> Iterator[str]:
    yield _head(trace)
    yield section("The path through the machine", picture(trace))
    every = words.whole(trace)
    items = "".join(tag("li", _step(step, every), f"tone-{TONES[step.status]}") for step in trace.steps)
    yield section("The seven steps", tag("div", tag("ol", items, "steps"), "card") + SHARES)
    yield section("What was found", stack_html.blocks([(one, ()) for one in trace.findings]))
    yield section("Under the roofline", trace_charts.roofline(trace))
    yield _folded("Layers, in execution order", _layers(trace))
    yield _folded("Kernels", _kernels(trace))
    yield _folded("Compared", _compared(trace))
    yield _folded("CPU or GPU", _crossover(trace))
    rows = "".join(
        tag("dt", safe(one.layer.value)) + tag("dd", safe(words.link(one)), "bad" if one.missing else "")
        for one in trace.chain
    )
    yield _folded("From the script down to the kernel", tag("div", tag("dl", rows, "facts"), "card") if rows else "")
    more = ", ".join(words.TERMS)
    yield tag("p", safe(f"gpustack explain WORD explains a term: {more}."), "soft about")
    yield tag("p", safe(f"gpustack {trace.tool.version}, {recorded(trace.taken)}, {trace.seconds:.1f} s"), "soft about")


def _folded(heading: str, inside: str) -> str:
    """Return a long, folded part of the page; it prints as the reader left it."""
    return tag("section", tag("details", tag("summary", tag("h2", heading)) + inside)) if inside else ""


def _head(trace: Trace) -> str:
    came, said = words.state(trace), words.headline(trace)
    about = (
        words.model(trace),
        words.ground(trace),
        f"stopped early: {trace.interrupted}" if trace.interrupted else "",
    )
    inside = tag("span", WORDS[came], "badge") + tag("h1", safe(f"{said[:1].upper()}{said[1:]}"))
    inside += "".join(tag("p", safe(line), "soft") for line in about if line)
    if trace.stop:
        inside += tag("p", safe(f"{trace.stop.why[:1].upper()}{trace.stop.why[1:]}."))
        inside += tag("pre", safe(trace.stop.explain))
    tone = "ask" if came is State.SKIPPED else TONES[came]
    return tag("header", inside, f"card top tone-{tone}")


def _step(step: Step, every: float | None) -> str:
    part = words.share(step.seconds, every)
    told = words.duration(step.seconds) if step.seconds is not None else words.STATES[step.status][1]
    full = None if part is None else min(max(part, 0.0), 1.0)
    said = [*map(words.figure, step.figures), *step.why, *map(words.link, step.libraries)]
    names = tag("b", str(step.number)) + tag("b", safe(step.name))
    return tag("div", names + _meter(full, told, words.percent(part)), "step") + bullets(map(safe, said), "said")


def _meter(full: float | None, told: str, part: str = "") -> str:
    """Return a share as a bar, nothing if it is unknown, the time in words, and the percentage."""
    bar = tag("span", "", "none") if full is None else f'<span class="meter"><i style="width:{full:.1%}"></i></span>'
    return bar + tag("span", safe(told), "num") + tag("span", safe(part), "num part")


def _layers(trace: Trace) -> str:
    rows = []
    for one in trace.layers:
        name, *figures = words.layer(one, trace)
        rows.append((name, words.shape(one.shape_in), words.shape(one.shape_out), *figures))
    told = words.bounds(trace)
    meant = tag("p", safe(f"{told[:1].upper()}{told[1:]}."), "soft about") if told else ""
    return _table(LAYER, rows) + meant


def _kernels(trace: Trace) -> str:
    rows = []
    for one in trace.kernels:
        name, grid, block, *known = words.kernel(one)
        rows.append((name, grid, block, words.count(one.warps), *known, words.duration(one.seconds)))
    notes = dict.fromkeys(f"{one.layer}: {one.note}" for one in trace.kernels if one.note)
    return _table(KERNEL, rows) + "".join(tag("p", safe(note), "soft about") for note in notes)


def _compared(trace: Trace) -> str:
    """Return eager beside graph and serial beside overlapped as bars, and how accurate the result is."""
    made = []
    if (one := trace.launching) is not None:
        made.append(_pair(f"{one.kernels} kernels", ("eager", one.eager_seconds), ("CUDA graph", one.graph_seconds)))
    if (both := trace.overlap) is not None:
        named = f"copies and kernels, {both.chunks} chunks over {both.streams} streams"
        made.append(_pair(named, ("one by one", both.serial_seconds), ("at once", both.overlapped_seconds)))
        made += [tag("p", safe(both.note), "soft about")] if both.note else []
    made += [tag("p", safe(line)) for line in words.checks(trace)]
    return tag("div", "".join(made), "card") if made else ""


def _pair(named: str, *both: tuple[str, float]) -> str:
    most = max(seconds for _, seconds in both) or 1.0
    rows = "".join(
        tag("div", tag("b", "") + tag("span", safe(name)) + _meter(one / most, words.duration(one)), "step tone-good")
        for name, one in both
    )
    return tag("h3", safe(named)) + rows


def _crossover(trace: Trace) -> str:
    if not (found := trace.crossover):
        return ""
    said = tag("h3", safe(f"{found.says[:1].upper()}{found.says[1:]}")) + bullets(map(safe, found.why), "plain")
    rows = [words.batch(one)[: len(BATCH)] for one in found.points]
    return tag("div", said, "card") + trace_charts.times(trace) + _table(BATCH, rows)


def _table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return rows below their column names; on a phone each cell shows its name."""
    return tag("div", table(names, (_cells(names, row) for row in rows)), "card wide-rows") if rows else ""


def _cells(names: Sequence[str], row: Sequence[str]) -> Iterator[str]:
    yield tag("td", tag("b", safe(row[0])))
    for name, cell in zip(names[1:], row[1:], strict=True):
        yield f'<td data-name="{safe(name)}">{safe(cell)}</td>' if cell else "<td></td>"


def picture(trace: Trace) -> str:
    """Return the machine with its figures: host memory, link, GPU memory, multiprocessors, and back.

    For a model that only the CPU ran, it is the host memory and the CPU.
    """
    said = words_of(trace)

    def drawn(name: str, kind: str, more: str = "") -> str:
        head, *rest = said[name]
        came = [step.status for step in trace.steps if step.number == PLACES[name]]
        state = "failed" if State.FAILED in came else "" if State.DONE in came else "idle"
        lines = tag("b", safe(head)) + "".join(tag("span", safe(line)) for line in rest)
        return tag("div", lines + more, f"{kind} {state}".rstrip())

    def both(there: str, back: str) -> str:
        return tag("div", drawn(there, "way") + drawn(back, "way back"), "ways")

    if _on_cpu(trace):
        return tag("div", drawn("host", "place") + both("read", "write") + drawn("cpu", "place"), "card machine")
    inside = drawn("memory", "place") + both("read", "write") + drawn("units", "place", _units(trace))
    gpu = tag("div", inside + tag("p", safe(trace.device.name if trace.device else "GPU"), "soft"), "gpu")
    return tag("div", drawn("host", "place") + both("in", "out") + gpu, "card machine")


def words_of(trace: Trace) -> Mapping[str, Sequence[str]]:
    """Return the text at each place and arrow; the first line is its name."""
    one = trace.subject
    checked, cpu = words.checking(_at(trace, 7)), _on_cpu(trace)
    error = next((f"error {max(check.error, check.largest):.2g}" for check in trace.checks), "")
    units = trace.device.multiprocessors if trace.device else None
    bytes_ = sum(layer.bytes_read + layer.bytes_written for layer in trace.layers)
    moved = f"{words.scaled(bytes_, words.SIZES)} moved" if bytes_ else ""
    known = [kernel.occupancy for kernel in trace.kernels if kernel.occupancy is not None]
    ends = dict.fromkeys((words.percent(min(known)), words.percent(max(known)))) if known else {}
    lines = {
        "host": (
            "Memory of the host (RAM)",
            _timed(trace, 1, "made"),
            f"weights {words.scaled(one.weight_bytes, words.SIZES)}" if one.weight_bytes else "",
            f"input {words.shape(one.input_shape)}",
            f"7: checked, {words.duration(checked)}" if checked else "",
            f"answer: {error}" if error else "",
            _limit(trace.memory_ceiling) if cpu else "",
        ),
        "cpu": (
            f"CPU, {trace.processor.threads} threads" if trace.processor else "CPU",
            trace.processor.name if trace.processor else "",
            f"{len(trace.layers)} layers" if trace.layers else "",
            moved,
            _limit(trace.compute_ceiling),
        ),
        "in": ("2: copied", words.duration(words.copying(trace, 2)), *_speed(trace, 2)),
        "memory": ("Memory of the GPU (VRAM)", _timed(trace, 3, "prepared"), _limit(trace.memory_ceiling)),
        "units": (
            f"{units} multiprocessors (SMs)" if units else "Multiprocessors (SMs)",
            _timed(trace, 4, f"{len(trace.kernels)} kernels" if trace.kernels else "kernels"),
            f"occupancy {' to '.join(ends)}" if ends else "",
            _limit(trace.compute_ceiling),
        ),
        "read": (*_timed(trace, 5, "tensors").split(", "), "" if cpu else moved),
        "write": (*_timed(trace, 6, "output").split(", "),),
        "out": ("7: copied back", words.duration(words.copying(trace, 7)), *_speed(trace, 7)),
    }
    return {name: tuple(filter(None, told)) for name, told in lines.items()}


def _at(trace: Trace, number: int) -> Step | None:
    return next((step for step in trace.steps if step.number == number), None)


def _timed(trace: Trace, number: int, word: str) -> str:
    """Return a step by its number, in a word and its time."""
    step = _at(trace, number)
    time = f", {words.duration(step.seconds)}" if step and step.seconds is not None else ""
    return f"{number}: {word}{time}"


def _speed(trace: Trace, number: int) -> Iterator[str]:
    """Yield the bandwidth of one of the model's own copies and its share of the link's."""
    step = _at(trace, number)
    speeds = [one for one in (step.figures if step else ()) if one.unit == "GB/s" and not one.name.startswith(BENCH)]
    if best := max(speeds, key=lambda one: one.value, default=None):
        yield f"{words.three(best.value)} GB/s"
        if best.ratio is not None:
            yield f"{words.percent(best.ratio)} of the link"


def _limit(one: Figure | None) -> str:
    most = words.limit(one)
    return f"at most {words.amount(most, one.unit)}" if one and most else ""


def _on_cpu(trace: Trace) -> bool:
    step = _at(trace, 5)
    return trace.device is None and step is not None and step.seconds is not None


def _units(trace: Trace) -> str:
    """Return the multiprocessors as small squares, those with blocks in the first wave highlighted."""
    count = min((trace.device.multiprocessors if trace.device else 0) or MOST_UNITS, MOST_UNITS)
    waves = max((one.waves for one in trace.kernels if one.waves is not None), default=0.0)
    lit = round(count * min(waves, 1.0))
    return tag("div", '<i class="busy"></i>' * lit + "<i></i>" * (count - lit), "units")
