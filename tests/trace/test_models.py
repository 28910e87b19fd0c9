"""The built-in models: every layer finds its inputs, shapes fit, and the numbers are the same everywhere."""

from __future__ import annotations

import math
import struct

import pytest

from gpustack.trace.counting import layers, total
from gpustack.trace.models import INPUT_FIRST, MODELS, PRECISIONS, SIZES, Model, Role, build
from gpustack.trace.ops import Gemm, HeadGemm, kind, outs, sources, weights

np = pytest.importorskip("numpy")
from gpustack.trace import ops  # noqa: E402 - needs numpy

EVERY = [(name, size) for name in MODELS for size in SIZES]


@pytest.mark.parametrize(("name", "size"), EVERY)
def test_every_layer_reads_what_is_there_and_every_tensor_is_used(name: str, size: str) -> None:
    model = build(name, size, "fp32")
    there = {model.input.name}
    for op in model.ops:
        assert set(sources(op)) <= there, op
        assert {model.tensor(one).role for one in weights(op)} <= {Role.WEIGHT}
        assert not set(outs(op)) & there, op
        there |= set(outs(op))
    read = {one for op in model.ops for one in (*sources(op), *weights(op))}
    assert {one.name for one in model.tensors} - read == {model.output.name}
    assert outs(model.ops[-1]) == (model.output.name,)
    assert len({op.name for op in model.ops}) == len(model.ops)


@pytest.mark.parametrize(("name", "size"), EVERY)
def test_the_shapes_of_products_fit(name: str, size: str) -> None:
    model = build(name, size, "bf16")
    for op in model.ops:
        if isinstance(op, Gemm):
            (m, k), (n, depth) = model.shape(op.source), model.shape(op.weight)
            assert (k, model.shape(op.out)) == (depth, (m, n))
        if isinstance(op, HeadGemm):
            (heads, m, k), (same, n, depth) = model.shape(op.left), model.shape(op.right)
            assert (heads, k, model.shape(op.out)) == (same, depth, (heads, m, n))


def test_parameters_and_operations_are_those_of_the_textbook() -> None:
    block = build("transformer", "large", "bf16")
    width, tokens = 4096, 8 * 1024
    assert block.parameters == 12 * width**2 + 13 * width
    products = sum(one.flops for one in layers(block) if one.op == "gemm")
    assert products == 2 * tokens * 12 * width**2
    assert sum(one.flops for one in layers(block) if one.op == "head gemm") == 2 * 2 * tokens * 1024 * width
    assert products / total(block) > 0.95


def test_the_batch_changes_the_input_and_no_weight() -> None:
    few, many = build("convnet", "small", "fp32", 2), build("convnet", "small", "fp32")
    assert (few.batch, many.batch, few.parameters) == (2, 8, many.parameters)
    assert (few.input.shape[0], few.output.shape[0]) == (2, 2)
    for one in few.weights:
        assert (ops.made(few, one) == ops.made(many, many.tensor(one.name))).all()
    assert (ops.made(few, few.input) == ops.made(many, many.input)[:2]).all()


@pytest.mark.parametrize(("name", "size"), EVERY)
def test_no_two_weights_share_numbers(name: str, size: str) -> None:
    model = build(name, size, "fp32")
    ends = [0]
    for one in model.weights:
        assert one.first == ends[-1]
        ends.append(one.first + one.count)
    assert ends[-1] == model.parameters < INPUT_FIRST == model.input.first


def hashed(bits: int) -> int:
    """Return lowbias32 of hash-prospector, in plain integers."""
    bits ^= bits >> 16
    bits = bits * 0x7FEB352D & 0xFFFFFFFF
    bits ^= bits >> 15
    bits = bits * 0x846CA68B & 0xFFFFFFFF
    return bits ^ bits >> 16


def test_numbers_are_a_function_of_seed_and_place() -> None:
    model = build("mlp", "small", "fp32")
    for one in (model.weights[2], model.input):
        made = ops.made(model, one).reshape(-1)
        for place in (0, 1, 65535, 65536, one.count - 1):
            if place < one.count:
                unit = (hashed((one.first + place) ^ model.seed) >> 8) / 2**24 + 2**-25
                wanted = one.centre + one.spread * (2 * unit - 1)
                assert made[place] == pytest.approx(wanted, abs=4e-7 * max(1.0, one.spread))


@pytest.mark.parametrize("precision", PRECISIONS)
def test_numbers_fill_their_range_evenly(precision: str) -> None:
    model = build("mlp", "medium", precision)
    for name in ("linear1.weight", "input"):
        one = model.tensor(name)
        made = ops.made(model, one)
        assert made.shape == one.shape
        assert abs(made.mean()) < 0.01 * one.spread
        assert made.std() == pytest.approx(one.spread / math.sqrt(3), rel=0.01)
        assert np.abs(made).max() <= one.spread * (1 + 2**-8)
    gamma = build("transformer", "small", precision).tensor("norm1.gamma")
    assert (gamma.centre, gamma.spread) == (1.0, 0.1)


def bf16(value: float) -> bytes:
    """Return the nearest bf16, ties to even, by the definition: the candidates on either side of the truncated bits."""
    cut = struct.unpack(">I", struct.pack(">f", value))[0] & 0xFFFF0000
    near = [struct.unpack(">f", struct.pack(">I", min(cut + step, 0xFFFFFFFF)))[0] for step in (0, 0x10000)]
    best = min(range(2), key=lambda one: (abs(near[one] - value), (cut >> 16) + one & 1))
    return struct.pack("<H", (cut >> 16) + best)


@pytest.mark.parametrize("value", [0.0, 1.0, -1.0, 1.00390625, 1.01171875, 3.1415927, -2.7182817, 1e-30, 65504.0, 7e37])
def test_bf16_is_the_nearest(value: float) -> None:
    held = np.array([value], np.float32)
    assert ops.encode(held, "bf16").tobytes() == bf16(float(held[0]))


@pytest.mark.parametrize("precision", PRECISIONS)
def test_what_is_written_is_read_back(precision: str) -> None:
    made = ops.made(build("mlp", "small", precision), build("mlp", "small", precision).input)
    raw = ops.encode(made, precision)
    assert raw.nbytes == made.size * {"fp32": 4}.get(precision, 2)
    assert (ops.decode(raw.tobytes(), precision, made.shape) == made).all()


def test_what_is_not_a_number_stays_none() -> None:
    odd = np.array([np.nan, np.inf, -np.inf], np.float32)
    for precision in PRECISIONS:
        back = ops.decode(ops.encode(odd, precision).tobytes(), precision, (3,))
        assert np.isnan(back[0])
        assert back[1:].tolist() == [np.inf, -np.inf]
    loud = np.array([0x7FFFFFFF, 0xFFFFFFFF], np.uint32).view(np.float32)
    assert np.isnan(ops.rounded(loud, "bf16")).all()


def test_each_layer_has_a_word_for_what_it_does() -> None:
    words = {kind(op) for name in MODELS for op in build(name, "small", "fp32").ops}
    assert words == {
        *("gemm", "bias", "conv2d", "pool", "layernorm", "split heads", "head gemm", "softmax", "merge heads"),
        "residual",
    }


def test_bytes_are_those_of_the_precision() -> None:
    def moved(model: Model) -> int:
        return sum(one.bytes_read + one.bytes_written for one in layers(model))

    assert moved(build("transformer", "small", "fp32")) == 2 * moved(build("transformer", "small", "bf16"))
