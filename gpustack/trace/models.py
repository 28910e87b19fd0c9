"""The built-in models as data: an MLP, a small convolutional net, a transformer block, each in three sizes."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import Enum

from gpustack.model import record
from gpustack.trace.ops import (
    Activation,
    Bias,
    Conv2d,
    Gemm,
    HeadGemm,
    LayerNorm,
    MergeHeads,
    Op,
    Pool,
    Pooling,
    Residual,
    Softmax,
    SplitHeads,
)

SEED = 20261121
INPUT_FIRST = 1 << 31  # more than the number of weights in any model
WIDTH = {"fp32": 4, "fp16": 2, "bf16": 2}
MODELS = ("mlp", "convnet", "transformer")
SIZES = ("small", "medium", "large")
PRECISIONS = tuple(WIDTH)
# Batch, and the widths of input, hidden layers and output.
MLP = {
    "small": (64, (256, 512, 512, 128)),
    "medium": (1024, (1024, 4096, 4096, 1024)),
    "large": (8192, (4096, 8192, 8192, 4096)),
}
# Batch, height and width of the images, and the channels after each convolution.
CONVNET = {"small": (8, 32, (16, 32, 64)), "medium": (64, 64, (64, 128, 256)), "large": (128, 128, (64, 128, 256))}
COLOURS, CLASSES = 3, 10
# Sequences, positions in each, width, heads; the hidden layer of the MLP is four times as wide.
TRANSFORMER = {"small": (2, 64, 128, 4), "medium": (4, 512, 1024, 16), "large": (8, 1024, 4096, 32)}
WIDER = 4


class Role(str, Enum):
    """What a tensor is for."""

    INPUT = "input"
    WEIGHT = "weight"
    ACTIVATION = "activation"
    OUTPUT = "output"


@record
class Tensor:
    """One tensor. Input and weights are uniform in ``centre`` ± ``spread``; ``first`` is where their numbers begin.

    All numbers of a model form one sequence; those of the weights do not depend on the batch.
    """

    name: str
    shape: tuple[int, ...]
    role: Role
    first: int = 0
    spread: float = 0.0
    centre: float = 0.0

    @property
    def count(self) -> int:
        """The number of its elements."""
        return math.prod(self.shape)


@record
class Model:
    """A model with everything needed to run it. ``ops`` are in execution order.

    ``batch`` is the length of the first axis of what the user would call a batch: rows, images, or sequences.
    """

    name: str
    size: str
    precision: str
    batch: int
    tensors: tuple[Tensor, ...]
    ops: tuple[Op, ...]
    seed: int = SEED

    def tensor(self, name: str) -> Tensor:
        """Return the tensor with this name."""
        return next(one for one in self.tensors if one.name == name)

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of the tensor with this name."""
        return self.tensor(name).shape

    @property
    def input(self) -> Tensor:
        """The input tensor."""
        return next(one for one in self.tensors if one.role is Role.INPUT)

    @property
    def output(self) -> Tensor:
        """The output tensor."""
        return next(one for one in self.tensors if one.role is Role.OUTPUT)

    @property
    def weights(self) -> tuple[Tensor, ...]:
        """All weights, in order of use."""
        return tuple(one for one in self.tensors if one.role is Role.WEIGHT)

    @property
    def parameters(self) -> int:
        """The number of elements in all weights."""
        return sum(one.count for one in self.weights)

    @property
    def width(self) -> int:
        """The bytes of one number."""
        return WIDTH[self.precision]


@dataclass(slots=True)
class _Draft:
    """A model under construction, layer by layer."""

    tensors: list[Tensor] = field(default_factory=list)
    ops: list[Op] = field(default_factory=list)
    drawn: int = 0

    def add(self, name: str, shape: tuple[int, ...], role: Role = Role.ACTIVATION, spread: float = 0.0) -> str:
        centre = 1.0 if name.endswith(".gamma") else 0.0
        first = INPUT_FIRST if role is Role.INPUT else self.drawn
        self.tensors.append(Tensor(name=name, shape=shape, role=role, first=first, spread=spread, centre=centre))
        self.drawn += math.prod(shape) if role is Role.WEIGHT else 0
        return name

    def weight(self, name: str, shape: tuple[int, ...], gain: float = 1.0) -> str:
        """Add a weight whose products preserve the variance of their input: 1 / fan-in, times the gain."""
        return self.add(name, shape, Role.WEIGHT, math.sqrt(3 * gain / math.prod(shape[1:])))

    def shape(self, name: str) -> tuple[int, ...]:
        return next(one.shape for one in self.tensors if one.name == name)

    def linear(self, name: str, source: str, width: int, activation: Activation = Activation.NONE) -> str:
        """Add a product and its bias; return the output."""
        rows, depth = self.shape(source)
        gain = 1.0 if activation is Activation.NONE else 2.0  # half of what goes on is zero after these
        weight = self.weight(f"{name}.weight", (width, depth), gain)
        product = self.add(f"{name}.product", (rows, width))
        self.ops.append(Gemm(name=name, source=source, weight=weight, out=product))
        return self.biased(name, product, activation)

    def biased(self, name: str, source: str, activation: Activation) -> str:
        shape = self.shape(source)
        bias = self.add(f"{name}.bias", shape[-1:], Role.WEIGHT, 0.1)
        out = self.add(f"{name}.out", shape)
        word = "bias" if activation is Activation.NONE else f"bias+{activation.value}"
        self.ops.append(Bias(name=f"{name}.{word}", source=source, bias=bias, out=out, activation=activation))
        return out

    def norm(self, name: str, source: str) -> str:
        shape = self.shape(source)
        gamma = self.add(f"{name}.gamma", shape[-1:], Role.WEIGHT, 0.1)
        beta = self.add(f"{name}.beta", shape[-1:], Role.WEIGHT, 0.1)
        out = self.add(f"{name}.out", shape)
        self.ops.append(LayerNorm(name=name, source=source, gamma=gamma, beta=beta, out=out))
        return out

    def residual(self, name: str, left: str, right: str) -> str:
        out = self.add(f"{name}.out", self.shape(left))
        self.ops.append(Residual(name=name, left=left, right=right, out=out))
        return out

    def model(self, name: str, size: str, precision: str, batch: int) -> Model:
        """Return the model; its output is that of the last layer."""
        last = self.tensors[-1]
        out = Tensor(name=last.name, shape=last.shape, role=Role.OUTPUT)
        tensors = (*self.tensors[:-1], out)
        return Model(name=name, size=size, precision=precision, batch=batch, tensors=tensors, ops=tuple(self.ops))


def build(name: str, size: str, precision: str, batch: int | None = None) -> Model:
    """Return a built-in model (of MODELS, SIZES and PRECISIONS), with this batch instead of its size's default.

    Raises KeyError for an unknown model, size or precision.
    """
    draft, _ = _Draft(), WIDTH[precision]
    made = {"mlp": _mlp, "convnet": _convnet, "transformer": _transformer}[name](draft, size, batch)
    return draft.model(name, size, precision, made)


def _input(draft: _Draft, shape: tuple[int, ...]) -> str:
    return draft.add("input", shape, Role.INPUT, math.sqrt(3))


def _mlp(draft: _Draft, size: str, wanted: int | None) -> int:
    batch, (width, *widths) = MLP[size]
    batch = wanted or batch
    at = _input(draft, (batch, width))
    for number, wide in enumerate(widths, 1):
        last = number == len(widths)
        at = draft.linear(f"linear{number}", at, wide, Activation.NONE if last else Activation.RELU)
    return batch


def _convnet(draft: _Draft, size: str, wanted: int | None) -> int:
    batch, side, channels = CONVNET[size]
    batch = wanted or batch
    at = _input(draft, (batch, side, side, COLOURS))
    for number, wide in enumerate(channels, 1):
        name, (_, high, broad, deep) = f"conv{number}", draft.shape(at)
        weight = draft.weight(f"{name}.weight", (wide, 3, 3, deep), 2.0)
        product = draft.add(f"{name}.product", (batch, high, broad, wide))
        draft.ops.append(Conv2d(name=name, source=at, weight=weight, out=product))
        at = draft.biased(name, product, Activation.RELU)
        last = number == len(channels)
        out = draft.add(f"pool{number}.out", (batch, wide) if last else (batch, high // 2, broad // 2, wide))
        draft.ops.append(Pool(name=f"pool{number}", source=at, out=out, how=Pooling.MEAN if last else Pooling.MAX2))
        at = out
    draft.linear("classes", at, CLASSES)
    return batch


def _transformer(draft: _Draft, size: str, wanted: int | None) -> int:
    batch, sequence, width, heads = TRANSFORMER[size]
    batch = wanted or batch
    at = _input(draft, (batch * sequence, width))
    mixed = _attention(draft, draft.norm("norm1", at), batch, sequence, heads)
    at = draft.residual("add1", at, draft.linear("attention.out", mixed, width))
    hidden = draft.linear("mlp.up", draft.norm("norm2", at), WIDER * width, Activation.GELU)
    draft.residual("add2", at, draft.linear("mlp.down", hidden, width))
    return batch


def _attention(draft: _Draft, source: str, batch: int, sequence: int, heads: int) -> str:
    """Add a block's attention without its last projection."""
    rows, width = draft.shape(source)
    depth, every = width // heads, batch * heads
    qkv = draft.linear("attention.qkv", source, 3 * width)
    q, k = (draft.add(f"attention.{one}", (every, sequence, depth)) for one in "qk")
    v = draft.add("attention.v", (every, depth, sequence))
    split = SplitHeads(name="attention.split", source=qkv, q=q, k=k, v=v, sequence=sequence, heads=heads)
    scores = draft.add("attention.scores.out", (every, sequence, sequence))
    shares = draft.add("attention.softmax.out", (every, sequence, sequence))
    mixed = draft.add("attention.mix.out", (every, sequence, depth))
    merged = draft.add("attention.merge.out", (rows, width))
    draft.ops += [
        split,
        HeadGemm(name="attention.scores", left=q, right=k, out=scores),
        Softmax(name="attention.softmax", source=scores, out=shares, scale=1 / math.sqrt(depth)),
        HeadGemm(name="attention.mix", left=shares, right=v, out=mixed),
        MergeHeads(name="attention.merge", source=mixed, out=merged, heads=heads),
    ]
    return merged
