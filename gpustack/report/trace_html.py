"""A trace as one HTML file that loads nothing: the picture of the machine, the steps, the roofline, the layers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from gpustack.model.trace import State
from gpustack.report import stack_html, trace_charts, trace_picture
from gpustack.report import trace_words as words
from gpustack.report.page import bullets, document, safe, section, table, tag

if TYPE_CHECKING:
    from gpustack.model.trace import Step, Trace

TONES = {State.DONE: "good", State.FAILED: "bad", State.SKIPPED: "none", State.NEEDS_GPU: "none"}
LAYER = ("layer", "in", "out", "time", "FLOP/byte", "reached", "of limit", "bound by")
KERNEL = ("kernel", "grid", "block", "warps", "registers", "shared", "occupancy", "waves", "units", "time")
BATCH = ("batch", "CPU", "GPU", "kernels", "copies")
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
    yield section("The path through the machine", trace_picture.picture(trace))
    yield section("The seven steps", _steps(trace))
    yield section("What was found", stack_html.blocks([(one, ()) for one in trace.findings]))
    yield section("Under the roofline", trace_charts.roofline(trace))
    yield _folded("Layers, in execution order", _layers(trace))
    yield _folded("Kernels", _kernels(trace))
    yield _folded("Compared", _compared(trace))
    yield _folded("CPU or GPU", _crossover(trace))
    yield _folded("From the script down to the kernel", _chain(trace))
    more = ", ".join(words.TERMS)
    yield tag("p", safe(f"gpustack explain WORD explains a term: {more}."), "soft about")
    yield tag("p", safe(f"gpustack {trace.tool.version}, taken {trace.taken}, {trace.seconds:.1f} s"), "soft about")


def _folded(heading: str, inside: str) -> str:
    """Return a part of the page that is long and opened by whoever wants it; on paper too it is as it was left."""
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


def _steps(trace: Trace) -> str:
    every = words.whole(trace)
    items = "".join(tag("li", _step(step, every), f"tone-{TONES[step.status]}") for step in trace.steps)
    return tag("div", tag("ol", items, "steps"), "card")


def _step(step: Step, every: float | None) -> str:
    part = words.share(step.seconds, every)
    told = words.duration(step.seconds) if step.seconds is not None else words.STATES[step.status][1]
    full = min(max(part or 0.0, 0.0), 1.0)
    cells = [
        tag("b", str(step.number)),
        tag("b", safe(step.name)),
        tag("span", "", "none")
        if part is None
        else f'<span class="meter"><i style="width:{100 * full:.1f}%"></i></span>',
        tag("span", safe(told), "num"),
        tag("span", safe(words.percent(part)), "num part"),
    ]
    said = [*map(words.figure, step.figures), *step.why, *map(words.link, step.libraries)]
    return tag("div", "".join(cells), "step") + bullets(map(safe, said), "said")


def _layers(trace: Trace) -> str:
    rows = []
    for one in trace.layers:
        reached, part = words.rate(one, trace)
        rows.append(
            (
                one.name,
                words.shape(one.shape_in),
                words.shape(one.shape_out),
                words.duration(one.seconds),
                words.intensity(one, trace),
                reached,
                part,
                words.BOUND[one.bound] if one.bound else "",
            )
        )
    told = words.bounds(trace)
    meant = tag("p", safe(f"{told[:1].upper()}{told[1:]}."), "soft about") if told else ""
    return _table(LAYER, rows) + meant


def _kernels(trace: Trace) -> str:
    rows = [
        (
            one.name,
            words.extent(one.grid),
            words.extent(one.block),
            _or_unknown(one.warps),
            _or_unknown(one.registers),
            _or_unknown(None if one.shared_static is None else one.shared_static + (one.shared_dynamic or 0)),
            words.percent(one.occupancy) or "?",
            words.waves(one),
            words.units(one),
            words.duration(one.seconds),
        )
        for one in trace.kernels
    ]
    notes = dict.fromkeys(f"{one.layer}: {one.note}" for one in trace.kernels if one.note)
    return _table(KERNEL, rows) + "".join(tag("p", safe(note), "soft about") for note in notes)


def _or_unknown(value: int | None) -> str:
    return "?" if value is None else str(value)


def _compared(trace: Trace) -> str:
    """Return eager beside graph and serial beside overlapped as bars, and how right the answer is."""
    made = []
    if (one := trace.launching) is not None:
        made.append(_pair(f"{one.kernels} kernels", ("eager", one.eager_seconds), ("CUDA graph", one.graph_seconds)))
    if (both := trace.overlap) is not None:
        named = f"copies and kernels, {both.chunks} chunks over {both.streams} streams"
        made.append(_pair(named, ("one by one", both.serial_seconds), ("at once", both.overlapped_seconds)))
        made += [tag("p", safe(both.note), "soft about")] if both.note else []
    for check in trace.checks:
        rows = f"{check.compared} of {check.rows}" if check.compared < check.rows else f"all {check.rows}"
        word = "within" if check.passed else "not within"
        error = f"error {max(check.error, check.largest):.2g}, {word} {check.bound:g}, over {rows} rows"
        made.append(tag("p", safe(f"{check.what} against {check.against}: {error}")))
    return tag("div", "".join(made), "card") if made else ""


def _pair(named: str, *both: tuple[str, float]) -> str:
    most = max(seconds for _, seconds in both) or 1.0
    rows = "".join(
        tag(
            "div",
            tag("b", "")
            + tag("span", safe(name))
            + f'<span class="meter"><i style="width:{100 * seconds / most:.1f}%"></i></span>'
            + tag("span", safe(words.duration(seconds)), "num")
            + tag("span", "", "num part"),
            "step tone-good",
        )
        for name, seconds in both
    )
    return tag("h3", safe(named)) + rows


def _crossover(trace: Trace) -> str:
    if not (found := trace.crossover):
        return ""
    said = tag("h3", safe(f"{found.says[:1].upper()}{found.says[1:]}")) + tag(
        "ul", "".join(tag("li", safe(why)) for why in found.why), "plain"
    )
    rows = [
        (
            str(one.batch),
            *map(words.duration, (one.cpu_seconds, one.gpu_seconds, one.kernel_seconds, one.transfer_seconds)),
        )
        for one in found.points
    ]
    return tag("div", said, "card") + trace_charts.times(trace) + _table(BATCH, rows)


def _chain(trace: Trace) -> str:
    rows = "".join(
        tag("dt", safe(one.layer.value)) + tag("dd", safe(words.link(one)), "bad" if one.missing else "")
        for one in trace.chain
    )
    return tag("div", tag("dl", rows, "facts"), "card") if rows else ""


def _table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return rows under their names; on a phone each cell says what it is."""
    return tag("div", table(names, (_cells(names, row) for row in rows)), "card wide-rows") if rows else ""


def _cells(names: Sequence[str], row: Sequence[str]) -> Iterator[str]:
    yield tag("td", tag("b", safe(row[0])))
    for name, cell in zip(names[1:], row[1:], strict=True):
        yield f'<td data-name="{safe(name)}">{safe(cell)}</td>' if cell else "<td></td>"
