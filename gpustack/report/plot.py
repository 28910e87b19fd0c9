"""A picture of a bench report: a roofline and bars for each GPU, as one SVG or HTML file that loads nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from importlib import import_module
from math import ceil, floor, log10
from typing import Any

from gpustack.model.bench import BenchReport, Device, Mark, Result
from gpustack.report.bench_charts import Roofline, roofline
from gpustack.report.page import clean

WIDTH, PLOT_HEIGHT, BAR_HEIGHT, HEAD, FOOT = 960, 420, 22, 34, 30
LEFT, RIGHT = 70, 40
NAME, TRACK, LABEL = 170, 420, 12
INK, FAINT, GRID = "#1c2733", "#66727f", "#dfe4ea"
COLOURS = {Mark.OK: "#2c7a4b", Mark.LOW: "#c77700", Mark.UNSTEADY: "#7a4fa3", Mark.FAILED: "#b3261e"}
ROOF, SLOPE = "#9aa6b2", "#2667a8"
KINDS = (".svg", ".html", ".png")


class CannotError(Exception):
    """No library for such a picture is installed: the missing one."""


def kind(name: str) -> str | None:
    """Return the kind of picture from a file's extension; None for any other."""
    return next((ending for ending in KINDS if name.lower().endswith(ending)), None)


def check(ending: str) -> None:
    """Raise CannotError if a requirement of this kind of picture is missing."""
    if ending == ".png":
        _cairosvg()


def picture(report: BenchReport, ending: str) -> bytes:
    """Return the picture of a report as the bytes of its file; raises CannotError like ``check``."""
    if ending == ".png":
        return bytes(_cairosvg().svg2png(bytestring=svg(report).encode()))
    return (svg(report) if ending == ".svg" else html(report)).encode()


def _cairosvg() -> Any:  # noqa: ANN401 - another's module
    try:
        return import_module("cairosvg")
    except (ImportError, OSError) as error:
        raise CannotError(
            "a PNG needs CairoSVG, which is not installed; name the file .svg or .html, or: pip install cairosvg"
        ) from error


def html(report: BenchReport) -> str:
    """Return the picture as one HTML page."""
    style = f"body{{margin:2rem auto;max-width:{WIDTH}px;font-family:sans-serif}}svg{{max-width:100%;height:auto}}"
    head = f'<meta charset="utf-8"><title>{_title(report)}</title><style>{style}</style>'
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head><body>\n{svg(report)}</body></html>\n'


def svg(report: BenchReport) -> str:
    """Return the picture as SVG."""
    parts: list[str] = []
    at = 0
    for device in report.devices:
        mine = [one for one in report.results if one.device == device.index and one.value is not None]
        if mine:
            lines, at = _device(device, mine, at)
            parts += lines
    if not parts:
        parts, at = [_text(LEFT, HEAD, "No figures.", INK)], 2 * HEAD
    drawn, at = _legend(report, at)
    parts += drawn
    foot = f"{_title(report)}. Each limit is computed from what the GPU reports about itself."
    parts.append(_text(20, at + FOOT - 10, foot, FAINT, size=12))
    box = f'viewBox="0 0 {WIDTH} {at + FOOT}" width="{WIDTH}" height="{at + FOOT}"'
    back = f'<rect width="{WIDTH}" height="{at + FOOT}" fill="#ffffff"/>'
    inside = "\n".join([back, *parts])
    return f'<svg xmlns="http://www.w3.org/2000/svg" {box} font-family="sans-serif">\n{inside}\n</svg>\n'


def _title(report: BenchReport) -> str:
    return _safe(f"gpustack {report.tool.version} bench, {report.data} data, {report.taken}")


def _device(device: Device, results: Sequence[Result], at: int) -> tuple[list[str], int]:
    """Draw one GPU from this height on; return the drawing and where it ends."""
    driver = f", driver {device.driver}" if device.driver else ""
    drawn = [_text(20, at + 24, f"GPU {device.index}: {device.name}{driver}", INK, size=17, bold=True)]
    at += HEAD
    if found := roofline(results):
        drawn += _roofline(found, at)
        at += PLOT_HEIGHT
    for result in results:
        drawn += _bar(result, at)
        at += BAR_HEIGHT
    return drawn, at + 10


def _legend(report: BenchReport, at: int) -> tuple[list[str], int]:
    """Draw the legend of the colours and signs in use; return it and where it ends."""
    seen = dict.fromkeys(one.verdict for one in report.results if one.ratio is not None)
    drawn, x = [_text(20, at + 14, "bars: share of the limit", FAINT, size=12)], NAME
    for verdict in seen:
        drawn.append(
            f'<rect class="key" x="{x}" y="{at + 4}" width="12" height="12" fill="{COLOURS.get(verdict, FAINT)}"/>'
        )
        drawn.append(_text(x + 18, at + 14, verdict.value, FAINT, size=12))
        x += 90
    if any(one.sustained for one in report.results):
        drawn.append(f'<circle class="key" cx="{x + 6}" cy="{at + 10}" r="4.5" fill="#ffffff" stroke="{INK}"/>')
        drawn.append(_text(x + 18, at + 14, "without rest (under sustained load)", FAINT, size=12))
    return (drawn, at + BAR_HEIGHT) if seen else ([], at)


def _bar(result: Result, at: int) -> Iterator[str]:
    """Draw one figure: its share of the limit, its value beside the limit, and its rating."""
    colour, base = COLOURS.get(result.verdict, FAINT), at + 15
    yield _text(20, base, result.name(), INK, size=13)
    if result.ratio is not None:
        full = round(TRACK * min(max(result.ratio, 0.0), 1.0), 1)
        yield f'<rect x="{NAME}" y="{at + 4}" width="{TRACK}" height="13" fill="{GRID}"/>'
        yield f'<rect x="{NAME}" y="{at + 4}" width="{full}" height="13" fill="{colour}"/>'
    limit = f" of {result.ceiling:.4g}" if result.ceiling is not None else ""
    part = f" ({result.ratio:.0%})" if result.ratio is not None else ""
    yield _text(NAME + TRACK + 12, base, f"{result.value:.4g}{limit} {result.unit}{part}, {result.verdict.value}", INK)


class _Scale:
    """The position of an intensity and a rate in the plot, both on logarithmic scales."""

    def __init__(self, found: Roofline, top: int) -> None:
        self.left, self.right, self.low, self.high = found.span
        self._top = top + 16
        self._high = PLOT_HEIGHT - 70

    def x(self, intensity: float) -> float:
        part = (log10(intensity) - log10(self.left)) / (log10(self.right) - log10(self.left))
        return round(LEFT + part * (WIDTH - LEFT - RIGHT), 1)

    def y(self, rate: float) -> float:
        part = (log10(self.high) - log10(rate)) / (log10(self.high) - log10(self.low))
        return round(self._top + part * self._high, 1)


def _roofline(found: Roofline, at: int) -> Iterator[str]:
    """Draw the plot: the grid of powers of ten, the roofs, and the figures."""
    scale = _Scale(found, at)
    yield from _grid(scale)
    best = max(roof for _, roof in found.roofs)
    for bandwidth, dashes in ((found.bandwidth, ""), (found.reached, ' stroke-dasharray="5 4"')):
        if bandwidth:
            ends = (scale.x(scale.left), scale.y(scale.left * bandwidth), scale.x(best / bandwidth), scale.y(best))
            yield _line(ends, SLOPE, f' stroke-width="2"{dashes}')
    name = f"memory {found.bandwidth:.4g} TB/s" + (f", {found.reached:.4g} reached" if found.reached else "")
    yield _text(LEFT + 8, scale.y(scale.low) - 8, name, SLOPE, size=12)
    for roof, names in _together(found.roofs):
        y = scale.y(roof)
        x = scale.x(roof / found.bandwidth)
        yield _line((x, y, WIDTH - RIGHT, y), ROOF, ' stroke-width="1.5"')
        yield _text(x + 8, y - 4, f"{names} {roof:.4g} TFLOP/s", FAINT, size=11)
    free = 0.0
    for point in sorted(found.points, key=lambda one: -one.rate):
        x, y = scale.x(point.intensity), scale.y(point.rate)
        free = max(y + 4, free + LABEL)
        fill = "#ffffff" if point.held else INK
        told = f"{_safe(point.name)}: {point.rate:.4g} TFLOP/s at {point.intensity:.4g} FLOP per byte"
        yield f'<circle cx="{x}" cy="{y}" r="4.5" fill="{fill}" stroke="{INK}"><title>{told}</title></circle>'
        yield _text(x - 8, round(free, 1), point.name, INK, size=11, end=True)


def _together(roofs: Sequence[tuple[str, float]]) -> list[tuple[float, str]]:
    """Return the height of each roof with all names that share it."""
    named: dict[str, list[tuple[float, str]]] = {}
    for name, roof in roofs:
        named.setdefault(f"{roof:.4g}", []).append((roof, name))
    return [(group[0][0], ", ".join(name for _, name in group)) for group in named.values()]


def _grid(scale: _Scale) -> Iterator[str]:
    bottom, top = scale.y(scale.low), scale.y(scale.high)
    for power in range(ceil(log10(scale.left)), floor(log10(scale.right)) + 1):
        x = scale.x(10.0**power)
        yield _line((x, top, x, bottom), GRID)
        yield _text(x - 8, bottom + 16, f"{10.0**power:g}", FAINT, size=11)
    for power in range(ceil(log10(scale.low)), floor(log10(scale.high)) + 1):
        y = scale.y(10.0**power)
        yield _line((LEFT, y, WIDTH - RIGHT, y), GRID)
        yield _text(LEFT - 8, y + 4, f"{10.0**power:g}", FAINT, size=11, end=True)
    yield _text(WIDTH - RIGHT, bottom + 32, "operations per byte moved (FLOP/byte)", FAINT, size=12, end=True)
    yield _text(20, top - 4, "TFLOP/s", FAINT, size=12)


def _line(ends: tuple[float, float, float, float], colour: str, more: str = "") -> str:
    x1, y1, x2, y2 = ends
    return f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{colour}"{more}/>'


def _text(x: float, y: float, said: str, colour: str, *, size: int = 13, bold: bool = False, end: bool = False) -> str:
    more = (' font-weight="bold"' if bold else "") + (' text-anchor="end"' if end else "")
    return f'<text x="{x}" y="{y}" font-size="{size}" fill="{colour}"{more}>{_safe(said)}</text>'


def _safe(said: str) -> str:
    return escape(clean(said))
