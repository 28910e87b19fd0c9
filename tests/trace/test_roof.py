"""Below a framework's trace: the limits of its GPU, and the units that its libraries' kernels use."""

from __future__ import annotations

import os
import platform
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest

from gpustack.collect.subprocesses import Door
from gpustack.matrix import Matrix
from gpustack.model.difference import Launching
from gpustack.model.trace import Bound, Figure
from gpustack.trace import Asked
from gpustack.trace.counting import layers
from gpustack.trace.frameworks import Limits, limits
from gpustack.trace.frameworks.chain import units
from gpustack.trace.frameworks.heard import Heard
from gpustack.trace.models import build
from tests.trace.judging import judged

pytestmark = pytest.mark.skipif(
    find_spec("cuda") is None or platform.machine() != "x86_64", reason="needs the bench extra, on x86-64"
)

# Kernels that torch 2.11 and cuBLASLt 13.1 ran on an H200; cuBLASLt itself reported which units its own use.
SEEN = {
    "nvjet_sm90_tst_64x8_64x16_2x4_h_bz_TNT": True,
    "nvjet_sm90_hsh_8x64_64x16_4x1_v_bz_TNN": True,
    "_ZN7cutlass7Kernel2I68cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_32x32_128x1_tn_align2EEvNT_6ParamsE": True,
    "void cutlass__5x_cudnn::Kernel<cutlass_tensorop_bf16_s16816fprop_optimized_bf16_64x64_32x10_nhwc_align8>": True,
    "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize64x64x8_stage3_warpsize1x4x1_ffma_aligna4_execute_kernel": False,
    "_ZN7cutlass7Kernel2I41cutlass_80_simt_sgemm_64x64_8x5_tn_align1EEvNT_6ParamsE": False,
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float> >": False,
    "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float, float, false>": False,
    "void convolve_common_engine_float_NHWC<float, float, 1024, 5, 5, 3, 3, 3, true>": None,
    "void cudnn::engines_precompiled::nhwcToNchwKernel<float, float, float, true>": None,
    "": None,
}


@pytest.fixture
def seen(driver: Path) -> Limits:
    paths = os.pathsep.join(filter(None, (str(driver), os.environ.get("LD_LIBRARY_PATH", ""))))
    environ = {**os.environ, "LD_LIBRARY_PATH": paths, "FAKE_NAME": "NVIDIA H200"}
    door = Door()
    found = limits(environ, door, door.now() + 30.0, "bf16", Matrix())
    assert found
    return found


def heard(name: str) -> Heard:
    model = build("mlp", "small", "bf16")
    asked = Asked(framework="torch", precision="bf16")
    told = Heard(
        clock=lambda: 0.0,
        asked=asked,
        matrix=Matrix(),
        judge=judged,
        model=model,
        script="s",
        output=Path("o"),
        gpu=name,
    )
    told.rows = [replace(one, seconds=1e-3) for one in layers(model)]
    return told


@pytest.mark.parametrize(("name", "tensor"), SEEN.items())
def test_a_kernels_name_tells_its_units_or_nothing(name: str, tensor: bool | None) -> None:  # noqa: FBT001
    assert units(name) is tensor


def test_layers_are_under_the_limits_of_the_gpu(seen: Limits) -> None:
    assert (seen.device.name, seen.device.compute_capability) == ("NVIDIA H200", "9.0")
    assert seen.compute
    assert seen.compute.name == "gemm.bf16"
    assert seen.compute.value == pytest.approx(4 * 4096 * 1.98e6 / 1e12)  # as the stand-in reports it
    trace = heard("NVIDIA H200").trace(1.0, seen)
    assert trace.device == seen.device
    assert trace.compute_ceiling == seen.compute


def test_what_costs_less_than_its_launch_waits_for_that(seen: Limits) -> None:
    known = Figure(name="hbm", value=4814.0, unit="GB/s"), Figure(name="gemm.bf16", value=1071.0, unit="TFLOP/s")
    told = heard("NVIDIA H200")
    told.launching = Launching(eager_seconds=100e-6, graph_seconds=20e-6, kernels=8)
    assert {
        one.bound for one in told.trace(1.0, replace(seen, memory=known[0], compute=known[1], cache=None)).layers
    } == {Bound.LAUNCH}


def test_another_gpu_than_the_framework_names_gives_no_device(seen: Limits) -> None:
    device = heard("Another").trace(1.0, seen).device
    assert device
    assert (device.name, device.uuid) == ("Another", "")


def test_without_a_driver_nothing_is_known() -> None:
    door = Door()
    assert limits({**os.environ}, door, door.now() + 30.0, "bf16", Matrix()) is None
