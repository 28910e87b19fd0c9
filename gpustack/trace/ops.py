"""What a layer computes, as records: which tensors it reads and writes, and the numbers that it needs to know.

All tensors are stored row by row. Every matrix product has one form, y = a x b transposed: weights lie as (out, in),
and the second factor of a product of activations is stored transposed likewise. Images lie as (batch, height, width,
channels), the weights of a convolution as (out, height, width, in).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias


class Activation(str, Enum):
    """What is applied after the bias. ``gelu`` is the form with tanh, as in GPT-2."""

    NONE = "none"
    RELU = "relu"
    GELU = "gelu"


class Pooling(str, Enum):
    """How pixels become one: the largest of 2 x 2, or the mean of a whole channel."""

    MAX2 = "max2"
    MEAN = "mean"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gemm:
    """out (m, n) = source (m, k) x weight (n, k) transposed."""

    name: str
    source: str
    weight: str
    out: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Bias:
    """out = activation(source + bias), the bias along the last axis."""

    name: str
    source: str
    bias: str
    out: str
    activation: Activation = Activation.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class Conv2d:
    """A convolution 3 x 3 with stride 1, padded with one pixel of zeros, so that height and width stay."""

    name: str
    source: str
    weight: str
    out: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """Fewer pixels: (n, h, w, c) becomes (n, h/2, w/2, c), or (n, c) for the mean."""

    name: str
    source: str
    out: str
    how: Pooling


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerNorm:
    """Each row with mean 0 and variance 1 (the variance over n, plus ``epsilon``), times gamma, plus beta."""

    name: str
    source: str
    gamma: str
    beta: str
    out: str
    epsilon: float = 1e-5


@dataclass(frozen=True, slots=True, kw_only=True)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadGemm:
    """out (h, m, n) = left (h, m, k) x right (h, n, k) transposed, for each h: the products of attention."""

    name: str
    left: str
    right: str
    out: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Softmax:
    """Softmax of each row of source x scale; ``causal``: position i does not see those after it (they become 0)."""

    name: str
    source: str
    out: str
    scale: float
    causal: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeHeads:
    """(batch x heads, sequence, depth) becomes (batch x sequence, heads x depth)."""

    name: str
    source: str
    out: str
    heads: int


@dataclass(frozen=True, slots=True, kw_only=True)
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
    """Give the activations that a layer reads."""
    if isinstance(op, HeadGemm | Residual):
        return op.left, op.right
    return (op.source,)


def weights(op: Op) -> tuple[str, ...]:
    """Give the weights that a layer reads."""
    if isinstance(op, Gemm | Conv2d):
        return (op.weight,)
    if isinstance(op, Bias):
        return (op.bias,)
    return (op.gamma, op.beta) if isinstance(op, LayerNorm) else ()


def outs(op: Op) -> tuple[str, ...]:
    """Give the activations that a layer writes."""
    return (op.q, op.k, op.v) if isinstance(op, SplitHeads) else (op.out,)


def kind(op: Op) -> str:
    """Give the word for what a layer does."""
    return KINDS[type(op)]
