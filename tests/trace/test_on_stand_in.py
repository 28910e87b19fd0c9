"""Whole traces on a stand-in driver: the real cuda.core, our real kernels on the processor, real products, no GPU."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpustack.errors import NothingSeenError, UsageError
from gpustack.model import writing
from gpustack.model.trace import Bound, Ground, State
from gpustack.trace import Asked, Progress, gpu
from tests import sharing
from tests.patience import idle, in_time

if TYPE_CHECKING:
    from typing import Protocol

    from gpustack.model.trace import Step, Trace

    class Run(Protocol):
        def __call__(self, asked: Asked = ..., **fakes: str) -> Trace: ...


MEMORY = str(16 << 20)  # what is copied is really copied
USUAL = Asked(precision="fp32")
pytestmark = [
    in_time,
    pytest.mark.skipif(
        find_spec("cuda") is None or find_spec("numpy") is None or platform.machine() != "x86_64",
        reason="needs the bench extra, on x86-64",
    ),
    pytest.mark.timeout(900),
]


IN_A_GRAPH = """
import ctypes
from gpustack.bench.card import Card
from gpustack.trace.gpu.launched import kernels
card = Card(0)
given = [ctypes.c_uint64(card.allocate(4096)) for _ in range(3)] + [ctypes.c_uint32(1024)]
run = card.starter(card.kernel("trace", "residual_fp32"), ((2, 1, 1), (256, 1, 1), 0), given)
(node,) = kernels(run, card.stream)
print(node.name, node.grid, node.block, node.registers, node.blocks_per_multiprocessor)
"""


@pytest.fixture(scope="session")
def run(driver: Path, products: str, host_kernels: Path) -> Run:
    """Return a function that traces on the stand-in driver, controlled by FAKE_ variables."""

    def run_(asked: Asked = USUAL, **fakes: str) -> Trace:
        return gpu.follow(asked, Progress(), environ=surroundings(driver, host_kernels, **fakes), cublaslt=products)

    return run_


def surroundings(driver: Path, kernels: Path, **more: str) -> dict[str, str]:
    paths = ":".join(filter(None, (str(driver), os.environ.get("LD_LIBRARY_PATH", ""))))
    return {**os.environ, "LD_LIBRARY_PATH": paths, "FAKE_KERNELS": str(kernels), "FAKE_MEMORY": MEMORY, **more}


@pytest.fixture(scope="session")
def made(run: Run, driver: Path, products: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[Trace, Path, str]:
    """Return one trace with everything, and the folders of its driver and library: those of the worker that made it."""
    asked = Asked(precision="fp32", batches=(1, 16), timeout=idle(150.0))
    return sharing.worked_out(tmp_path_factory, "the whole trace", lambda: (run(asked), driver, products))


@pytest.fixture(scope="session")
def whole(made: tuple[Trace, Path, str]) -> Trace:
    """Return one trace with everything."""
    return made[0]


def figure(step: Step, name: str) -> float:
    return next(one.value for one in step.figures if one.name == name)


def test_all_seven_steps_are_done_and_the_answer_is_right(whole: Trace) -> None:
    assert [step.status for step in whole.steps] == [State.DONE] * 7, whole.steps
    assert (whole.ground, whole.findings, whole.interrupted) == (Ground.GPU, (), None)
    assert (whole.crossover, whole.cpu_layers) == (None, ()), "compared with the processor only where that is asked for"
    assert [check.what for check in whole.checks] == ["output", "output, overlapped"]
    assert all(check.passed and check.rows == 64 for check in whole.checks)
    assert whole.device
    assert whole.device.name == "Stand-in GPU 0"


def test_the_steps_add_up_to_the_wall_time(whole: Trace) -> None:
    assert whole.wall_seconds
    assert sum(step.seconds or 0.0 for step in whole.steps) == pytest.approx(whole.wall_seconds, rel=0.1, abs=0.1)


def test_on_the_host_a_step_begins_where_the_one_before_ended(whole: Trace) -> None:
    host = [moment for moment in whole.timeline if moment.track == "host"]
    assert [moment.step for moment in host] == [1, 2, 3, 4, 5, 6, 7]
    for before, after in pairwise(host):
        assert after.begin == pytest.approx(before.begin + before.seconds, abs=1e-6)


def test_copies_are_shown_beside_what_the_bench_measures(whole: Trace) -> None:
    copied, back = whole.steps[1], whole.steps[6]
    bench = figure(copied, "pcie.h2d.pinned")
    assert figure(copied, "pinned, in trains") == pytest.approx(bench, rel=0.05)
    assert figure(copied, "copied from pinned memory") == pytest.approx(bench, rel=0.05)
    assert figure(back, "pinned back, in trains") == pytest.approx(figure(back, "pcie.d2h.pinned"), rel=0.05)


def test_each_layer_has_its_time_and_its_place_under_the_roof(whole: Trace) -> None:
    assert [layer.op for layer in whole.layers] == ["gemm", "bias"] * 3
    assert all(layer.seconds and layer.attainable and layer.bound for layer in whole.layers)
    assert whole.layers[0].bound in {Bound.COMPUTE, Bound.LAUNCH}, "a busy processor launches slowly"
    assert whole.layers[0].attainable == max(layer.attainable or 0.0 for layer in whole.layers), "no memory limits it"
    assert whole.memory_ceiling
    assert whole.memory_ceiling.name == "hbm.copy"
    assert whole.compute_ceiling
    assert whole.compute_ceiling.name == "gemm.fp32"


def test_kernels_are_reported_by_the_driver_and_what_is_not_reported_is_none(whole: Trace) -> None:
    ours = [kernel for kernel in whole.kernels if kernel.made_by == "NVRTC" or "PTX" in kernel.made_by]
    library = [kernel for kernel in whole.kernels if kernel.made_by == "cuBLASLt"]
    assert [kernel.name for kernel in ours] == ["bias_relu_fp32", "bias_relu_fp32", "bias_none_fp32"]
    first = ours[0]
    assert (first.grid, first.block, first.warps) == ((32, 1, 1), (256, 1, 1), 8)
    assert (first.registers, first.shared_static, first.occupancy, first.waves) == (32, 128, 1.0, 1.0)
    assert first.tensor_cores is False
    assert len(library) == 3
    assert library[0].grid is None  # the stand-in's library starts no kernel of the driver's
    assert library[0].tensor_cores is True
    assert "512 x 64 x 256; heuristic 2; tile 256x128" in str(library[0].note)
    assert all(kernel.seconds for kernel in whole.kernels)


def test_launching_overlap_and_other_batches_are_compared(whole: Trace) -> None:
    assert whole.launching
    assert whole.launching.kernels == 6
    assert min(whole.launching.eager_seconds, whole.launching.graph_seconds) > 0
    assert whole.overlap
    assert (whole.overlap.chunks, whole.overlap.streams) == (8, 2)
    assert whole.overlap.copy_seconds
    assert whole.overlap.serial_seconds > whole.overlap.copy_seconds
    assert [batch.batch for batch in whole.batches] == [1, 16]
    for batch in whole.batches:
        assert batch.gpu_seconds
        assert batch.transfer_seconds
        assert batch.kernel_seconds
        assert batch.cpu_seconds is None


def test_the_libraries_that_were_loaded_are_reported_with_their_paths(made: tuple[Trace, Path, str]) -> None:
    whole, driver, products = made
    told = {one.name: one for one in whole.steps[2].libraries}
    assert told["libcuda"].file == str(driver / "libcuda.so.1")
    assert (told["libcublasLt"].file, told["libcublasLt"].version) == (products, "13.0.2")


def test_the_json_is_whole(whole: Trace) -> None:
    said = json.loads(writing.render(whole))
    assert said["schema"] == "gpustack.trace/1"
    assert len(said["kernels"]) == 6


def test_a_wrong_layer_is_a_wrong_answer(run: Run) -> None:
    seen = run(Asked(precision="fp32", timeout=60.0), FAKE_WRONG="layer")
    assert seen.steps[6].status is State.FAILED
    assert seen.findings[0].id == "trace-wrong-answer"


@pytest.mark.parametrize(
    ("fault", "step", "says"),
    [
        ("cuMemAllocAsync=2", 2, "too little of the GPU's memory"),
        ("cuMemcpyHtoDAsync_v2=719", 2, "CUDA_ERROR_LAUNCH_FAILED"),
        ("cuStreamBeginCapture_v2=900", 3, "cuStreamBeginCapture_v2 answered 900"),
        ("cuLaunchKernelEx@3=719", 3, "CUDA_ERROR_LAUNCH_FAILED"),
        ("cuGraphLaunch@2=719", 6, "cuGraphLaunch answered 719"),
        ("cuMemcpyDtoHAsync_v2=719", 7, "CUDA_ERROR_LAUNCH_FAILED"),
        ("cuMemcpyHtoDAsync_v2=segv", 2, "was killed by SIGSEGV"),
    ],
)
def test_a_step_that_fails_is_named_and_what_came_before_is_kept(run: Run, fault: str, step: int, says: str) -> None:
    seen = run(FAKE_FAULT=fault)
    assert [one.status for one in seen.steps[: step - 1]] == [State.DONE] * (step - 1)
    assert seen.steps[step - 1].status is State.FAILED
    assert says in seen.steps[step - 1].why[0]
    assert {one.status for one in seen.steps[step:]} <= {State.SKIPPED}
    assert [finding.id for finding in seen.findings] == ["trace-step-failed"]


def test_a_hang_fails_only_its_step(run: Run) -> None:
    seen = run(Asked(precision="fp32", timeout=8.0), FAKE_FAULT="cuMemcpyDtoHAsync_v2=hang")
    assert [step.status for step in seen.steps] == [*[State.DONE] * 6, State.FAILED]
    assert "printed nothing" in seen.steps[6].why[0]


def test_at_ctrl_c_what_is_known_is_reported(driver: Path, products: str, host_kernels: Path) -> None:
    class Impatient(Progress):
        def step(self, number: int, name: str) -> None:
            if number == 3:
                raise KeyboardInterrupt(name)

    environ = surroundings(driver, host_kernels)
    seen = gpu.follow(Asked(precision="fp32"), Impatient(), environ=environ, cublaslt=products)
    assert seen.interrupted == "Ctrl-C"
    assert [step.status for step in seen.steps[:3]] == [State.DONE, State.DONE, State.SKIPPED]
    assert seen.steps[2].why == ("stopped by Ctrl-C",)


def test_a_driver_that_tells_nothing_of_its_functions_loses_only_registers(run: Run) -> None:
    seen = run(Asked(precision="fp32", timeout=idle(3.0)), FAKE_FAULT="cuFuncGetAttribute=801")
    assert seen.steps[3].status is State.DONE
    ours = [kernel for kernel in seen.kernels if kernel.made_by != "cuBLASLt"]
    assert {(kernel.grid is None, kernel.registers) for kernel in ours} == {(False, None)}


def test_kernels_are_found_in_a_captured_graph(driver: Path, host_kernels: Path) -> None:
    """The stand-in's cuBLASLt starts no kernels: so the reading of graphs is tried on one of ours."""
    done = subprocess.run(
        [sys.executable, "-c", IN_A_GRAPH],
        env={**surroundings(driver, host_kernels), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split() == ["residual_fp32", "(2,", "1,", "1)", "(256,", "1,", "1)", "32", "8"], done.stderr


def test_without_a_gpu_nothing_is_seen(run: Run) -> None:
    with pytest.raises(NothingSeenError, match="CUDA_ERROR_NO_DEVICE"):
        run(FAKE_GPUS="0")


def test_a_number_beyond_the_last_gpu_is_wrong_usage(run: Run) -> None:
    with pytest.raises(UsageError, match="no GPU 3; CUDA shows 1"):
        run(Asked(gpu=3))
