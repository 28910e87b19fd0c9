"""The bench's figures as text: each beside the limit of this GPU and the older figure, and why it is low."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from gpustack.model.bench import Advice, BenchReport, Device, Mark, Result, Span, Telemetry
from gpustack.model.difference import Comparison, Outcome
from gpustack.model.report import Severity
from gpustack.report.bench_charts import besides, drawn, matrices, roofline
from gpustack.report.bench_many import (
    ID_COLUMNS,
    NUMBER_COLUMNS,
    TOLD_BELOW,
    UNIT_COLUMNS,
    VERDICT,
    gathered,
    many,
    number,
    own,
    skipped,
)
from gpustack.report.lines import Line, block, bullets, indent, renderer, say
from gpustack.report.parts import figures, worst
from gpustack.report.summary import alike, listed

if TYPE_CHECKING:
    from gpustack.report.page import Page

STYLES = {
    Outcome.BETTER: ("ok", "good"),
    Outcome.SAME: ("ok", "plain"),
    Outcome.WORSE: ("bad", "error"),
    Outcome.GONE: ("none", "dim"),
    Outcome.NEW: ("none", "dim"),
}
BAR_COLUMNS = 16
MIB_IN_GIB = 1024
MOST_RATIO = 9.99
MOST_ROWS = 4  # pairs; with more of them a matrix is clearer


def compared(comparison: Comparison, page: Page) -> Iterator[Line]:
    """Yield the lines of a comparison."""
    yield Line()
    taken = f" of {comparison.taken}" if comparison.taken else ""
    head = f"Compared with {comparison.path}{taken}: {_counted(comparison)} (tolerance {comparison.tolerance:.2%})"
    yield say(page, (head, "head"), hang="  ")
    for difference in comparison.differences:
        yield say(page, f"not the same: {difference}", lead=("! ", "warning"))
    for change in comparison.changes:
        mark, style = STYLES[change.outcome]
        where = f" on GPU {change.device}" if change.device else ""
        grown = "" if change.change is None else f" {change.change:+.1%}"
        note = f"; {change.note}" if change.note else ""
        then, now = _figure(change.before, change.before_interval), _figure(change.after, change.after_interval)
        name, state = f"{change.id + where:<{ID_COLUMNS}} ", f"{page.mark(mark)} {change.outcome.value}{grown}: "
        said = f"{then} → {now} {change.unit}{note}"
        yield say(page, (name, "head"), (state, style), said, hang="  ")


def _counted(comparison: Comparison) -> str:
    counts = Counter(change.outcome for change in comparison.changes)
    return listed([f"{counts[outcome]} {outcome.value}" for outcome in STYLES if counts[outcome]]) or "no figures"


def _figure(value: float | None, interval: tuple[float, float] | None) -> str:
    """Return a median with its interval, both with significant digits."""
    if value is None:
        return "none"
    span = f" [{interval[0]:.4g}, {interval[1]:.4g}]" if interval else ""
    return f"{value:.4g}{span}"


def lines(report: BenchReport, page: Page) -> Iterator[Line]:
    """Yield the lines of the whole report: the outcome, a table for each GPU, further figures, and explanations."""
    yield from _verdict(report, page)
    each = own(report)
    if len(each) > 1:
        yield from many(each, {device: card(device) for device in each}, page)
    for device, mine in each.items() if len(each) == 1 or page.verbose else ():
        yield from (Line(), say(page, (card(device), "head"), hang="  "))
        yield from _table(mine, page)
        if found := roofline(mine):
            yield from drawn(found, page)
    yield from between([one for one in report.results if one.gpus and one.device is not None], page)
    known = {device.index for device in report.devices}
    other = [one for one in report.results if one.device not in known]
    if other:
        yield from (Line(), say(page, ("All GPUs together" if known else "No GPU", "head")))
        yield from _table(other, page)
    if report.comparison:
        yield from compared(report.comparison, page)
    grave = [one for one in report.findings if one.severity is not Severity.INFO]
    for first, others in alike(gathered(grave, report.results)):
        yield Line()
        yield from block(first, others, (), page)
    yield from _foot(report, page)


def between(pairs: Sequence[Result], page: Page) -> Iterator[Line]:
    """Yield the figures between two GPUs: a row each if few, a matrix if many, and a row if one needs a remark."""
    if not pairs:
        return
    yield from (Line(), say(page, ("Between GPUs", "head")))
    if len(pairs) > MOST_ROWS:
        yield from matrices(pairs, page)
        pairs = [one for one in pairs if one.verdict is not Mark.OK]
    yield from _table(pairs, page)


def _verdict(report: BenchReport, page: Page) -> Iterator[Line]:
    """Return how many figures there are of each kind, under the mark of the worst."""
    mark, _, style = VERDICT[worst(report)]
    said = figures(report)
    told = f"{said[0].upper()}{said[1:]}."
    yield say(page, (f"{page.mark(mark)} ", style), (told, "head"), hang="  ")
    if report.interrupted:
        yield say(page, ("! stopped early: ", "warning"), report.interrupted)


def card(device: Device) -> str:
    """Return a short description of a GPU."""
    known = (
        f"sm_{device.compute_capability.replace('.', '')}",
        f"{device.memory_mib / MIB_IN_GIB:.0f} GiB" if device.memory_mib else "",
        f"driver {device.driver}" if device.driver else "",
        f"CUDA {device.cuda}" if device.cuda else "",
    )
    return f"GPU {device.index}: {device.name}, {', '.join(filter(None, known))}"


def _table(results: Sequence[Result], page: Page) -> Iterator[Line]:
    """Yield a row for each figure with its remarks; those skipped for the same reason share a row."""
    for result in results:
        if result.verdict is not Mark.SKIPPED:
            yield _bench_text_row(result, page)
            yield from indent(4, bullets(_remarks(result, page), page))
            yield from _remedy(result.remedy, page)
    for said, remedy in skipped(results):
        yield say(page, (said, "dim"), lead=f"{page.mark('none')} ")
        yield from _remedy(remedy, page)


def _bench_text_row(result: Result, page: Page) -> Line:
    """Return one figure: its value, its limit, the share reached as bar and number, and the rating."""
    mark, word, style = VERDICT[result.verdict]
    state = (f"{page.mark(mark)} {word}", style)
    part = "" if result.ratio is None else f"{min(result.ratio, MOST_RATIO):.0%}"
    value, ceiling = number(result.value), number(result.ceiling)
    if page.narrow:
        limit = f", {part} of {ceiling}" if part else ""
        said = f": {value} {result.unit}{limit}: "
        return say(page, (result.name(), "head"), said, state, hang="  ")
    limit = f" of {ceiling:>{NUMBER_COLUMNS}}" if result.ceiling is not None else " " * (NUMBER_COLUMNS + 4)
    full, rest = bar(result.ratio, page)
    if result.ceiling is None and result.p05 is not None and result.p95 is not None:
        full, rest = "", f"{f'{number(result.p05)} to {number(result.p95)}':<{BAR_COLUMNS}}"
    figure = f"{value:>{NUMBER_COLUMNS}}{limit} {result.unit:<{UNIT_COLUMNS}} "
    return say(
        page,
        figure,
        (full, style),
        (rest, "dim"),
        f" {part:>4}  ",
        state,
        lead=(f"{result.name():<{ID_COLUMNS}}", "head"),
    )


def bar(ratio: float | None, page: Page) -> tuple[str, str]:
    """Return the share of the limit as a bar, full and empty; above the limit it is full."""
    if ratio is None or ratio != ratio:  # noqa: PLR0124 - only nan differs from itself
        return "", " " * BAR_COLUMNS
    full = round(min(max(ratio, 0.0), 1.0) * BAR_COLUMNS)
    return page.mark("full") * full, page.mark("rest") * (BAR_COLUMNS - full)


def _remarks(result: Result, page: Page) -> Iterator[str]:
    """Yield why the figure is as it is and, with ``-v``, how it was measured and what the GPU did meanwhile."""
    yield from result.why
    if result.verdict not in TOLD_BELOW:
        yield from (_advised(advice) for advice in result.advice)
    yield from _companions(result)
    yield from besides(result)
    if not page.verbose:
        return
    if result.runs:
        yield f"medians of {len(result.runs)} runs: {', '.join(map(number, result.runs))} {result.unit}"
    if result.ceiling_from:
        yield f"limit: {result.ceiling_from}"
    if result.ratio_held is not None and not result.gpus:
        yield f"{result.ratio_held:.1%} of {number(result.ceiling_held)} {result.unit}, the limit at the clock it held"
    if result.samples:
        spread = f"5 % to 95 %: {number(result.p05)} to {number(result.p95)} {result.unit}"
        yield f"{len(result.samples)} samples in {result.seconds:.2f} s, {spread}"
    if result.telemetry:
        yield from _telemetry(result.telemetry)


def _advised(advice: Advice) -> str:
    return advice.text + (f" See: {advice.commands[0]}" if advice.commands else "")


def _companions(result: Result) -> Iterator[str]:
    """Yield the figures beside a burst: sustained, and with zeros."""
    if (held := result.sustained) is not None:
        part = f" ({held.value / result.value:.0%} of the burst)" if result.value else ""
        unsteady = "" if held.steady else ", not steady"
        did = _held(held.telemetry)
        yield f"without rest for {held.seconds:g} s: {number(held.value)} {result.unit}{part}{did}{unsteady}"
        yield from (f"without rest: {why}" for why in held.why)
    if (zeros := result.zeros) is not None:
        did = _held(zeros.telemetry)
        yield f"with zeros: {number(zeros.value)} {result.unit}{did}; power sensitivity {zeros.sensitivity:+.1%}"


def _held(seen: Telemetry | None) -> str:
    clock = f" at {seen.clocks.held:.0f} MHz" if seen and seen.clocks.held is not None else ""
    watts = f", {seen.power.watts.median:.0f} W" if seen and seen.power.watts else ""
    return clock + watts


def _telemetry(seen: Telemetry) -> Iterator[str]:
    """Yield what the GPU did during the measurement."""
    told = (
        f"clock held {seen.clocks.held:.0f} MHz" if seen.clocks.held is not None else "",
        _span(seen.power.watts, "W"),
        _span(seen.temperature.gpu, "°C"),
        f"link PCIe {seen.link.generation} x{seen.link.width}" if seen.link.generation is not None else "",
        f"held back by {listed(seen.throttle.reasons)}" if seen.throttle.reasons else "",
    )
    if any(told):
        yield ", ".join(filter(None, told))
    if seen.unavailable:
        yield f"no telemetry: {seen.unavailable}"


def _span(span: Span | None, unit: str) -> str:
    return f"{span.low:.0f} to {span.high:.0f} {unit}" if span else ""


def _remedy(remedy: str | None, page: Page) -> Iterable[Line]:
    if remedy:
        yield say(page, (remedy, "command"), lead=" " * 6, whole=True)


def _foot(report: BenchReport, page: Page) -> Iterator[Line]:
    about = "Each limit is computed from what the GPU reports about itself; no program reaches all of it."
    short = " Quick run: figures are less precise." if report.quick else ""
    more = "" if page.verbose else " -v shows the limits, the spread and the clocks."
    runs = f", {report.repeat} runs" if report.repeat > 1 else ""
    took = f"gpustack {report.tool.version}, {report.data} data{runs}, {report.seconds:.1f} s."
    yield from (Line(), say(page, (f"{about}{short} {took}{more}", "dim")))


render = renderer(lines)
