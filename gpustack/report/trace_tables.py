"""The tables of a trace as text: its layers, its kernels, and the batches on CPU and GPU; on a narrow page, lists."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from gpustack.report.lines import Line, write
from gpustack.report.trace_words import (
    BOUND,
    bounds,
    cached,
    duration,
    extent,
    intensity,
    percent,
    rate,
    three,
    units,
    waves,
)

if TYPE_CHECKING:
    from gpustack.model.trace import KernelLaunch, TensorLayer, Trace
    from gpustack.model.trace_figures import BatchTime
    from gpustack.report.page import Page

LAYER = ("layer", "time", "FLOP/byte", "reached", "of limit", "bound by")
LAYER_COLUMNS = (-27, 9, 9, 14, 8, -8)
KERNEL = ("kernel", "grid", "block", "regs", "shared", "occ.", "waves", "units")
KERNEL_COLUMNS = (-22, 10, 7, 4, 7, 5, 6, -8)
BATCH = ("batch", "CPU", "GPU", "kernels", "copies", "GPU faster by")
BATCH_COLUMNS = (8, 10, 10, 10, 10, 13)
MOST_KERNELS = 24


def layers(trace: Trace, page: Page) -> Iterator[Line]:
    """Give the layers: time, arithmetic intensity, what was reached and what limits it."""
    beside = {one.name: one.seconds for one in trace.cpu_layers}
    if trace.layers:
        yield from _table(LAYER, LAYER_COLUMNS, [_layer(one, trace) for one in trace.layers], page)
    if said := bounds(trace):
        yield Line(lead=Text("- "), body=write(page, said))
    if cached(trace):
        yield Line(lead=Text("- "), body=write(page, "more than 100%: tensors so small stay in a cache"))
    if beside and page.verbose:
        for one in trace.layers:
            if one.seconds and (cpu := beside.get(one.name)):
                said = f"{one.name}: {duration(cpu)} on the CPU, {three(cpu / one.seconds)} times as long"
                yield Line(lead=Text("- "), body=write(page, said))


def _layer(one: TensorLayer, trace: Trace) -> tuple[str, ...]:
    reached, part = rate(one, trace)
    return (
        one.name,
        duration(one.seconds),
        intensity(one, trace),
        reached,
        part,
        BOUND[one.bound] if one.bound else "",
    )


def kernels(trace: Trace, page: Page) -> Iterator[Line]:
    """Give each kernel as it was started."""
    if not trace.kernels:
        return
    most = len(trace.kernels) if page.verbose else MOST_KERNELS
    shown = trace.kernels[:most]
    yield from _table(KERNEL, KERNEL_COLUMNS, [_kernel(one) for one in shown], page)
    if len(trace.kernels) > most:
        yield Line(body=write(page, (f"and {len(trace.kernels) - most} more: -v shows them", "dim")))
    made = dict.fromkeys(one.made_by for one in shown)
    yield Line(lead=Text("- "), body=write(page, f"made by {', '.join(made)}"))
    silent = dict.fromkeys(one.made_by for one in shown if one.grid is None)
    if silent:
        yield Line(lead=Text("- "), body=write(page, f"?: {', '.join(silent)} does not tell"))
    notes = dict.fromkeys(f"{one.layer}: {one.note}" for one in shown if one.note) if page.verbose else ()
    yield from (Line(lead=Text("- "), body=write(page, note)) for note in notes)
    yield Line(lead=Text("- "), body=write(page, "regs: registers a thread; shared: bytes a block; occ.: occupancy"))


def _kernel(one: KernelLaunch) -> tuple[str, ...]:
    shared = None if one.shared_static is None else one.shared_static + (one.shared_dynamic or 0)
    return (
        one.name,
        extent(one.grid),
        extent(one.block),
        "?" if one.registers is None else str(one.registers),
        "?" if shared is None else str(shared),
        percent(one.occupancy) or "?",
        waves(one),
        units(one),
    )


def batches(points: Sequence[BatchTime], page: Page) -> Iterator[Line]:
    """Give what each batch took on the CPU and on the GPU."""
    if points:
        yield from _table(BATCH, BATCH_COLUMNS, [_batch(one) for one in points], page)


def _batch(one: BatchTime) -> tuple[str, ...]:
    gain = one.cpu_seconds / one.gpu_seconds if one.cpu_seconds and one.gpu_seconds else None
    times = (one.cpu_seconds, one.gpu_seconds, one.kernel_seconds, one.transfer_seconds)
    return (str(one.batch), *map(duration, times), "" if gain is None else f"{three(gain)} times")


def _table(names: Sequence[str], columns: Sequence[int], rows: Sequence[tuple[str, ...]], page: Page) -> Iterator[Line]:
    """Give rows under their names (a negative width is set to the left); on a narrow page, each row as a list.

    A column of which nothing is known is left out.
    """
    known = [at for at in range(len(names)) if any(row[at] for row in rows)]
    names, columns = [names[at] for at in known], [columns[at] for at in known]
    rows = [tuple(row[at] for at in known) for row in rows]
    if page.narrow:
        for row in rows:
            told = (f"{name} {said}" for name, said in zip(names[1:], row[1:], strict=True) if said)
            yield Line(body=write(page, (row[0], "head"), f": {', '.join(told)}"), hang=Text("  "))
        return
    yield Line(body=write(page, (_row(names, columns), "dim")), whole=True)
    for row in rows:
        yield Line(body=write(page, _row([page.show(cell) for cell in row], columns)), whole=True)


def _row(cells: Sequence[str], columns: Sequence[int]) -> str:
    """Give the cells side by side; one that is too long takes from the one after it, or is cut where it is a name."""
    made, owed = list[str](), 0
    for cell, wide in zip(cells, columns, strict=True):
        room = abs(wide) - owed
        fits = cell if wide > 0 or len(cell) <= room else f"{cell[: room - 1]}…"
        made.append(fits.ljust(room) if wide < 0 else fits.rjust(room))
        owed = max(0, len(fits) - room)
    return " ".join(made).rstrip()
