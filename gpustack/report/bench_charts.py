"""Related figures: a matrix from each GPU to each other, and the roofline of one GPU."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import log10
from typing import TYPE_CHECKING

from rich.text import Text

from gpustack.model import record
from gpustack.report.lines import Line, say

if TYPE_CHECKING:
    from gpustack.model.bench import Result
    from gpustack.model.facts import JsonValue
    from gpustack.report.page import Page

BYTES = {"fp64": 8.0, "fp32": 4.0, "tf32": 4.0, "fp16": 2.0, "bf16": 2.0, "fp8": 1.0, "int8": 1.0, "int32": 4.0}
BYTES["fp4"] = 0.5 + 1 / 16  # with one scale byte for 16 numbers
TRIAD = 2 / 24  # two operations on doubles per two reads and one write
MOST = {"GB/s": 1e-3, "TFLOP/s": 1.0, "TOP/s": 1.0}
ROWS, LEAST_COLUMNS, MARGIN, SLOPE = 14, 100, 9, "/"
LETTERS = "abcdefghijklmnopqrstuvwxyz"
SPARE = 1.6  # margin around the drawing, as a factor
CELL = 7
LEAST = 1 << 20  # bytes of a sum: for smaller ones the time says more than the rate


@record
class Point:
    """One figure: operations per byte that must be moved at least, and tera-operations per second."""

    name: str
    intensity: float
    rate: float
    held: bool = False


@record
class Roofline:
    """The limits of one GPU, in TB/s and by data type in TFLOP/s, and the figures under them."""

    bandwidth: float
    reached: float | None
    roofs: tuple[tuple[str, float], ...]
    points: tuple[Point, ...]

    @property
    def span(self) -> tuple[float, float, float, float]:
        """The minimum and maximum intensity and rate to draw."""
        xs = [point.intensity for point in self.points] + [roof / self.bandwidth for _, roof in self.roofs]
        ys = [point.rate for point in self.points] + [roof for _, roof in self.roofs]
        left, right = min(xs) / SPARE, max(xs) * SPARE
        return left, right, min(*ys, left * self.bandwidth) / SPARE, max(ys) * SPARE


def roofline(results: Sequence[Result]) -> Roofline | None:
    """Return the roofline of one GPU's figures, or None if there are too few."""
    memory = [one for one in results if one.id.startswith("hbm.") and _finite(one.ceiling)]
    products = [one for one in results if one.id.startswith("gemm.") and _finite(one.ceiling)]
    points = tuple(point for one in results for point in _points(one))
    if not memory or not products or not any(point.name.startswith("gemm.") for point in points):
        return None
    reached = max((one.value for one in memory if one.value), default=None)
    return Roofline(
        bandwidth=(memory[0].ceiling or 0.0) / 1e3,
        reached=reached / 1e3 if reached else None,
        roofs=tuple((one.id.partition(".")[2], one.ceiling or 0.0) for one in products),
        points=points,
    )


def _finite(value: float | None) -> bool:
    return value is not None and 0 < value < float("inf")


def _points(result: Result) -> Iterator[Point]:
    value = result.value
    if value is None or not _finite(value):
        return
    if result.id == "hbm.triad":
        yield Point(name=result.id, intensity=TRIAD, rate=value / 1e3 * TRIAD)
    intensity = _intensity(result.id, result.method)
    if intensity and result.unit in MOST:
        yield Point(name=result.id, intensity=intensity, rate=value)
        if result.sustained and result.sustained.value > 0:
            yield Point(name=f"{result.id} without rest", intensity=intensity, rate=result.sustained.value, held=True)


def _intensity(name: str, method: Mapping[str, JsonValue]) -> float | None:
    """Return the operations of a product per byte of A, B and D, each moved once."""
    m, n, k = (method.get(side) for side in "mnk")
    each, out = BYTES.get(name.partition(".")[2]), BYTES.get(str(method.get("d")))
    if not each or not out or not isinstance(m, int) or not isinstance(n, int) or not isinstance(k, int):
        return None
    moved = (m * k + n * k) * each + m * n * out
    return 2.0 * m * n * k / moved if moved > 0 else None


def drawn(found: Roofline, page: Page) -> Iterator[Line]:
    """Yield the lines that draw it with letters; nothing if the page is too narrow."""
    if page.width < LEAST_COLUMNS:
        return
    columns = LEAST_COLUMNS - MARGIN
    grid = [[" "] * columns for _ in range(ROWS)]
    _roofs(found, grid, page)
    legend = _marks(found, grid)
    _, _, low, high = found.span
    yield Line()
    yield say(page, ("TFLOP/s", "dim"))
    for row, letters in enumerate(grid):
        rate = 10 ** (log10(high) - (row + 0.5) / ROWS * (log10(high) - log10(low)))
        label = f"{rate:>{MARGIN - 2}.3g} " if row % 3 == 1 else " " * (MARGIN - 1)
        yield say(page, (label, "dim"), ("".join(letters).rstrip(), "plain"), whole=True)
    left, right, _, _ = found.span
    ends = f"{left:.3g}", f"{right:.3g} FLOP per byte"
    gap = " " * max(1, columns - len(ends[0]) - len(ends[1]))
    yield say(page, (" " * (MARGIN - 1) + ends[0] + gap + ends[1], "dim"), whole=True)
    roofs = ", ".join(f"{name} {roof:.4g}" for name, roof in sorted(found.roofs, key=lambda row: -row[1]))
    yield say(page, (f"{SLOPE} memory {found.bandwidth:.4g} TB/s; roofs in TFLOP/s: {roofs}", "dim"))
    told = ", ".join(f"{letter} {point.name} {point.rate:.4g}" for letter, point in legend)
    yield say(page, (told, "dim"))


def _roofs(found: Roofline, grid: list[list[str]], page: Page) -> None:
    """Draw the slope of the memory and each data type's flat roof from their intersection."""
    rest = page.mark("rest")
    left, right, _, _ = found.span
    columns = len(grid[0])
    best = max(roof for _, roof in found.roofs)
    for column in range(columns):
        intensity = 10 ** (log10(left) + (column + 0.5) / columns * (log10(right) - log10(left)))
        for _, roof in found.roofs:
            if intensity * found.bandwidth >= roof:
                _put(grid, found, intensity, roof, rest)
        if intensity * found.bandwidth < best:
            _put(grid, found, intensity, intensity * found.bandwidth, SLOPE)


def _marks(found: Roofline, grid: list[list[str]]) -> list[tuple[str, Point]]:
    """Put a letter at each figure; those at the same place share its letter."""
    legend: list[tuple[str, Point]] = []
    for letter, point in zip(LETTERS, found.points, strict=False):
        there = _place(found, grid, point.intensity, point.rate)
        shown = grid[there[0]][there[1]]
        if shown not in {known for known, _ in legend}:
            grid[there[0]][there[1]] = shown = letter
        legend.append((shown, point))
    return legend


def _put(grid: list[list[str]], found: Roofline, intensity: float, rate: float, letter: str) -> None:
    row, column = _place(found, grid, intensity, rate)
    grid[row][column] = letter


def _place(found: Roofline, grid: list[list[str]], intensity: float, rate: float) -> tuple[int, int]:
    left, right, low, high = found.span
    across = (log10(intensity) - log10(left)) / (log10(right) - log10(left))
    down = (log10(high) - log10(rate)) / (log10(high) - log10(low))
    return min(max(int(down * ROWS), 0), ROWS - 1), min(max(int(across * len(grid[0])), 0), len(grid[0]) - 1)


def matrices(pairs: Sequence[Result], page: Page) -> Iterator[Line]:
    """Yield a matrix for each benchmark: a row for each first GPU, a column for each second one."""
    for name in dict.fromkeys(one.id for one in pairs):
        mine = [one for one in pairs if one.id == name]
        gpus = sorted({gpu for one in mine for gpu in one.gpus})
        values = {one.gpus: one.value for one in mine}
        head = "".join(f"{gpu:>{CELL}}" for gpu in gpus)
        yield say(page, (f"{name}, {mine[0].unit}, from each row to each column", "head"))
        yield say(page, (f"{'':>{CELL}}{head}", "dim"), whole=True)
        for first in gpus:
            cells = "".join(f"{_cell(values.get((first, second))):>{CELL}}" for second in gpus)
            yield say(page, f"{first:>{CELL}}{cells}", lead=Text(), whole=True)


def besides(result: Result) -> Iterator[str]:
    """Yield the additional figures of a pair or of all GPUs."""
    told = result.method
    cards = told.get("cards")
    if isinstance(cards, Sequence) and not isinstance(cards, str):
        parts = [f"GPU {one['gpu']} {_number(one['gb_s'])}" for one in cards if isinstance(one, Mapping)]
        yield f"of which {', '.join(parts)} {result.unit}"
    if "both_gb_s" in told:
        yield f"both ways at once: {_number(told['both_gb_s'])} GB/s"
    sizes = told.get("sizes")
    if not result.gpus or not isinstance(sizes, Sequence) or isinstance(sizes, str):
        return
    yield "; ".join(_sum(row) for row in sizes if isinstance(row, Mapping))
    yield f"NCCL {told.get('library_version')}: {told.get('library')}"


def _sum(row: Mapping[str, object]) -> str:
    """Return one size of a sum over GPUs: the time of a small one, the rate of a large one."""
    size = row.get("bytes")
    count = size if isinstance(size, int) else 0
    large = count >= LEAST
    said = f"{_number(row.get('bus_gb_s'))} GB/s" if large else f"{_number(row.get('us'))} µs"
    return f"{_bytes(count)} {said}"


def _bytes(count: int) -> str:
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= size:
            return f"{count / size:.4g} {unit}"
    return f"{count} B"


def _cell(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def _number(told: object) -> str:
    return f"{told:.4g}" if isinstance(told, float | int) else "none"
