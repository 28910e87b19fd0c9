"""Figures as HTML: each as a bar below its GPU's limit, with its samples, and what the GPU did meanwhile."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from gpustack.model.bench import BenchReport, Device, Mark, Result, Span, Telemetry
from gpustack.model.difference import Change, Comparison, Outcome
from gpustack.report.bench_many import DIGITS, TOLD_BELOW, number, own, skipped
from gpustack.report.page import safe, table, tag
from gpustack.report.parts import numbered, wavers

TONE = {Mark.OK: "good", Mark.LOW: "warn", Mark.UNSTEADY: "ask", Mark.FAILED: "bad", Mark.SKIPPED: "none"}
OUTCOME = {
    Outcome.BETTER: "good",
    Outcome.SAME: "good",
    Outcome.WORSE: "bad",
    Outcome.GONE: "none",
    Outcome.NEW: "none",
}
WIDE, HIGH = 200, 20
QUIET = (Mark.OK, Mark.SKIPPED)  # nothing to read about a GPU with these alone
ALL_WELL = tag("span", " all ok", "good")
MOST_SAMPLES = 400
LEAST_SPREAD = 0.02  # of the median: less is drawn as a straight line
ROOM = 1.08  # above the maximum of a range
MEANT = {"share": "bar: share of the limit", "line": "line: the samples in the order taken"}
READ = {"seen": "lowest to highest reading", "median": "median reading", "limit": "limit"}


def figures(bench: BenchReport) -> str:
    """Return all figures: a card for each GPU, then those of several GPUs."""
    known = {device.index for device in bench.devices}
    each = own(bench)
    parts = [tag("h3", safe(numbered([device.index for device in each]))) + _across(each)] if len(each) > 1 else []
    for device, mine in each.items():
        heading, inside = tag("h3", safe(_card(device))), _table(mine) + _did(mine)
        folded = len(each) > 1 and all(one.verdict in QUIET or wavers(one) for one in mine)
        parts.append(tag("details", tag("summary", heading + ALL_WELL) + inside) if folded else heading + inside)
    others = (
        ("Between GPUs", [one for one in bench.results if one.gpus and one.device is not None]),
        ("All GPUs together" if known else "No GPU", [one for one in bench.results if one.device not in known]),
    )
    parts += [tag("h3", name) + _table(held) for name, held in others if held]
    if bench.comparison:
        parts += [tag("h3", "Compared with the older report"), compared(bench.comparison)]
    about = "Each limit is computed from what the GPU reports about itself; no program reaches all of it."
    return "\n".join(filter(None, (*parts, _key(MEANT), tag("p", about, "soft about"))))


def _key(meant: Mapping[str, str]) -> str:
    return tag("ul", "".join(tag("li", f"<i></i>{said}", name) for name, said in meant.items()), "key")


def _across(each: Mapping[Device, Sequence[Result]]) -> str:
    """Return a row for each figure and a column for each GPU, with low figures marked."""
    names = dict.fromkeys(one.id for mine in each.values() for one in mine if one.verdict is not Mark.SKIPPED)
    known = {(one.id, device.index): one for device, mine in each.items() for one in mine}
    heads = ("benchmark", "limit", *(f"GPU {device.index}" for device in each))
    rows = (_cells(name, {device.index: known.get((name, device.index)) for device in each}) for name in names)
    return tag("div", table(heads, rows, "rows across"), "card")


def _cells(name: str, row: Mapping[int, Result | None]) -> Iterator[str]:
    there = [one for one in row.values() if one]
    limit = next((one.ceiling for one in there if one.ceiling), None)
    yield tag("td", tag("b", safe(name)))
    unit = there[0].unit
    yield f'<td data-name="limit">{safe(f"{spaced(limit)} {unit}" if limit else f"none; {unit}")}</td>'
    for index, one in row.items():
        tone = TONE[one.verdict] if one else TONE[Mark.SKIPPED]
        said = spaced(one.value) if one and one.value is not None else one.verdict.value if one else ""
        short = one is not None and one.verdict in TOLD_BELOW
        word = f" {tag('span', one.verdict.value, 'word')}" if one and short else ""
        marked = f' class="tone-{tone}"' if short else ""
        yield f'<td data-name="GPU {index}"{marked}>{safe(said)}{word}</td>'


def spaced(value: float) -> str:
    """Return a figure with its significant digits and separated thousands, never with an exponent."""
    text = number(value)
    whole, point, part = text.partition(".")
    grouped = f"{int(whole):,}" if len(whole) > DIGITS and whole.isdigit() else whole
    return grouped + point + part


def compared(comparison: Comparison) -> str:
    """Return each figure then and now, and what else differs between the two reports."""
    taken = f" of {comparison.taken}" if comparison.taken else ""
    said = [f"{comparison.path}{taken}, tolerance {comparison.tolerance:.2%}", *comparison.differences]
    rows = table(("outcome", "benchmark", "then", "now", "change"), map(_change, comparison.changes))
    return tag("div", "".join(tag("p", safe(line), "soft about") for line in said) + rows, "card")


def _change(change: Change) -> Iterator[str]:
    device = f" on GPU {change.device}" if change.device is not None else ""
    yield tag("td", tag("span", change.outcome.value, "word"), f"tone-{OUTCOME[change.outcome]}")
    yield tag("td", safe(f"{change.id}{device}"))
    for name, value in (("then", change.before), ("now", change.after)):
        yield f'<td data-name="{name}">{safe("none" if value is None else f"{spaced(value)} {change.unit}")}</td>'
    told = [f"{change.change:+.1%}" if change.change is not None else "", change.note or ""]
    yield tag("td", safe("; ".join(filter(None, told))))


def _card(device: Device) -> str:
    known = (
        f"sm_{device.compute_capability.replace('.', '')}",
        f"driver {device.driver}" if device.driver else "",
        f"CUDA {device.cuda}" if device.cuda else "",
    )
    return f"GPU {device.index}: {device.name}, {', '.join(filter(None, known))}"


def _table(results: Sequence[Result]) -> str:
    """Return the figures one below another; those skipped for the same reason share a row."""
    rows = [_row(one) for one in results if one.verdict is not Mark.SKIPPED]
    for said, remedy in skipped(results):
        rows.append(tag("div", safe(said) + (tag("pre", safe(remedy)) if remedy else ""), "skipped"))
    return tag("div", "".join(rows), "card figures") if rows else ""


def _row(result: Result) -> str:
    limit = "" if result.ceiling is None else f" of {spaced(result.ceiling)}"
    value = "" if result.value is None else f"{spaced(result.value)}{limit} {result.unit}"
    if result.ceiling is None and result.p05 is not None and result.p95 is not None:
        value += f" ({spaced(result.p05)} to {spaced(result.p95)})"
    ratio = _finite(result.ratio)
    part = "" if ratio is None else f"{ratio:.0%} "
    word = tag("span", "varies" if wavers(result) else result.verdict.value, "word")
    cells = [
        tag("b", safe(result.name())),
        _bar(ratio) if ratio is not None else tag("span", "", "bar"),
        _spark(result.samples),
        tag("span", safe(value), "num value"),
        tag("span", f"{part}{word}", "num"),
        *(tag("span", safe(why), "why") for why in result.why),
    ]
    return tag("div", "".join(cells), f"figure tone-{'none' if wavers(result) else TONE[result.verdict]}")


def _bar(ratio: float) -> str:
    full = round(WIDE * min(max(ratio, 0.0), 1.0), 1)
    return _svg("bar", f"{ratio:.0%} of the limit", f"{_rect(0, WIDE, 2, 16)}{_rect(0, full, 2, 16)}")


def _spark(samples: Sequence[float]) -> str:
    """Return the samples in the order they were taken, as a line."""
    held = [one for one in samples if _finite(one) is not None]
    held = held[:: max(1, len(held) // MOST_SAMPLES)]
    if len(held) < 2:  # noqa: PLR2004 - one point makes no line
        return tag("span", "", "spark")
    middle = sorted(held)[len(held) // 2]
    reach = max(max(held) - middle, middle - min(held), abs(middle) * LEAST_SPREAD) or 1.0
    step = WIDE / (len(held) - 1)
    points = " ".join(
        f"{n * step:.1f},{HIGH / 2 * (1 - 0.9 * (one - middle) / reach):.1f}" for n, one in enumerate(held)
    )
    return _svg("spark", f"{len(samples)} samples", f'<polyline points="{points}"/>')


def _did(results: Sequence[Result]) -> str:
    """Return what the GPU did during each measurement: its clock, power and temperature."""
    panels = (_panel(name, unit, list(held)) for name, unit, held in _readings(results))
    drawn = "".join(filter(None, panels))
    heading = tag("summary", "Clock, power and temperature during each measurement")
    return tag("details", heading + tag("div", drawn, "did") + _key(READ)) if drawn else ""


def _readings(results: Sequence[Result]) -> Iterator[tuple[str, str, Iterator[tuple[str, Span | None, float | None]]]]:
    told = [(one.name(), one.telemetry) for one in results if one.telemetry]
    yield "Clock", "MHz", ((name, _clock(seen), seen.clocks.max_sm) for name, seen in told)
    yield "Power", "W", ((name, seen.power.watts, seen.power.limit) for name, seen in told)
    yield "Temperature", "°C", ((name, seen.temperature.gpu, seen.temperature.slowdown) for name, seen in told)


def _clock(seen: Telemetry) -> Span | None:
    """Return the clocks that NVML read, and the one counted on the GPU, which the readings may have missed."""
    read, held = seen.clocks.sm, seen.clocks.held
    if read is None or held is None or _finite(held) is None:
        return read
    return Span(low=min(read.low, held), median=read.median, high=max(read.high, held))


def _panel(name: str, unit: str, readings: Sequence[tuple[str, Span | None, float | None]]) -> str:
    """Draw one kind of reading: a row for each measurement, from minimum to maximum, with median and limit."""
    spans = [(who, span, limit) for who, span, limit in readings if span and _finite(span.high + span.low) is not None]
    if not spans:
        return ""
    top = max(max(span.high, _finite(limit) or 0.0) for _, span, limit in spans) * ROOM or 1.0
    limits = sorted({limit for _, _, limit in spans if _finite(limit) is not None and limit is not None})
    told = f", limit {', '.join(f'{one:g}' for one in limits)}" if limits else ""
    rows = (
        tag("span", safe(who)) + _range(span, limit, top, f"{_ends(span)} {unit}") + tag("span", _ends(span))
        for who, span, limit in spans
    )
    inside = "".join(tag("div", row, "reading") for row in rows)
    return tag("div", tag("h4", f"{name} {tag('span', safe(f'in {unit}{told}'), 'soft')}") + inside, "card")


def _ends(span: Span) -> str:
    low, high = f"{span.low:.0f}", f"{span.high:.0f}"
    return low if low == high else f"{low} to {high}"


def _range(span: Span, limit: float | None, top: float, said: str) -> str:
    low, high, middle = (WIDE * max(one, 0.0) / top for one in (span.low, span.high, span.median))
    seen = _rect(low, max(high - low, 2.0), 5, 10, "seen")
    limited = _line(WIDE * limit / top, "limit") if limit is not None and _finite(limit) else ""
    return _svg("range", said, f"{_rect(0, WIDE, 9, 2)}{seen}{_line(middle)}{limited}")


def _svg(class_: str, said: str, inside: str) -> str:
    box = f'viewBox="0 0 {WIDE} {HIGH}" preserveAspectRatio="none"'
    return f'<svg class="{class_}" role="img" aria-label="{safe(said)}" {box}>{inside}</svg>'


def _rect(x: float, width: float, y: float, height: float, class_: str = "") -> str:
    kind = f' class="{class_}"' if class_ else ""
    return f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{height}"{kind}/>'


def _line(x: float, class_: str = "") -> str:
    kind = f' class="{class_}"' if class_ else ""
    return f'<line x1="{x:.1f}" x2="{x:.1f}" y1="1" y2="{HIGH - 1}"{kind}/>'


def _finite(value: float | None) -> float | None:
    return value if value is not None and value - value == 0 else None
