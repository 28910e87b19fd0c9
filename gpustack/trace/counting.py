"""Operations and bytes of each layer, counted from its shapes, and where that puts it on the roofline.

A product of m x k and k x n is 2 m n k operations. Of the others each number takes: bias 1, relu 1, gelu 8, a pooled
pixel 1, layernorm 8, softmax 6, residual 1; moving numbers takes none. Bytes are what must be read and written once:
a kernel that reads something twice moves more. The roofline is that of Williams, Waterman and Patterson
(doi:10.1145/1498765.1498785): the least of the peak of the arithmetic, and intensity x bandwidth.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from gpustack.model.trace import Bound, Subject, TensorLayer
from gpustack.trace import ops
from gpustack.trace.models import WIDTH, Model

TAPS = 9  # of a convolution 3 x 3
ACTIVATIONS = {ops.Activation.NONE: 0, ops.Activation.RELU: 1, ops.Activation.GELU: 8}
LAYERNORM, SOFTMAX = 8, 6
USUAL_LAUNCH = 2.5e-6  # seconds, where nothing tells what a launch costs


@dataclass(frozen=True, slots=True, kw_only=True)
class Roof:
    """What limits a layer: bytes a second of the memory, operations a second of the units, seconds of a launch."""

    gigabytes_a_second: float | None = None
    tflops: float | None = None
    launch_seconds: float = 0.0


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
    """Return a layer with its operations and bytes, not timed yet; ``width`` is that of a number, else the model's."""
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
    """Return a layer with its place under the roofline: what limits it at best, and the TFLOP/s that it could reach."""
    moved = (seen.bytes_read + seen.bytes_written) / 1e9
    if not roof.gigabytes_a_second or not moved:
        return seen
    waiting = moved / roof.gigabytes_a_second
    working = seen.flops / 1e12 / roof.tflops if roof.tflops else 0.0
    least = max(waiting, working)
    bound = Bound.COMPUTE if working > waiting else Bound.MEMORY
    attainable = seen.flops / 1e12 / least if seen.flops else None
    return replace(seen, bound=Bound.LAUNCH if roof.launch_seconds > least else bound, attainable=attainable)


def subject(model: Model) -> Subject:
    """Return what a trace says of its model."""
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
