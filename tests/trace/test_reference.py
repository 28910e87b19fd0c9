"""The reference: each kind of layer in numpy is compared with the plainest Python, and the whole against itself."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import pytest

from gpustack.errors import NothingSeenError
from gpustack.trace import failing, reference
from gpustack.trace.models import MODELS, PRECISIONS, build
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

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
else:
    np = pytest.importorskip("numpy")


def some(*shape: int) -> NDArray[np.float64]:
    made: NDArray[np.float64] = np.sin(np.arange(1, math.prod(shape) + 1) * 1.7).reshape(shape)
    return made


def result(op: Op, **held: NDArray[np.floating]) -> NDArray[np.floating]:
    return reference.compute(op, held, held)["out"]  # type: ignore[arg-type] # weights by name, as a mapping is


def gelu(x: float) -> float:
    return 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def test_a_product_takes_its_weight_as_out_by_in() -> None:
    a, w = some(3, 4), some(5, 4)
    out = result(Gemm(name="g", source="a", weight="w", out="out"), a=a, w=w)
    assert out.shape == (3, 5)
    assert out[2][4] == pytest.approx(math.fsum(a[2][k] * w[4][k] for k in range(4)))


@pytest.mark.parametrize(
    ("activation", "plain"),
    [(Activation.NONE, lambda x: x), (Activation.RELU, lambda x: max(x, 0.0)), (Activation.GELU, gelu)],
)
def test_a_bias_goes_along_the_last_axis(activation: Activation, plain: Callable[[float], float]) -> None:
    a, b = some(2, 3), some(3)
    out = result(Bias(name="b", source="a", bias="b", out="out", activation=activation), a=a, b=b)
    for row in range(2):
        assert out[row].tolist() == pytest.approx([plain(a[row][at] + b[at]) for at in range(3)])
    assert a[0][0] == pytest.approx(math.sin(1.7))  # the input was not written to


def test_a_convolution_sees_one_pixel_around_and_zeros_outside() -> None:
    a, w = some(2, 4, 3, 2), some(5, 3, 3, 2)
    out = result(Conv2d(name="c", source="a", weight="w", out="out"), a=a, w=w)
    assert out.shape == (2, 4, 3, 5)
    for image, row, column, channel in ((0, 0, 0, 0), (1, 3, 2, 4), (1, 2, 1, 3)):
        taps = (
            a[image][row + y][column + x][deep] * w[channel][y + 1][x + 1][deep]
            for y in (-1, 0, 1)
            for x in (-1, 0, 1)
            for deep in range(2)
            if 0 <= row + y < 4 and 0 <= column + x < 3
        )
        assert out[image][row][column][channel] == pytest.approx(math.fsum(taps))


def test_pooling_takes_the_largest_of_four_or_the_mean_of_all() -> None:
    a = some(1, 4, 6, 2)
    most = result(Pool(name="p", source="a", out="out", how=Pooling.MAX2), a=a)
    assert most.shape == (1, 2, 3, 2)
    assert most[0][1][2][1] == max(a[0][y][x][1] for y in (2, 3) for x in (4, 5))
    mean = result(Pool(name="p", source="a", out="out", how=Pooling.MEAN), a=a)
    assert mean[0][1] == pytest.approx(math.fsum(a[0][y][x][1] for y in range(4) for x in range(6)) / 24)


def test_a_layernorm_has_mean_and_variance_of_its_row() -> None:
    a, gamma, beta = some(3, 8), some(8), some(8) + 1
    out = result(LayerNorm(name="n", source="a", gamma="g", beta="b", out="out"), a=a, g=gamma, b=beta)
    mean = math.fsum(a[1]) / 8
    spread = math.sqrt(math.fsum((one - mean) ** 2 for one in a[1]) / 8 + 1e-5)
    assert out[1].tolist() == pytest.approx([(a[1][at] - mean) / spread * gamma[at] + beta[at] for at in range(8)])


def test_heads_are_split_and_merged_where_they_belong() -> None:
    batch, sequence, heads, depth = 2, 3, 4, 5
    a = some(batch * sequence, 3 * heads * depth)
    split = SplitHeads(name="s", source="a", q="q", k="k", v="v", sequence=sequence, heads=heads)
    made = reference.compute(split, {"a": a}, {})  # type: ignore[arg-type] # it reads no weights
    assert (made["q"].shape, made["v"].shape) == ((8, 3, 5), (8, 5, 3))
    for item, position, head, at in ((0, 0, 0, 0), (1, 2, 3, 4), (0, 1, 2, 3)):
        row, one = a[item * sequence + position], item * heads + head
        column = head * depth + at
        assert made["q"][one][position][at] == row[column]
        assert made["k"][one][position][at] == row[heads * depth + column]
        assert made["v"][one][at][position] == row[2 * heads * depth + column]
    merged = result(MergeHeads(name="m", source="q", out="out", heads=heads), q=made["q"])
    assert (merged == a[:, : heads * depth]).all()


def test_products_of_heads_are_one_for_each() -> None:
    left, right = some(2, 3, 4), some(2, 5, 4)
    out = result(HeadGemm(name="h", left="a", right="b", out="out"), a=left, b=right)
    assert out.shape == (2, 3, 5)
    assert out[1][2][4] == pytest.approx(math.fsum(left[1][2][k] * right[1][4][k] for k in range(4)))


@pytest.mark.parametrize("causal", [True, False])
def test_a_softmax_shares_one_among_what_it_sees(*, causal: bool) -> None:
    a = some(2, 4, 4) * 300  # so large that the exponentials overflow unless the maximum is subtracted
    out = result(Softmax(name="s", source="a", out="out", scale=0.5, causal=causal), a=a)
    for row in range(4):
        seen = a[1][row][: row + 1] if causal else a[1][row]
        weights = [math.exp(0.5 * (one - max(seen))) for one in seen]
        wanted = [one / math.fsum(weights) for one in weights]
        assert out[1][row].tolist() == pytest.approx([*wanted, *[0.0] * (4 - len(wanted))])


def test_a_residual_adds() -> None:
    assert (result(Residual(name="r", left="a", right="b", out="out"), a=some(3), b=some(3)) == 2 * some(3)).all()


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("name", MODELS)
def test_the_run_on_the_cpu_is_right(name: str, precision: str) -> None:
    model = build(name, "small", precision)
    values = reference.load(model)
    seen = [(op, made) for op, made, seconds in reference.forward(model, values) if seconds >= 0]
    assert len(seen) == len(model.ops)
    answer = seen[-1][1][model.output.name]
    assert answer.dtype == np.float32
    items = reference.sample(model)
    assert items == tuple(range(model.batch))
    check = failing.compare(
        reference.part(answer, model, items), reference.truth(model, values, items), "fp32", what="output"
    )
    assert check.passed
    assert 0 < check.error < 2e-6


@pytest.mark.parametrize("name", MODELS)
def test_some_inputs_of_the_batch_have_the_answers_that_all_have(name: str) -> None:
    model = build(name, "small", "fp32")
    values = reference.load(model)
    every = reference.truth(model, values, tuple(range(model.batch)))
    chosen = (0, model.batch - 1)
    assert reference.truth(model, values, chosen) == pytest.approx(reference.part(every, model, chosen), rel=1e-12)


def test_of_a_large_batch_some_are_checked_the_first_and_the_last_among_them() -> None:
    large = build("mlp", "large", "bf16")
    items = reference.sample(large)
    assert (items[0], items[-1]) == (0, large.batch - 1)
    assert 100 < len(set(items)) == len(items) < 1000
    assert reference.sample(build("transformer", "large", "bf16")) == (7,)


def test_tensors_are_freed_after_their_last_use(monkeypatch: pytest.MonkeyPatch) -> None:
    model = build("mlp", "small", "fp32")
    held: list[int] = []
    compute = reference.compute

    def watched(op: Op, there: Mapping[str, NDArray[np.floating]], given: Any) -> dict[str, NDArray[np.floating]]:  # noqa: ANN401 - weights
        held.append(len(there))
        return compute(op, there, given)

    monkeypatch.setattr(reference, "compute", watched)
    list(reference.forward(model, reference.load(model)))
    assert held == [1] * len(model.ops)  # an MLP needs one tensor at a time


def test_without_numpy_the_command_that_brings_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numpy", None)
    with pytest.raises(NothingSeenError, match="to fix it: pip install numpy"):
        reference.load(build("mlp", "small", "fp32"))


def test_what_is_not_a_layer_is_refused() -> None:
    with pytest.raises(NotImplementedError):
        reference.compute("no layer", {}, {})  # type: ignore[arg-type]
