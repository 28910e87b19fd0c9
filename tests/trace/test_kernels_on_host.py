"""The kernels' arithmetic: the same source, compiled for the processor, compared with numpy for every layer."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpustack import assets
from gpustack.trace import models, ops
from gpustack.trace.failing import compare
from gpustack.trace.gpu.plan import Launch, Multiply, Work, number, plan

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpustack.trace.models import Model

np = pytest.importorskip("numpy")
from gpustack.trace import reference  # noqa: E402 - it needs numpy

PRECISIONS = models.PRECISIONS
# Sizes that no kernel likes: rows that are not a multiple of 16 bytes, images that are not whole tiles.
ODD = {
    "mlp": ("MLP", (5, (24, 30, 7, 10))),
    "convnet": ("CONVNET", (3, 8, (6, 16, 40))),
    "transformer": ("TRANSFORMER", (2, 37, 60, 3)),
}


@pytest.fixture(scope="session")
def host(host_kernels: Path) -> ctypes.CDLL:
    """Return the kernels compiled for the processor."""
    loaded = ctypes.CDLL(str(host_kernels))
    loaded.host_kernel.restype = ctypes.c_void_p
    return loaded


def run(host: ctypes.CDLL, work: Work, held: Mapping[str, Any], precision: str) -> None:
    """Run one launch on arrays."""
    if isinstance(work, Multiply):
        a = ops.decode(held[work.a].tobytes(), precision, (work.batch, work.m, work.k))
        b = ops.decode(held[work.b].tobytes(), precision, (work.batch, work.n, work.k))
        held[work.d][:] = ops.encode(np.matmul(b, a.transpose(0, 2, 1)), precision).reshape(-1)
        return
    kernel = host.host_kernel(work.kernel.encode(), None)
    assert kernel, f"the host has no {work.kernel}"
    given = [ctypes.c_void_p(held[one].ctypes.data) if isinstance(one, str) else number(one) for one in work.arguments]
    table = (ctypes.c_void_p * len(given))(*(ctypes.cast(ctypes.byref(one), ctypes.c_void_p) for one in given))
    three = ctypes.c_uint * 3
    host.host_launch(ctypes.c_void_p(kernel), three(*work.grid), three(*work.block), table)


def arrays(model: Model, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return memory for every tensor, filled with NaN where nothing has been written yet."""
    made = plan(model)
    kind = ops.encode(np.zeros(1, np.float32), model.precision).dtype
    held = {name: ops.encode(one, model.precision).reshape(-1).copy() for name, one in values.items()}
    sizes = {one.name: one.count for one in model.tensors} | made.kept | made.scratch
    for name, count in sizes.items():
        if name not in held:
            held[name] = np.full(count * kind.itemsize, 0xFF, np.uint8).view(kind)
    return held


def every(model: Model, host: ctypes.CDLL) -> None:
    """Run the model layer by layer: each is compared with numpy on its actual input."""
    values = reference.load(model)
    held = arrays(model, values)
    made = plan(model)
    for launch in made.once:
        run(host, launch, held, model.precision)
    for op in model.ops:
        works = made.of(op.name)
        assert works
        names = (*ops.sources(op), *ops.weights(op))
        given = {name: ops.decode(held[name].tobytes(), model.precision, model.shape(name)) for name in names}
        wide = {name: array.astype(np.float64) for name, array in given.items()}
        wanted = reference.compute(op, wide, wide)  # type: ignore[arg-type]
        for work in works:
            run(host, work, held, model.precision)
        for name, right in wanted.items():
            got = ops.decode(held[name].tobytes(), model.precision, model.shape(name))
            check = compare(got, right, model.precision, what=op.name)
            assert check.passed, (op, check)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("name", models.MODELS)
def test_every_layer_of_the_small_models_is_right(host: ctypes.CDLL, name: str, precision: str) -> None:
    every(models.build(name, "small", precision), host)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("name", models.MODELS)
def test_sizes_that_fit_nothing_are_right_too(
    host: ctypes.CDLL, name: str, precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, sizes = ODD[name]
    monkeypatch.setattr(models, table, {"small": sizes})
    every(models.build(name, "small", precision), host)


def test_what_is_launched_has_a_kernel_in_the_shipped_ptx() -> None:
    text = (assets.MICROBENCH / "trace.ptx").read_text("utf-8")
    for name in models.MODELS:
        for precision in PRECISIONS:
            made = plan(models.build(name, "large", precision))
            for work in (*made.once, *made.passes):
                if isinstance(work, Launch):
                    assert f".entry {work.kernel}(" in text
                    assert work.shared <= 48 << 10
                    assert max(work.grid[1:]) <= 65535
