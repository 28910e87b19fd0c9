"""The operations of a model as pure data, and its numbers.

All tensors are stored row by row. Every matrix product has one form, y = a x b transposed: weights lie as (out, in),
and the second factor of a product of activations is stored transposed likewise. Images lie as (batch, height, width,
channels), the weights of a convolution as (out, height, width, in).

The hash is "lowbias32" of Chris Wellons' hash-prospector (https://github.com/skeeto/hash-prospector, public domain);
its 24 upper bits, as k / 2^24 + 2^-25, are uniform over 0 to 1. What it yields is rounded to the precision of the
model, and these rounded numbers are the model: the truth in float64 is computed from them too.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

from gpustack.model import record

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from gpustack.trace.models import Model, Tensor

    Floats: TypeAlias = NDArray[np.float32]
    Raw: TypeAlias = NDArray[np.float32] | NDArray[np.float16] | NDArray[np.uint16]

CHUNK = 1 << 16  # numbers at a time, so that they stay in the processor's cache
SHARE = 1 << 22  # numbers of one thread at a time
FIRST, SECOND = 0x7FEB352D, 0x846CA68B


class Activation(str, Enum):
    """What is applied after the bias. ``gelu`` is the form with tanh, as in GPT-2."""

    NONE = "none"
    RELU = "relu"
    GELU = "gelu"


class Pooling(str, Enum):
    """How pixels are reduced: the maximum of 2 x 2, or the mean of a whole channel."""

    MAX2 = "max2"
    MEAN = "mean"


@record
class Gemm:
    """out (m, n) = source (m, k) x weight (n, k) transposed."""

    name: str
    source: str
    weight: str
    out: str


@record
class Bias:
    """out = activation(source + bias), the bias along the last axis."""

    name: str
    source: str
    bias: str
    out: str
    activation: Activation = Activation.NONE


@record
class Conv2d:
    """A convolution 3 x 3 with stride 1, padded with one pixel of zeros, so that height and width stay."""

    name: str
    source: str
    weight: str
    out: str


@record
class Pool:
    """Fewer pixels: (n, h, w, c) becomes (n, h/2, w/2, c), or (n, c) for the mean."""

    name: str
    source: str
    out: str
    how: Pooling


@record
class LayerNorm:
    """Each row with mean 0 and variance 1 (the variance over n, plus ``epsilon``), times gamma, plus beta."""

    name: str
    source: str
    gamma: str
    beta: str
    out: str
    epsilon: float = 1e-5


@record
class SplitHeads:
    """(batch x sequence, 3 x heads x depth) becomes q and k as (batch x heads, sequence, depth), and v transposed.

    A row of the source holds q, k and v one after the other, each head by head. v is (batch x heads, depth, sequence).
    """

    name: str
    source: str
    q: str
    k: str
    v: str
    sequence: int
    heads: int


@record
class HeadGemm:
    """out (h, m, n) = left (h, m, k) x right (h, n, k) transposed, for each h: the products of attention."""

    name: str
    left: str
    right: str
    out: str


@record
class Softmax:
    """Softmax of each row of source x scale; ``causal``: position i does not see those after it (they become 0)."""

    name: str
    source: str
    out: str
    scale: float
    causal: bool = True


@record
class MergeHeads:
    """(batch x heads, sequence, depth) becomes (batch x sequence, heads x depth)."""

    name: str
    source: str
    out: str
    heads: int


@record
class Residual:
    """out = left + right, of one shape."""

    name: str
    left: str
    right: str
    out: str


Op: TypeAlias = Gemm | Bias | Conv2d | Pool | LayerNorm | SplitHeads | HeadGemm | Softmax | MergeHeads | Residual


KINDS: dict[type, str] = {
    Gemm: "gemm",
    Bias: "bias",
    Conv2d: "conv2d",
    Pool: "pool",
    LayerNorm: "layernorm",
    SplitHeads: "split heads",
    HeadGemm: "head gemm",
    Softmax: "softmax",
    MergeHeads: "merge heads",
    Residual: "residual",
}


def sources(op: Op) -> tuple[str, ...]:
    """Return the activations that a layer reads."""
    if isinstance(op, HeadGemm | Residual):
        return op.left, op.right
    return (op.source,)


def weights(op: Op) -> tuple[str, ...]:
    """Return the weights that a layer reads."""
    if isinstance(op, Gemm | Conv2d):
        return (op.weight,)
    if isinstance(op, Bias):
        return (op.bias,)
    return (op.gamma, op.beta) if isinstance(op, LayerNorm) else ()


def outs(op: Op) -> tuple[str, ...]:
    """Return the activations that a layer writes."""
    return (op.q, op.k, op.v) if isinstance(op, SplitHeads) else (op.out,)


def kind(op: Op) -> str:
    """Return the word for a layer's operation."""
    return KINDS[type(op)]


def made(model: Model, tensor: Tensor) -> Floats:
    """Return the numbers of a weight or the input as float32, rounded to the model's precision."""
    import numpy as np  # noqa: PLC0415 - only what runs a model needs it

    out = np.empty(tensor.count, np.float32)
    shares = range(0, tensor.count, SHARE)
    with ThreadPoolExecutor() as pool:  # numpy releases the interpreter lock while it computes
        for _ in pool.map(lambda begin: _fill(out[begin : begin + SHARE], begin, tensor, model), shares):
            pass
    return out.reshape(tensor.shape)


def _fill(out: Floats, offset: int, tensor: Tensor, model: Model) -> None:
    """Write the numbers of a tensor from this place on."""
    import numpy as np  # noqa: PLC0415 - only what runs a model needs it

    for begin in range(0, len(out), CHUNK):
        part = out[begin : begin + CHUNK]
        place = tensor.first + offset + begin
        bits = np.arange(place, place + len(part), dtype=np.uint32)
        unit = (_hashed(bits ^ np.uint32(model.seed)) >> np.uint32(8)).astype(np.float32)
        unit *= np.float32(2 * tensor.spread / 2**24)
        unit += np.float32(tensor.centre - tensor.spread + tensor.spread / 2**24)
        part[:] = rounded(unit, model.precision)


def encode(numbers: Floats, precision: str) -> Raw:
    """Return float32 numbers as they are in memory: float32, float16, or a float32's upper half (bf16) as uint16."""
    import numpy as np  # noqa: PLC0415 - only what runs a model needs it

    if precision == "bf16":
        halves: NDArray[np.uint16] = (_nearest(numbers) >> np.uint32(16)).astype(np.uint16)
        return halves
    if precision == "fp16":
        return np.ascontiguousarray(numbers, np.float16)
    return np.ascontiguousarray(numbers, np.float32)


def decode(raw: bytes | bytearray | memoryview, precision: str, shape: tuple[int, ...]) -> Floats:
    """Return encoded memory as float32 numbers of this shape."""
    import numpy as np  # noqa: PLC0415 - only what runs a model needs it

    if precision == "bf16":
        wide: Floats = (np.frombuffer(raw, np.uint16).astype(np.uint32) << np.uint32(16)).view(np.float32)
        return wide.reshape(shape)
    kind = np.float16 if precision == "fp16" else np.float32
    return np.frombuffer(raw, kind).astype(np.float32).reshape(shape)


def rounded(numbers: Floats, precision: str) -> Floats:
    """Return float32 numbers rounded to the precision."""
    import numpy as np  # noqa: PLC0415 - only what runs a model needs it

    if precision == "bf16":
        cut: Floats = (_nearest(numbers) & np.uint32(0xFFFF0000)).view(np.float32)
        return cut
    return numbers.astype(np.float16).astype(np.float32) if precision == "fp16" else numbers


def _nearest(numbers: Floats) -> NDArray[np.uint32]:
    """Return the bits of float32 numbers, rounded so that the upper half is the nearest bf16 (ties to even)."""
    import numpy as np  # noqa: PLC0415 - only what runs a model needs it

    bits = np.ascontiguousarray(numbers, np.float32).view(np.uint32)
    up = np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    quiet = bits | np.uint32(0x00400000)  # NaN must not be rounded to infinity
    nearest: NDArray[np.uint32] = np.where(np.isnan(bits.view(np.float32)), quiet, bits + up)
    return nearest


def _hashed(bits: NDArray[np.uint32]) -> NDArray[np.uint32]:
    import numpy as np  # noqa: PLC0415 - only what runs a model needs it

    bits = bits ^ (bits >> np.uint32(16))
    bits *= np.uint32(FIRST)
    bits ^= bits >> np.uint32(15)
    bits *= np.uint32(SECOND)
    bits ^= bits >> np.uint32(16)
    return bits
