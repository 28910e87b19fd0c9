"""What goes on between GPUs as text: a matrix from each to each, and the figures beside the main one of a row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from gpustack.report.lines import Line, write

if TYPE_CHECKING:
    from gpustack.model.bench import Result
    from gpustack.report.page import Page

CELL = 7
LEAST = 1 << 20  # bytes of a sum: of smaller ones the time tells more than the rate


def matrices(pairs: Sequence[Result], page: Page) -> Iterator[Line]:
    """Give a matrix for each benchmark: a row for each first GPU, a column for each second one."""
    for name in dict.fromkeys(one.id for one in pairs):
        mine = [one for one in pairs if one.id == name]
        gpus = sorted({gpu for one in mine for gpu in one.gpus})
        values = {one.gpus: one.value for one in mine}
        head = "".join(f"{gpu:>{CELL}}" for gpu in gpus)
        yield Line(body=write(page, (f"{name}, {mine[0].unit}, from each row to each column", "head")))
        yield Line(body=write(page, (f"{'':>{CELL}}{head}", "dim")), whole=True)
        for first in gpus:
            cells = "".join(f"{_cell(values.get((first, second))):>{CELL}}" for second in gpus)
            yield Line(lead=Text(), body=write(page, f"{first:>{CELL}}{cells}"), whole=True)


def besides(result: Result) -> Iterator[str]:
    """Give the figures beside that of a pair, or of all GPUs."""
    told = result.method
    if "both_gb_s" in told:
        yield f"both ways at once: {_number(told['both_gb_s'])} GB/s"
    sizes = told.get("sizes")
    if not result.gpus or not isinstance(sizes, Sequence) or isinstance(sizes, str):
        return
    yield "; ".join(_sum(row) for row in sizes if isinstance(row, Mapping))
    yield f"NCCL {told.get('library_version')}: {told.get('library')}"


def _sum(row: Mapping[str, object]) -> str:
    """Give one size of a sum over GPUs: the time of a small one, the rate of a large one."""
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
