"""The model in numpy: in float64 it is the reference for results, in float32 the run on the CPU."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import singledispatch
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from gpustack.errors import NothingSeenError
from gpustack.trace import ops
from gpustack.trace.counting import TAPS, Roof, total
from gpustack.trace.models import Model, build

if TYPE_CHECKING:
    from types import ModuleType

    import numpy as np
    from numpy.typing import NDArray

    Array: TypeAlias = NDArray[np.floating]

SINGLE = 4  # bytes of a number in numpy, whatever the model's precision
SIDE = 1024  # of the square product that shows what a CPU can do
COPIED, CACHED = 1 << 26, 1 << 20  # bytes of the copies through memory and within the cache
TRIES = 4
CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
INSTALL = "pip install numpy"
BUDGET = 1e11  # operations in float64 that a check may take: about a second on 16 cores
UNROLLED = 1 << 22  # numbers of a convolution unrolled at a time, to stay in a cache
GELU = math.sqrt(2 / math.pi), 0.044715


def numpy() -> ModuleType:
    """Return numpy; raises NothingSeenError with the command to install it if it is missing."""
    try:
        import numpy as np  # noqa: PLC0415 - the core does without it
    except ImportError as error:
        raise NothingSeenError(f"numpy is not installed ({error}); to fix it: {INSTALL}") from error
    return np


def load(model: Model) -> dict[str, Array]:
    """Return the weights and the input of a model by name, as float32 numbers rounded to its precision."""
    numpy()
    return {one.name: ops.made(model, one) for one in (*model.weights, model.input)}


def sample(model: Model, budget: float = BUDGET) -> tuple[int, ...]:
    """Return which inputs of the batch are checked: all if that is cheap, else some from the first to the last."""
    most = max(1, min(model.batch, int(budget * model.batch / total(model))))
    if most == 1:
        return (model.batch - 1,)
    return tuple(round(place * (model.batch - 1) / (most - 1)) for place in range(most))


def part(array: Array, model: Model, items: tuple[int, ...]) -> Array:
    """Return the rows of input or output that belong to these inputs of the batch."""
    rows = array.shape[0] // model.batch
    chosen: Array = array.reshape(model.batch, -1)[list(items)].reshape(len(items) * rows, *array.shape[1:])
    return chosen


def truth(model: Model, values: Mapping[str, Array], items: tuple[int, ...]) -> Array:
    """Return the correct output for these inputs of the batch, computed in float64 from the model's own numbers."""
    some = build(model.name, model.size, model.precision, len(items))
    given = {**values, model.input.name: part(values[model.input.name], model, items)}
    answer: Array = numpy().zeros(0)
    for op, result, _ in forward(some, given, "float64"):
        answer = result[ops.outs(op)[-1]]
    return answer


def forward(
    model: Model, values: Mapping[str, Array], kind: str = "float32", clock: Callable[[], float] = time.perf_counter
) -> Iterator[tuple[ops.Op, Mapping[str, Array], float]]:
    """Run the model layer by layer; yield each layer with its output and the seconds it took.

    Tensors that no later layer reads are freed. In float64 each weight is widened only for its layer.
    """
    left = {name: place for place, op in enumerate(model.ops) for name in ops.sources(op)}
    held: dict[str, Array] = {model.input.name: values[model.input.name].astype(kind)}
    weights = _Widened(values, kind)
    for place, op in enumerate(model.ops):
        begun = clock()
        results = compute(op, held, weights)
        seconds = clock() - begun
        held |= results
        yield op, results, seconds
        held = {name: array for name, array in held.items() if left.get(name, -1) > place}


class _Widened:
    """Weights by name, each widened on access."""

    def __init__(self, values: Mapping[str, Array], kind: str) -> None:
        self._values = values
        self._kind = kind

    def __getitem__(self, name: str) -> Array:
        wide: Array = self._values[name].astype(self._kind, copy=False)
        return wide


@singledispatch
def compute(op: ops.Op, held: Mapping[str, Array], weights: _Widened) -> dict[str, Array]:
    """Return what a layer writes, by name."""
    raise NotImplementedError


@compute.register(ops.Gemm)
def _(op: ops.Gemm, held: Mapping[str, Array], weights: _Widened) -> dict[str, Array]:
    return {op.out: held[op.source] @ weights[op.weight].T}


@compute.register(ops.Bias)
def _(op: ops.Bias, held: Mapping[str, Array], weights: _Widened) -> dict[str, Array]:
    np = numpy()
    out = held[op.source] + weights[op.bias]
    if op.activation is ops.Activation.RELU:
        np.maximum(out, 0, out=out)
    elif op.activation is ops.Activation.GELU:
        root, cubic = GELU
        out *= 0.5 * (1 + np.tanh(root * (out + cubic * out * out * out)))
    return {op.out: out}


@compute.register(ops.Conv2d)
def _(op: ops.Conv2d, held: Mapping[str, Array], weights: _Widened) -> dict[str, Array]:
    np = numpy()
    source, weight = held[op.source], weights[op.weight]
    images, high, wide, deep = source.shape
    out = np.empty((images, high, wide, len(weight)), source.dtype)
    some = max(1, UNROLLED // (high * wide * TAPS * deep))
    for begin in range(0, images, some):
        padded = np.pad(source[begin : begin + some], ((0, 0), (1, 1), (1, 1), (0, 0)))
        seen = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2))
        unrolled = seen.transpose(0, 1, 2, 4, 5, 3).reshape(-1, TAPS * deep)
        product = unrolled @ weight.reshape(len(weight), -1).T
        out[begin : begin + some] = product.reshape(-1, high, wide, len(weight))
    return {op.out: out}


@compute.register(ops.Pool)
def _(op: ops.Pool, held: Mapping[str, Array], _weights: _Widened) -> dict[str, Array]:
    source = held[op.source]
    if op.how is ops.Pooling.MEAN:
        return {op.out: source.mean(axis=(1, 2))}
    images, high, wide, deep = source.shape
    return {op.out: source.reshape(images, high // 2, 2, wide // 2, 2, deep).max(axis=(2, 4))}


@compute.register(ops.LayerNorm)
def _(op: ops.LayerNorm, held: Mapping[str, Array], weights: _Widened) -> dict[str, Array]:
    np = numpy()
    source = held[op.source]
    centred = source - source.mean(axis=-1, keepdims=True)
    spread = np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + op.epsilon)
    return {op.out: centred / spread * weights[op.gamma] + weights[op.beta]}


@compute.register(ops.SplitHeads)
def _(op: ops.SplitHeads, held: Mapping[str, Array], _weights: _Widened) -> dict[str, Array]:
    np = numpy()
    source = held[op.source]
    split = source.reshape(-1, op.sequence, 3, op.heads, source.shape[1] // 3 // op.heads).transpose(2, 0, 3, 1, 4)
    q, k, v = (np.ascontiguousarray(one).reshape(-1, op.sequence, split.shape[-1]) for one in split)
    return {op.q: q, op.k: k, op.v: np.ascontiguousarray(v.transpose(0, 2, 1))}


@compute.register(ops.HeadGemm)
def _(op: ops.HeadGemm, held: Mapping[str, Array], _weights: _Widened) -> dict[str, Array]:
    return {op.out: held[op.left] @ held[op.right].transpose(0, 2, 1)}


@compute.register(ops.Softmax)
def _(op: ops.Softmax, held: Mapping[str, Array], _weights: _Widened) -> dict[str, Array]:
    np = numpy()
    scaled = held[op.source] * held[op.source].dtype.type(op.scale)
    if op.causal:
        rows, columns = scaled.shape[-2:]
        scaled = np.where(np.tri(rows, columns, dtype=bool), scaled, -np.inf).astype(scaled.dtype, copy=False)
    scaled -= scaled.max(axis=-1, keepdims=True)
    np.exp(scaled, out=scaled)
    scaled /= scaled.sum(axis=-1, keepdims=True)
    return {op.out: scaled}


@compute.register(ops.MergeHeads)
def _(op: ops.MergeHeads, held: Mapping[str, Array], _weights: _Widened) -> dict[str, Array]:
    source = held[op.source]
    every, sequence, depth = source.shape
    split = source.reshape(every // op.heads, op.heads, sequence, depth).transpose(0, 2, 1, 3)
    return {op.out: split.reshape(-1, op.heads * depth)}


@compute.register(ops.Residual)
def _(op: ops.Residual, held: Mapping[str, Array], _weights: _Widened) -> dict[str, Array]:
    return {op.out: held[op.left] + held[op.right]}


def measured_roof(clock: Callable[[], float] = time.perf_counter) -> Roof:
    """Return what this CPU reaches with numpy: two copies, a square product, and a negligibly small addition."""
    np = numpy()
    left, source = np.ones((SIDE, SIDE), np.float32), np.ones(COPIED // SINGLE, np.float32)
    product, target, one = np.empty_like(left), np.empty_like(source), np.ones(1, np.float32)
    moved = _best(lambda: np.copyto(target, source), clock)
    small, near = source[: CACHED // SINGLE], target[: CACHED // SINGLE]
    within = _best(lambda: np.copyto(near, small), clock)
    multiplied = _best(lambda: np.matmul(left, left, out=product), clock)
    return Roof(
        cache_bytes=cache_bytes(),
        cache_gigabytes_a_second=2 * CACHED / within / 1e9,
        gigabytes_a_second=2 * COPIED / moved / 1e9,
        tflops=2 * SIDE**3 / multiplied / 1e12,
        launch_seconds=_best(lambda: np.add(one, one, out=one), clock),
    )


def cache_bytes() -> int:
    """Return the size of this CPU's largest cache; if unknown, that of the copies within the cache."""
    sizes = [2 * CACHED]
    for path in CACHES.glob("index*/size"):
        with suppress(OSError, ValueError):
            sizes.append(int(path.read_text("ascii").strip().removesuffix("K")) << 10)
    return max(sizes)


def _best(work: Callable[[], object], clock: Callable[[], float]) -> float:
    times = []
    for _ in range(TRIES):
        begun = clock()
        work()
        times.append(clock() - begun)
    return max(min(times), 1e-9)
