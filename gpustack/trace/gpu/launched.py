"""Each kernel of a pass as a row: its grid and block, what its function takes, and how it fills the multiprocessors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.bench.calls import RefusedError
from gpustack.model.trace import WARP, KernelLaunch
from gpustack.trace.gpu.nodes import Node, kernels, known
from gpustack.trace.gpu.plan import FILE, Launch, Multiply, Work

if TYPE_CHECKING:
    from gpustack.bench.card import Card
    from gpustack.bench.cublaslt import Product
    from gpustack.trace.gpu.device import Run, Runner

LIBRARY = "cuBLASLt"


def launched(card: Card, runner: Runner, *, library_too: bool) -> list[KernelLaunch]:
    """Give a row for each kernel of one pass, in the order in which they run.

    ``library_too``: the kernels of cuBLASLt are looked for in captured graphs; else there is a row for each product.
    """
    return [row for work, run in runner.runs for row in _rows(card, runner, work, run if library_too else None)]


def _rows(card: Card, runner: Runner, work: Work, run: Run | None) -> list[KernelLaunch]:
    if isinstance(work, Launch):
        sizes = work.grid, work.block, work.shared
        return [_own(card, work, known(card.function(FILE, work.kernel), sizes))]
    try:
        nodes = kernels(run, card.stream).kernels if run else ()
    except RefusedError:  # an older driver, which does not tell
        nodes = ()
    way = runner.chosen[work.layer]
    return [_product(card, work, way, node) for node in nodes] or [_product(card, work, way, None)]


def _own(card: Card, work: Launch, node: Node) -> KernelLaunch:
    """Give the row of a kernel of ours."""
    made_by = "NVRTC" if card.how(FILE).startswith("compiled") else "the driver, from the shipped PTX"
    return KernelLaunch(
        name=work.kernel,
        layer=work.layer,
        made_by=made_by,
        grid=work.grid,
        block=work.block,
        registers=node.registers,
        shared_static=node.shared_static,
        shared_dynamic=work.shared,
        blocks_per_multiprocessor=node.resident,
        occupancy=occupancy(card, node),
        waves=waves(card, node),
        tensor_cores=False,
    )


def _product(card: Card, work: Multiply, way: Product, node: Node | None) -> KernelLaunch:
    """Give the row of a kernel of cuBLASLt: what the graph tells, and what the library tells of its algorithm."""
    told = way.tell()
    parts = [
        f"{work.m} x {work.n} x {work.k}" + (f", {work.batch} of them" if work.batch > 1 else ""),
        f"heuristic {way.rank + 1}",
        f"tile {told.tile}" if told.tile else "",
        f"k in {told.split} parts" if told.split and told.split > 1 else "",
        f"workspace {way.workspace >> 10} KiB" if way.workspace else "",
    ]
    return KernelLaunch(
        name=(node.name if node else None) or f"{LIBRARY} product",
        layer=work.layer,
        made_by=LIBRARY,
        grid=node.grid if node else None,
        block=node.block if node else None,
        registers=node.registers if node else None,
        shared_static=node.shared_static if node else None,
        shared_dynamic=node.shared_dynamic if node else None,
        blocks_per_multiprocessor=node.resident if node else None,
        occupancy=occupancy(card, node),
        waves=waves(card, node) or round(way.waves, 2) or None,
        tensor_cores=told.tensor_cores,
        note="; ".join(filter(None, parts)),
    )


def occupancy(card: Card, node: Node | None) -> float | None:
    """Give the part of a multiprocessor's warps that can be resident."""
    if node is None or not node.resident:
        return None
    threads = node.block[0] * node.block[1] * node.block[2]
    return node.resident * -(-threads // WARP) * WARP / card.threads


def waves(card: Card, node: Node | None) -> float | None:
    """Give how often the grid fills all multiprocessors."""
    if node is None or not node.resident:
        return None
    return node.grid[0] * node.grid[1] * node.grid[2] / (node.resident * card.multiprocessors)
