"""Kernels as the driver knows them: registers, shared memory and occupancy of a function, and which a work launches.

For the latter, work is captured into a CUDA graph, whose nodes tell grid, block and function: so the grid of a
library's kernel is known without a profiler, and what is not told stays None. ctypes and the symbols of CUDA 12.0, as
in the bench: bindings differ. Structures and numbers are those of cuda.h.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass

from gpustack.bench.calls import LIBRARY, THIS_THREAD, RefusedError

KERNEL_NODE = 0
THREADS_AT_MOST, SHARED, REGISTERS = 0, 1, 4  # CUfunction_attribute
WARP = 32
NAME = 200


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One kernel in a graph: its sizes, and what its function and the driver tell of it."""

    name: str | None
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    registers: int | None
    shared_static: int | None
    shared_dynamic: int
    resident: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Captured:
    """A captured graph: its handle, how many nodes it has, and the kernels among them."""

    nodes: int
    kernels: tuple[Node, ...]


def known(function: int, sizes: tuple[tuple[int, int, int], tuple[int, int, int], int]) -> Node:
    """Give what the driver tells of a function that is launched with this grid, block and dynamic shared memory."""
    grid, block, shared = sizes
    return _asked(ctypes.CDLL(LIBRARY), ctypes.c_void_p(function), grid, block, shared)


def kernels(enqueue: Callable[[], None], stream: int) -> Captured:
    """Give the kernels of what this enqueues, which is not run; raises RefusedError where the driver refuses."""
    library, ordered, graph = ctypes.CDLL(LIBRARY), ctypes.c_void_p(stream), ctypes.c_void_p()
    _must(library, "cuStreamBeginCapture_v2", ordered, ctypes.c_int(THIS_THREAD))
    try:
        enqueue()
    finally:
        _must(library, "cuStreamEndCapture", ordered, ctypes.byref(graph))
    try:
        return _read(library, graph)
    finally:
        _must(library, "cuGraphDestroy", graph)


def _read(library: ctypes.CDLL, graph: ctypes.c_void_p) -> Captured:
    count = ctypes.c_size_t()
    _must(library, "cuGraphGetNodes", graph, None, ctypes.byref(count))
    nodes = (ctypes.c_void_p * count.value)()
    _must(library, "cuGraphGetNodes", graph, nodes, ctypes.byref(count))
    seen = [_node(library, ctypes.c_void_p(node)) for node in nodes]
    return Captured(nodes=count.value, kernels=tuple(node for node in seen if node))


def _node(library: ctypes.CDLL, node: ctypes.c_void_p) -> Node | None:
    kind, params = ctypes.c_int(), _Params()
    _must(library, "cuGraphNodeGetType", node, ctypes.byref(kind))
    if kind.value != KERNEL_NODE:
        return None
    _must(library, "cuGraphKernelNodeGetParams_v2", node, ctypes.byref(params))
    function = ctypes.c_void_p(params.function)
    if not function.value:
        _must(library, "cuKernelGetFunction", ctypes.byref(function), ctypes.c_void_p(params.kernel))
    x, y, z, wide, high, deep = params.sizes
    return _asked(library, function, (x, y, z), (wide, high, deep), params.shared)


def _asked(
    library: ctypes.CDLL,
    function: ctypes.c_void_p,
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    shared: int,
) -> Node:
    return Node(
        name=_name(library, function),
        grid=grid,
        block=block,
        registers=_attribute(library, function, REGISTERS),
        shared_static=_attribute(library, function, SHARED),
        shared_dynamic=shared,
        resident=_resident(library, function, block[0] * block[1] * block[2], shared),
    )


def _attribute(library: ctypes.CDLL, function: ctypes.c_void_p, which: int) -> int | None:
    value = ctypes.c_int()
    refused = library.cuFuncGetAttribute(ctypes.byref(value), ctypes.c_int(which), function)
    return None if refused else value.value


def _resident(library: ctypes.CDLL, function: ctypes.c_void_p, threads: int, shared: int) -> int | None:
    """Give how many blocks of this size a multiprocessor holds at once."""
    blocks = ctypes.c_int()
    given = ctypes.byref(blocks), function, ctypes.c_int(threads), ctypes.c_size_t(shared)
    return None if library.cuOccupancyMaxActiveBlocksPerMultiprocessor(*given) else blocks.value


def _name(library: ctypes.CDLL, function: ctypes.c_void_p) -> str | None:
    """Give the name of a function; drivers before CUDA 12.3 do not tell it."""
    said = ctypes.c_char_p()
    try:
        refused = library.cuFuncGetName(ctypes.byref(said), function)
    except AttributeError:
        return None
    return None if refused or not said.value else said.value.decode("utf-8", "replace")[:NAME]


def _must(library: ctypes.CDLL, name: str, *given: object) -> None:
    try:
        code = getattr(library, name)(*given)
    except AttributeError as error:
        raise RefusedError(f"this driver has no {name}") from error
    if code:
        raise RefusedError(f"{name} answered {code}")
