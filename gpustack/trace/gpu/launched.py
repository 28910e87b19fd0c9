"""Kernels as they were started: read from the nodes of a captured graph.

For the latter, work is captured into a CUDA graph, whose nodes tell grid, block and function: so the grid of a
library's kernel is known without a profiler, and what is not told stays None. ctypes and the symbols of CUDA 12.0, as
in the bench: bindings differ. Structures and numbers are those of cuda.h.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from gpustack.bench.calls import LIBRARY as LIBCUDA
from gpustack.bench.calls import RefusedError, graph_of, must
from gpustack.model.trace import WARP, KernelLaunch
from gpustack.trace.gpu.plan import FILE, Grid, Launch, Multiply, Work

if TYPE_CHECKING:
    from gpustack.bench.card import Card
    from gpustack.bench.cublaslt import Product
    from gpustack.trace.gpu.device import Run, Runner

KERNEL_NODE = 0
SHARED, REGISTERS = 1, 4  # CUfunction_attribute
NAME = 200
LIBRARY = "cuBLASLt"


class _Params(ctypes.Structure):
    """CUDA_KERNEL_NODE_PARAMS_v2."""

    _fields_ = (
        ("function", ctypes.c_void_p),
        ("sizes", ctypes.c_uint * 6),
        ("shared", ctypes.c_uint),
        ("arguments", ctypes.c_void_p),
        ("extra", ctypes.c_void_p),
        ("kernel", ctypes.c_void_p),
        ("context", ctypes.c_void_p),
        ("spare", ctypes.c_uint64 * 8),  # a younger driver may know more fields
    )


def kernels(enqueue: Callable[[], None], stream: int) -> list[KernelLaunch]:
    """Return the kernels of the work that this enqueues, without running it; raises RefusedError on an error."""
    library, count = ctypes.CDLL(LIBCUDA), ctypes.c_size_t()
    with graph_of(library, enqueue, stream) as graph:
        must(library, "cuGraphGetNodes", graph, None, ctypes.byref(count))
        nodes = (ctypes.c_void_p * count.value)()
        must(library, "cuGraphGetNodes", graph, nodes, ctypes.byref(count))
        return list(filter(None, (_node(library, ctypes.c_void_p(node)) for node in nodes)))


def _node(library: ctypes.CDLL, node: ctypes.c_void_p) -> KernelLaunch | None:
    kind, params = ctypes.c_int(), _Params()
    must(library, "cuGraphNodeGetType", node, ctypes.byref(kind))
    if kind.value != KERNEL_NODE:
        return None
    must(library, "cuGraphKernelNodeGetParams_v2", node, ctypes.byref(params))
    function = ctypes.c_void_p(params.function)
    if not function.value:
        must(library, "cuKernelGetFunction", ctypes.byref(function), ctypes.c_void_p(params.kernel))
    x, y, z, wide, high, deep = params.sizes
    return _asked(library, function, (x, y, z), (wide, high, deep), params.shared)


def _asked(library: ctypes.CDLL, function: ctypes.c_void_p, grid: Grid, block: Grid, shared: int) -> KernelLaunch:
    """Return the driver's details on a function launched with this grid, block and dynamic shared memory."""
    blocks = ctypes.c_int()
    given = ctypes.byref(blocks), function, ctypes.c_int(math.prod(block)), ctypes.c_size_t(shared)
    return KernelLaunch(
        name=_name(library, function),
        layer="",
        made_by="",
        grid=grid,
        block=block,
        registers=_attribute(library, function, REGISTERS),
        shared_static=_attribute(library, function, SHARED),
        shared_dynamic=shared,
        blocks_per_multiprocessor=None if library.cuOccupancyMaxActiveBlocksPerMultiprocessor(*given) else blocks.value,
    )


def _attribute(library: ctypes.CDLL, function: ctypes.c_void_p, which: int) -> int | None:
    value = ctypes.c_int()
    refused = library.cuFuncGetAttribute(ctypes.byref(value), ctypes.c_int(which), function)
    return None if refused else value.value


def _name(library: ctypes.CDLL, function: ctypes.c_void_p) -> str:
    """Return the name of a function, or an empty one; drivers before CUDA 12.3 do not report it."""
    said = ctypes.c_char_p()
    try:
        refused = library.cuFuncGetName(ctypes.byref(said), function)
    except AttributeError:
        return ""
    return "" if refused or not said.value else said.value.decode("utf-8", "replace")[:NAME]


def launched(card: Card, runner: Runner, *, library_too: bool) -> list[KernelLaunch]:
    """Return a row for each kernel of one pass, in the order in which they run.

    ``library_too``: the kernels of cuBLASLt are taken from captured graphs; else there is a row for each product.
    """
    return [row for work, run in runner.runs for row in _rows(card, runner, work, run if library_too else None)]


def _rows(card: Card, runner: Runner, work: Work, run: Run | None) -> list[KernelLaunch]:
    if isinstance(work, Launch):
        return [_own(card, work)]
    try:
        nodes = kernels(run, card.stream) if run else []
    except RefusedError:  # an older driver, which does not tell
        nodes = []
    nodes = nodes or [KernelLaunch(name="", layer="", made_by="")]
    return [_product(card, work, runner.chosen[work.layer], node) for node in nodes]


def _own(card: Card, work: Launch) -> KernelLaunch:
    """Return the row of one of our kernels."""
    function = ctypes.c_void_p(card.function(FILE, work.kernel))
    node = _asked(ctypes.CDLL(LIBCUDA), function, work.grid, work.block, work.shared)
    return replace(
        node,
        name=work.kernel,
        layer=work.layer,
        made_by="NVRTC" if card.how(FILE).startswith("compiled") else "the driver, from the shipped PTX",
        occupancy=occupancy(card, node),
        waves=waves(card, node),
        tensor_cores=False,
    )


def _product(card: Card, work: Multiply, way: Product, node: KernelLaunch) -> KernelLaunch:
    """Return the row of a cuBLASLt kernel: the graph's data, and the library's description of its algorithm."""
    told = way.tell()
    parts = [
        f"{work.m} x {work.n} x {work.k}" + (f", {work.batch} of them" if work.batch > 1 else ""),
        f"heuristic {way.rank + 1}",
        f"tile {told.tile}" if told.tile else "",
        f"k in {told.split} parts" if told.split and told.split > 1 else "",
        f"workspace {way.workspace >> 10} KiB" if way.workspace else "",
    ]
    return replace(
        node,
        name=node.name or f"{LIBRARY} product",
        layer=work.layer,
        made_by=LIBRARY,
        occupancy=occupancy(card, node),
        waves=waves(card, node) or round(way.waves, 2) or None,
        tensor_cores=told.tensor_cores,
        note="; ".join(filter(None, parts)),
    )


def occupancy(card: Card, node: KernelLaunch) -> float | None:
    """Return the share of a multiprocessor's warps that can be resident."""
    if not node.blocks_per_multiprocessor or node.warps is None:
        return None
    return node.blocks_per_multiprocessor * node.warps * WARP / card.threads


def waves(card: Card, node: KernelLaunch) -> float | None:
    """Return how many times the grid fills all multiprocessors."""
    if not node.blocks_per_multiprocessor or node.blocks is None:
        return None
    return node.blocks / (node.blocks_per_multiprocessor * card.multiprocessors)
