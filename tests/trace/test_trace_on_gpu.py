"""On a real GPU: all seven steps, right answers, copies at the bench's speed, and steps that add up."""

from __future__ import annotations

import pytest

from gpustack.model.trace import State
from gpustack.trace import Asked, Progress, gpu
from gpustack.trace.models import MODELS

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(200)]


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("model", MODELS)
def test_every_model_goes_through_all_seven_steps(model: str, precision: str) -> None:
    seen = gpu.follow(Asked(model=model, size="medium", precision=precision), Progress())
    assert [step.status for step in seen.steps] == [State.DONE] * 7, seen.steps
    assert len(seen.checks) == 2
    assert all(check.passed for check in seen.checks)
    assert seen.wall_seconds
    assert sum(step.seconds or 0.0 for step in seen.steps) == pytest.approx(seen.wall_seconds, rel=0.1)
    assert all(layer.seconds and layer.bound for layer in seen.layers)
    assert seen.launching
    assert seen.overlap


def test_the_copy_is_as_fast_as_the_bench_and_products_use_the_tensor_cores() -> None:
    seen = gpu.follow(Asked(size="large", precision="bf16"), Progress())
    figures = {figure.name: figure.value for figure in seen.steps[1].figures}
    assert figures["pinned, in trains"] == pytest.approx(figures["pcie.h2d.pinned"], rel=0.05)
    assert seen.compute_ceiling
    products = [layer for layer in seen.layers if layer.op == "gemm"]
    assert all((layer.tflops or 0.0) >= 0.6 * seen.compute_ceiling.value for layer in products)
    assert all(kernel.tensor_cores for kernel in seen.kernels if kernel.made_by == "cuBLASLt")
