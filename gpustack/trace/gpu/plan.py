"""A model as launches: kernels of ``microbench/trace.cu`` with grid and block, and matrix products.

One thread works on 16 bytes of an elementwise layer; a block of 256 threads has its own row of a layernorm or softmax.
A convolution is unrolled (im2col) and multiplied; if its rows are not multiples of 16 bytes they are padded, and so are
its weights, once.
"""

from __future__ import annotations

import ctypes
import math
from functools import singledispatch
from typing import TYPE_CHECKING, TypeAlias

from gpustack.errors import UsageError
from gpustack.model import record
from gpustack.trace import ops
from gpustack.trace.counting import TAPS

FILE = "trace"
THREADS, SIDE = 256, 32
TILE = SIDE, 8, 1
PACK = {"fp32": 4, "fp16": 8, "bf16": 8}  # numbers in 16 bytes
WHOLE = 8  # rows of a product are padded to a multiple of this many numbers, whatever the precision
FLOAT = 4
MOST = 1 << 32

if TYPE_CHECKING:
    from gpustack.trace.models import Model

Grid: TypeAlias = tuple[int, int, int]
Given: TypeAlias = str | int | float  # the name of a tensor, or a number of 32 bits


@record
class Launch:
    """One launch of a kernel; ``shared`` is a block's dynamic shared memory in bytes."""

    layer: str
    kernel: str
    grid: Grid
    block: Grid
    arguments: tuple[Given, ...]
    shared: int = 0


@record
class Multiply:
    """One matrix product by cuBLASLt: D = A transposed x B column by column, which is y = b x a transposed row by row.

    A is k x m, B is k x n, D is m x n; a batch is of so many, one behind the other.
    """

    layer: str
    m: int
    n: int
    k: int
    a: str
    b: str
    d: str
    batch: int = 1

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """What two products have in common if the library treats them alike."""
        return self.m, self.n, self.k, self.batch


Work: TypeAlias = Launch | Multiply


@record
class Plan:
    """A model's launches: one-time work on its weights, the work of each pass, and additional tensors.

    ``kept`` are the sizes of tensors derived from weights, ``scratch`` of those passed only to the next launch.
    """

    once: tuple[Launch, ...]
    passes: tuple[Work, ...]
    kept: dict[str, int]
    scratch: dict[str, int]

    def of(self, layer: str) -> tuple[Work, ...]:
        """Return the launches of one layer."""
        return tuple(work for work in self.passes if work.layer == layer)


def plan(model: Model) -> Plan:
    """Return the launches of a model; raises UsageError if a tensor is too large for 32-bit indices."""
    once, passes, kept, scratch = list[Launch](), list[Work](), dict[str, int](), dict[str, int]()
    for op in model.ops:
        works = launches(op, model)
        passes += works
        if isinstance(op, ops.Conv2d):
            unrolled = columns(op), math.prod(model.shape(op.out)[:3]) * _padded(op, model)
            scratch[unrolled[0]] = unrolled[1]
            if weight := _widened(op, model):
                once.append(weight)
                kept[padded(op)] = math.prod(model.shape(op.out)[3:]) * _padded(op, model)
    largest = max([one.count for one in model.tensors] + list(scratch.values()))
    if largest >= MOST:
        raise UsageError(f"a tensor of {model.name} has {largest} numbers: too many; use a smaller --size")
    return Plan(once=tuple(once), passes=tuple(passes), kept=kept, scratch=scratch)


def number(given: int | float) -> ctypes.c_uint32 | ctypes.c_float:  # noqa: PYI041 - which of the two it is counts
    """Return a number as a kernel takes it."""
    return ctypes.c_float(given) if isinstance(given, float) else ctypes.c_uint32(given)


def columns(op: ops.Conv2d) -> str:
    """Return the name of a convolution's unrolled input."""
    return f"{op.name}.columns"


def padded(op: ops.Conv2d) -> str:
    """Return the name of a convolution's weights with padded rows."""
    return f"{op.name}.weight.padded"


@singledispatch
def launches(op: ops.Op, model: Model) -> list[Work]:
    """Return the launches of one layer."""
    raise NotImplementedError


@launches.register(ops.Gemm)
def _(op: ops.Gemm, model: Model) -> list[Work]:
    rows, depth = model.shape(op.source)
    wide = model.shape(op.weight)[0]
    return [Multiply(layer=op.name, m=wide, n=rows, k=depth, a=op.weight, b=op.source, d=op.out)]


@launches.register(ops.HeadGemm)
def _(op: ops.HeadGemm, model: Model) -> list[Work]:
    heads, rows, depth = model.shape(op.left)
    wide = model.shape(op.right)[1]
    return [Multiply(layer=op.name, m=wide, n=rows, k=depth, a=op.right, b=op.left, d=op.out, batch=heads)]


@launches.register(ops.Bias)
def _(op: ops.Bias, model: Model) -> list[Work]:
    count, last = math.prod(model.shape(op.out)), model.shape(op.out)[-1]
    grid = _threads(count, PACK[model.precision])
    return [_launch(op, f"bias_{op.activation.value}", model, grid, (op.out, op.source, op.bias, count, last))]


@launches.register(ops.Residual)
def _(op: ops.Residual, model: Model) -> list[Work]:
    count = math.prod(model.shape(op.out))
    return [_launch(op, "residual", model, _threads(count, PACK[model.precision]), (op.out, op.left, op.right, count))]


@launches.register(ops.LayerNorm)
def _(op: ops.LayerNorm, model: Model) -> list[Work]:
    rows, wide = model.shape(op.out)
    given = op.out, op.source, op.gamma, op.beta, wide, float(op.epsilon)
    return [_launch(op, "layernorm", model, (rows, 1, 1), given, shared=wide * FLOAT)]


@launches.register(ops.Softmax)
def _(op: ops.Softmax, model: Model) -> list[Work]:
    heads, rows, wide = model.shape(op.out)
    given = op.out, op.source, rows, wide, float(op.scale), int(op.causal)
    return [_launch(op, "softmax", model, (heads * rows, 1, 1), given, shared=wide * FLOAT)]


@launches.register(ops.SplitHeads)
def _(op: ops.SplitHeads, model: Model) -> list[Work]:
    every, sequence, depth = model.shape(op.q)
    grid = _parts(sequence, SIDE), _parts(depth, SIDE), every
    given = op.q, op.k, op.v, op.source, sequence, op.heads, depth
    return [_launch(op, "split_heads", model, grid, given, block=TILE)]


@launches.register(ops.MergeHeads)
def _(op: ops.MergeHeads, model: Model) -> list[Work]:
    _, sequence, depth = model.shape(op.source)
    count = math.prod(model.shape(op.out))
    given = op.out, op.source, count, sequence, op.heads, depth
    return [_launch(op, "merge_heads", model, _threads(count, _whole(depth, model)), given)]


@launches.register(ops.Pool)
def _(op: ops.Pool, model: Model) -> list[Work]:
    images, high, broad, channels = model.shape(op.source)
    if op.how is ops.Pooling.MEAN:
        grid = _parts(channels, SIDE), images, 1
        return [_launch(op, "pool_mean", model, grid, (op.out, op.source, high * broad, channels), block=TILE)]
    count = math.prod(model.shape(op.out))
    given = op.out, op.source, count, high, broad, channels
    return [_launch(op, "pool_max2", model, _threads(count, _whole(channels, model)), given)]


@launches.register(ops.Conv2d)
def _(op: ops.Conv2d, model: Model) -> list[Work]:
    images, high, broad, channels = model.shape(op.source)
    rows, wide, deep = images * high * broad, model.shape(op.out)[-1], _padded(op, model)
    given = columns(op), op.source, rows * deep, high, broad, channels, deep
    weight = padded(op) if _widened(op, model) else op.weight
    return [
        _launch(op, "im2col", model, _threads(rows * deep, _whole(channels, model)), given),
        Multiply(layer=op.name, m=wide, n=rows, k=deep, a=weight, b=columns(op), d=op.out),
    ]


def _padded(op: ops.Conv2d, model: Model) -> int:
    return _parts(TAPS * model.shape(op.source)[-1], WHOLE) * WHOLE


def _widened(op: ops.Conv2d, model: Model) -> Launch | None:
    """Return the launch that pads a convolution's weights, or None if their rows need no padding."""
    deep, wide = TAPS * model.shape(op.source)[-1], _padded(op, model)
    if deep == wide:
        return None
    count = model.shape(op.weight)[0] * wide
    return _launch(op, "pad", model, _threads(count, 1), (padded(op), op.weight, count, deep, wide))


def _whole(numbers: int, model: Model) -> int:
    """Return how many numbers a thread handles at once, 16 bytes only if these are whole."""
    return PACK[model.precision] if numbers % PACK[model.precision] == 0 else 1


def _threads(count: int, each: int) -> Grid:
    """Return the grid for this many numbers, with this many per thread."""
    return _parts(count, each * THREADS), 1, 1


def _launch(
    op: ops.Op,
    kernel: str,
    model: Model,
    grid: Grid,
    arguments: tuple[Given, ...],
    *,
    block: Grid = (THREADS, 1, 1),
    shared: int = 0,
) -> Launch:
    name = f"{kernel}_{model.precision}"
    return Launch(layer=op.name, kernel=name, grid=grid, block=block, arguments=arguments, shared=shared)


def _parts(count: int, each: int) -> int:
    return -(-count // each)
