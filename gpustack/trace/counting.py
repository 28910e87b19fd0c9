"""Operations and bytes of each layer, counted from its shapes, and where that puts it under the roofline.

A product of m x k and k x n is 2 m n k operations. The others take per number: bias 1, relu 1, gelu 8, a pooled pixel
1, layernorm 8, softmax 6, residual 1; moving numbers takes none. Bytes are what must be read and written once: a kernel
that reads something twice moves more. The roofline is that of Williams, Waterman and Patterson
(doi:10.1145/1498765.1498785): the minimum of the arithmetic peak and intensity x bandwidth.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from gpustack.bench import ceilings, results
from gpustack.model import record, replace
from gpustack.model.trace import Bound, Figure, Subject, TensorLayer
from gpustack.trace import ops
from gpustack.trace.models import WIDTH, Model

if TYPE_CHECKING:
    from gpustack.matrix import Matrix
    from gpustack.model.bench import Device

TAPS = 9  # of a convolution 3 x 3
ACTIVATIONS = {ops.Activation.NONE: 0, ops.Activation.RELU: 1, ops.Activation.GELU: 8}
LAYERNORM, SOFTMAX = 8, 6
USUAL_LAUNCH = 2.5e-6  # seconds, where nothing tells what a launch costs


@record
class Roof:
    """The limits of a layer: bandwidth of memory and cache, rate of the arithmetic units, cost of a launch.

    A layer whose bytes all fit into the cache may find them there, so the cache is its limit instead of the memory.
    """

    gigabytes_a_second: float | None = None
    tflops: float | None = None
    launch_seconds: float = 0.0
    cache_bytes: float = 0.0
    cache_gigabytes_a_second: float | None = None

    def holds(self, seen: TensorLayer) -> bool:
        """Return whether a known cache can hold everything that a layer reads and writes."""
        return bool(self.cache_gigabytes_a_second) and seen.bytes_read + seen.bytes_written <= self.cache_bytes


def flops(op: ops.Op, model: Model) -> float:
    """Return the operations of one layer."""
    size = math.prod(model.shape(ops.outs(op)[0]))
    if isinstance(op, ops.Gemm):
        return 2.0 * size * model.shape(op.weight)[1]
    if isinstance(op, ops.HeadGemm):
        return 2.0 * size * model.shape(op.left)[-1]
    if isinstance(op, ops.Conv2d):
        return 2.0 * size * TAPS * model.shape(op.source)[-1]
    return float(_each(op, size, model))


def _each(op: ops.Op, size: int, model: Model) -> int:
    if isinstance(op, ops.Bias):
        return size * (1 + ACTIVATIONS[op.activation])
    if isinstance(op, ops.Pool):
        return math.prod(model.shape(op.source))
    counts = {ops.LayerNorm: LAYERNORM, ops.Softmax: SOFTMAX, ops.Residual: 1}
    return size * counts.get(type(op), 0)


def layer(op: ops.Op, model: Model, width: int | None = None) -> TensorLayer:
    """Return a layer with its operations and bytes, without a time; ``width`` is a number's bytes, else the model's."""
    wide = width or model.width
    read = sum(math.prod(model.shape(name)) for name in (*ops.sources(op), *ops.weights(op)))
    written = sum(math.prod(model.shape(name)) for name in ops.outs(op))
    return TensorLayer(
        name=op.name,
        op=ops.kind(op),
        shape_in=model.shape(ops.sources(op)[0]),
        shape_out=model.shape(ops.outs(op)[0]),
        flops=flops(op, model),
        bytes_read=read * wide,
        bytes_written=written * wide,
    )


def layers(model: Model, width: int | None = None) -> tuple[TensorLayer, ...]:
    """Return all layers of a model, not timed yet."""
    return tuple(layer(op, model, width) for op in model.ops)


def total(model: Model) -> float:
    """Return the operations of one pass."""
    return sum(flops(op, model) for op in model.ops)


def place(seen: TensorLayer, roof: Roof) -> TensorLayer:
    """Return a layer with its place under the roofline: its limit, and the attainable TFLOP/s."""
    moved = (seen.bytes_read + seen.bytes_written) / 1e9
    bandwidth = roof.cache_gigabytes_a_second if roof.holds(seen) else roof.gigabytes_a_second
    if not bandwidth or not moved:
        return seen
    waiting = moved / bandwidth
    working = seen.flops / 1e12 / roof.tflops if roof.tflops else 0.0
    least = max(waiting, working)
    bound = Bound.COMPUTE if working > waiting else Bound.MEMORY
    attainable = seen.flops / 1e12 / least if seen.flops else None
    bound = Bound.LAUNCH if roof.launch_seconds > least else bound
    return replace(seen, bound=bound, attainable=attainable, least_seconds=least)


def raised(roof: Roof, ran: Sequence[TensorLayer]) -> Roof:
    """Return a measured roof no lower than the rates of the layers, which are evidently possible."""
    speeds = {held: [one.gigabytes_a_second or 0.0 for one in ran if roof.holds(one) is held] for held in (True, False)}
    return replace(
        roof,
        tflops=_most(roof.tflops, (one.tflops or 0.0 for one in ran)),
        gigabytes_a_second=_most(roof.gigabytes_a_second, speeds[False]),
        cache_gigabytes_a_second=_most(roof.cache_gigabytes_a_second, speeds[True]),
    )


def _most(measured: float | None, reached: Iterable[float]) -> float | None:
    return max((measured, *reached)) if measured else None


def under(
    memory: Figure | None, compute: Figure | None, cache: Figure | None, device: Device | None, launch: float
) -> Roof:
    """Return the roof for these limits of a GPU."""
    return Roof(
        gigabytes_a_second=memory.limit if memory else None,
        tflops=compute.limit if compute else None,
        launch_seconds=launch,
        cache_bytes=(device.l2_mib or 0.0) * (1 << 20) if device else 0.0,
        cache_gigabytes_a_second=cache.limit if cache else None,
    )


def cache(device: Device | None, matrix: Matrix) -> Figure | None:
    """Return the limit of a GPU's second-level cache, from its row and clock."""
    if device is None:
        return None
    architecture = results.architecture(matrix, device)
    found = ceilings.level2(device, architecture.level2 if architecture else None, None)
    return Figure(name="l2", value=found.best, unit="GB/s", note=found.source) if found.best else None


def subject(model: Model) -> Subject:
    """Return the description of a trace's model."""
    return Subject(
        name=model.name,
        size=model.size,
        precision=model.precision,
        batch=model.batch,
        parameters=model.parameters,
        weight_bytes=model.parameters * WIDTH[model.precision],
        input_shape=model.input.shape,
        output_shape=model.output.shape,
        flops=total(model),
        seed=model.seed,
    )
