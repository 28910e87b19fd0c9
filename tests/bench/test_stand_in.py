"""Whole runs on a stand-in driver: the real cuda.core, our real PTX, real memory and real products, no GPU."""

from __future__ import annotations

import json
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpustack import bench
from gpustack.bench.listening import PROGRAM
from gpustack.errors import NothingSeenError, UsageError
from gpustack.model.bench import BenchReport, Mark, NvLink, Result
from tests.patience import in_time

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from typing import Protocol

    class Run(Protocol):
        def __call__(
            self, *names: str, data: str = ..., gpus: tuple[int, ...] = ..., sustain: float = ..., **fakes: str
        ) -> BenchReport: ...


MEASURED = {Mark.OK, Mark.UNSTEADY}  # on a busy machine there may not be enough samples in the time
LITTLE = "1000000"
LIST = "nvmlDeviceGetComputeRunningProcesses_v3"
SEVERAL = {name for name in bench.listed() if name.startswith(("p2p.", "nccl.")) or name.endswith(".all")}
FAR = {"pcie.h2d.far", "pcie.d2h.far"}  # a stand-in belongs to no NUMA node
ELSEWHERE = {"gemm.fp4", *SEVERAL, *FAR}  # what a single stand-in GPU cannot do
REPO = Path(__file__).resolve().parents[2]
pytestmark = [
    in_time,
    pytest.mark.skipif(
        find_spec("cuda") is None or platform.machine() != "x86_64", reason="needs the bench extra, on x86-64"
    ),
]


@pytest.fixture
def run(driver: Path, products: str) -> Run:
    """Return a function that measures on the stand-in driver, controlled by FAKE_ variables."""

    def run_(
        *names: str, data: str = "random", gpus: tuple[int, ...] = (0,), sustain: float = 0.0, **fakes: str
    ) -> BenchReport:
        return bench.measure(
            names,
            quick=True,
            gpus=gpus,
            data=data,
            sustain=sustain,
            cublaslt=products,
            environ=surroundings(driver, **fakes),
            timeout=60,
        )

    return run_


def surroundings(*folders: Path, **more: str) -> dict[str, str]:
    paths = [str(folder) for folder in folders] + [os.environ.get("LD_LIBRARY_PATH", "")]
    return {**os.environ, "LD_LIBRARY_PATH": ":".join(filter(None, paths)), **more}


def by_id(report: BenchReport) -> Mapping[str, Result]:
    return {result.id: result for result in report.results}


def test_all_are_measured_and_checked(run: Run) -> None:
    report = run("*")
    assert [result.id for result in report.results] == list(bench.listed())
    seen = by_id(report)
    assert seen["gemm.fp4"].why == ("a GPU of compute capability 9.0 has no fp4 units",)
    assert {one.verdict for one in report.results if one.id not in ELSEWHERE} <= MEASURED, report.results
    expected = {"hbm.read": 4.604, "hbm.write": 4.6, "hbm.copy": 4.21, "pcie.h2d.pinned": 55.5, "pcie.d2h.pinned": 55.5}
    for name, rate in expected.items():
        assert seen[name].value == pytest.approx(rate, rel=1e-3)
    assert seen["hbm.read"].ceiling == pytest.approx(4.814, abs=1e-3)
    for name in ("fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "int8"):
        product = seen[f"gemm.{name}"]
        assert product.ratio == pytest.approx(0.96, rel=1e-3)
        assert product.ratio_held == pytest.approx(0.96, rel=1e-3)
        assert str(product.method["way"]).endswith(", heuristic 2")
        assert product.method["library_version"] == "13.0.2"
    (device,) = report.devices
    assert (device.name, device.multiprocessors, device.bus_bits) == ("Stand-in GPU 0", 4, 6016)
    assert (device.pci, device.cuda, device.compute_capability) == ("0000:06:00.0", "13.0", "9.0")
    telemetry = seen["hbm.read"].telemetry
    assert telemetry
    assert telemetry.unavailable
    assert telemetry.clocks.held == pytest.approx(1.98, rel=1e-3)


@pytest.mark.parametrize("version", ["12000", "12040", "12080"])
def test_older_drivers_are_measured_through_the_guards(run: Run, version: str) -> None:
    report = run("pcie.*", "hbm.copy", FAKE_CUDA=version, FAKE_MEMORY=LITTLE)
    assert {result.verdict for result in report.results if result.id not in SEVERAL | FAR} <= MEASURED, report.results
    assert report.devices[0].cuda == f"12.{int(version) % 1000 // 10}"


@pytest.mark.parametrize(
    ("name", "wrong", "says"),
    [
        ("hbm.read", "read", "add up to"),
        ("hbm.write", "write", "1 of "),
        ("hbm.copy", "copy", "the copy differs from its source"),
        ("pcie.h2d.pinned", "h2d", "did not get what the host sent"),
        ("pcie.d2h.pinned", "d2h", "the host did not get what the GPU sent"),
    ],
)
def test_a_wrong_result_is_a_failure_and_no_figure(run: Run, name: str, wrong: str, says: str) -> None:
    other = "pcie.h2d.pinned" if name.startswith("hbm") else "hbm.read"
    seen = by_id(run(name, other, FAKE_WRONG=wrong))
    assert seen[other].verdict in MEASURED
    result = seen[name]
    assert result.verdict is Mark.FAILED
    assert says in result.why[0]
    assert result.value is None


PRODUCTS = ["fp64", "fp32", "fp16", "bf16", "fp8", "int8", "fp4"]


@pytest.mark.parametrize("dtype", PRODUCTS)
def test_a_wrong_product_is_a_failure(run: Run, dtype: str) -> None:
    result = by_id(run(f"gemm.{dtype}", FAKE_GEMM="wrong", FAKE_MAJOR="10"))[f"gemm.{dtype}"]
    assert result.verdict is Mark.FAILED
    assert "entry (0, 0) of the product is 123" in result.why[0]


def test_a_gpu_that_has_fp4_makes_its_product(run: Run) -> None:
    (result,) = run("gemm.fp4", FAKE_MAJOR="10").results
    assert result.verdict in MEASURED, result
    assert result.method["d"] == "bf16"


def test_the_quick_suite_has_two_of_the_products(run: Run) -> None:
    report = run()
    assert [one.id for one in report.results if one.id.startswith("gemm.")] == ["gemm.fp32", "gemm.bf16"]


def test_small_operands_are_taken_in_turns_so_that_no_cache_holds_them(run: Run) -> None:
    seen = by_id(run("gemm.tf32", "gemm.bf16"))
    assert seen["gemm.tf32"].method["operands"] == 2
    assert seen["gemm.bf16"].method["operands"] == 1


def test_work_without_rest_is_a_second_figure(run: Run) -> None:
    report = run("gemm.bf16", "hbm.read", sustain=1.0, FAKE_GEMM="power")
    memory, product = report.results
    assert product.sustained
    assert product.value
    assert product.sustained.value == pytest.approx(0.8 * product.value, rel=1e-3)
    assert product.sustained.seconds == 1.0
    assert product.sustained.telemetry
    assert product.sustained.telemetry.clocks.held == pytest.approx(1.98, rel=1e-3)
    assert memory.sustained is None


def test_both_data_give_the_power_sensitivity(run: Run) -> None:
    report = run("gemm.bf16", "hbm.read", data="both", FAKE_GEMM="power")
    memory, product = report.results
    assert product.zeros
    assert product.zeros.sensitivity == pytest.approx(0.25, abs=1e-3)
    assert memory.zeros is None
    assert report.data == "random and zeros"


def test_zeros_are_data_too(run: Run) -> None:
    report = run("hbm.read", "hbm.write", "gemm.bf16", data="zeros")
    assert {result.verdict for result in report.results} <= MEASURED, report.results
    assert report.data == "zeros"


@pytest.mark.parametrize(
    ("gemm", "verdict", "says"),
    [
        ("none", Mark.SKIPPED, "has no way to compute this product"),
        ("unstarted", Mark.SKIPPED, "does not start here: cublasLtCreate answered 1"),
        ("refused", Mark.SKIPPED, "has no such product here (cublasLtMatmulAlgoGetHeuristic answered 15)"),
    ],
)
def test_a_library_that_cannot_is_skipped(run: Run, gemm: str, verdict: Mark, says: str) -> None:
    result = by_id(run("gemm.bf16", FAKE_GEMM=gemm))["gemm.bf16"]
    assert result.verdict is verdict
    assert says in result.why[0]


@pytest.mark.parametrize(
    ("library", "cuda", "remedy"),
    [(None, "12040", "nvidia-cublas-cu12"), ("/no/libcublasLt.so.13", "13000", "pip install nvidia-cublas")],
)
def test_without_a_library_products_are_skipped_with_what_brings_one(
    driver: Path, library: str | None, cuda: str, remedy: str, tmp_path: Path
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python").symlink_to(sys.executable)  # a Python whose environment has no wheels
    environ = surroundings(driver, FAKE_CUDA=cuda)
    python = str(tmp_path / "bin/python")
    report = bench.measure(("gemm.bf16",), quick=True, cublaslt=library, pythons=(python,), environ=environ)
    (result,) = report.results
    assert result.verdict is Mark.SKIPPED, result
    assert result.remedy
    assert remedy in result.remedy


def test_an_old_gpu_has_no_bf16_and_fp16_anyway(run: Run) -> None:
    report = run("gemm.fp16", "gemm.bf16", "gemm.tf32", FAKE_MAJOR="7")
    assert [result.verdict is Mark.SKIPPED for result in report.results] == [True, False, True]
    assert report.results[2].why == ("a GPU of compute capability 7.0 has no bf16 units",)


def test_an_error_of_cuda_fails_its_benchmark_and_a_new_child_measures_the_rest(run: Run) -> None:
    report = run("pcie.h2d.pinned", "hbm.copy", "hbm.read", FAKE_FAULT="cuMemsetD8Async@4=719")
    assert {result.verdict for result in report.results} == {Mark.FAILED}
    assert all("CUDA_ERROR_LAUNCH_FAILED" in result.why[0] for result in report.results)


@pytest.mark.parametrize(
    ("fault", "how"), [("cuMemcpyAsync@40=segv", "was killed by SIGSEGV"), ("cuEventRecord@20=719", "LAUNCH_FAILED")]
)
def test_a_crash_in_the_middle_is_reported(run: Run, fault: str, how: str) -> None:
    result = by_id(run("hbm.copy", FAKE_FAULT=fault))["hbm.copy"]
    assert result.verdict is Mark.FAILED
    assert how in result.why[0]


def test_too_little_memory_is_skipped_and_the_others_run(run: Run) -> None:
    report = run("hbm.copy", "hbm.read", FAKE_FAULT="cuMemAllocFromPoolAsync@4=2")
    assert {result.verdict for result in report.results} == {Mark.SKIPPED}
    assert {result.why for result in report.results} == {("too little memory is free",)}
    full = run("hbm.copy", FAKE_MEMORY="200000")
    assert "KiB of the GPU's memory are free" in full.results[0].why[0]


def test_a_gate_that_gives_up_is_left_open(run: Run) -> None:
    result = by_id(run("hbm.read", FAKE_GATE="late"))["hbm.read"]
    assert result.verdict in MEASURED
    assert (result.method["gated"], result.method["gate"]) == (False, "gave up")


def test_a_gate_that_gave_up_once_is_tried_again_at_the_next_benchmark(run: Run) -> None:
    seen = by_id(run("hbm.read", "hbm.write", FAKE_GATE="once"))
    assert [seen[name].method["gated"] for name in ("hbm.read", "hbm.write")] == [False, True]
    assert "gate" not in seen["hbm.write"].method


def test_times_that_waver_are_unsteady(run: Run) -> None:
    result = by_id(run("hbm.copy", FAKE_JITTER="80"))["hbm.copy"]
    assert result.verdict is Mark.UNSTEADY
    assert result.steady is False


@pytest.mark.parametrize(
    ("fakes", "says"),
    [
        ({"FAKE_GPUS": "0"}, "CUDA_ERROR_NO_DEVICE"),
        ({"FAKE_FAULT": "cuLibraryLoadData=222"}, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION"),
        ({"FAKE_FAULT": "cuInit=segv"}, "was killed by SIGSEGV"),
        ({"FAKE_FAULT": "cuDevicePrimaryCtxRetain=46"}, "CUDA_ERROR_DEVICE_UNAVAILABLE|NULL context"),
    ],
)
def test_a_gpu_that_cannot_be_opened_is_nothing_seen(run: Run, fakes: dict[str, Any], says: str) -> None:
    with pytest.raises(NothingSeenError, match=says):
        run("hbm.read", **fakes)


def test_a_number_beyond_the_last_gpu_is_wrong_usage(run: Run) -> None:
    with pytest.raises(UsageError, match="no GPU 3; CUDA shows 2"):
        run("hbm.read", gpus=(0, 3), FAKE_GPUS="2")


def test_the_second_gpu_is_measured_as_such(run: Run) -> None:
    report = run("hbm.read", gpus=(1,), FAKE_GPUS="2")
    assert [device.name for device in report.devices] == ["Stand-in GPU 0", "Stand-in GPU 1"]
    assert report.results[0].device == 1
    assert report.results[0].verdict in MEASURED


def test_a_hang_of_the_driver_ends_in_time(driver: Path) -> None:
    environ = surroundings(driver, FAKE_FAULT="cuEventQuery@10=hang")
    report = bench.measure(("hbm.read",), quick=True, environ=environ, timeout=4)
    assert report.results[0].verdict is Mark.FAILED
    assert "printed nothing" in report.results[0].why[0]


def test_nvml_tells_what_the_card_did(driver: Path, nvml: Path) -> None:
    pids = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        told = {"NVML_FAKE_PIDS": f"{pids.pid},999999999", "NVML_FAKE_BUSY": "97", "NVML_FAKE_NVLINK": "4"}
        environ = surroundings(driver, nvml, FAKE_MEMORY=LITTLE, **told)
        report = bench.measure(("pcie.*",), quick=True, environ=environ, timeout=60)
    finally:
        pids.communicate(b"\n")
    result = by_id(report)["pcie.d2h.pinned"]
    assert result.ceiling == pytest.approx(57.6, abs=0.05)
    assert result.ratio == pytest.approx(0.963, abs=0.01)
    telemetry = result.telemetry
    assert telemetry
    assert telemetry.readings
    assert telemetry.unavailable is None
    assert telemetry.power.limit == 700.0
    assert telemetry.link.width == 16
    assert [name.split()[0] for name in telemetry.processes] == [str(pids.pid)]
    assert telemetry.processes[0].endswith(", 0.5 GiB")
    assert (telemetry.others_percent, telemetry.busy_percent, telemetry.performance_state) == (97, 97, 0)
    assert telemetry.nvlink == NvLink(total=18, active=18)
    assert telemetry.remap_pending is True
    assert any(why.startswith(f"also computing on this GPU: {pids.pid} ") for why in result.why)
    assert report.devices[0].driver == "580.159.04"


def test_where_nvml_counts_as_the_host_does_no_process_here_is_named(driver: Path, nvml: Path) -> None:
    told = {"NVML_FAKE_PIDS": f"{os.getpid()},4194302", "NVML_FAKE_OWN": "4194303"}
    environ = surroundings(driver, nvml, FAKE_MEMORY=LITTLE, **told)
    (result,) = bench.measure(("pcie.h2d.pinned",), quick=True, environ=environ, timeout=60).results
    assert result.telemetry
    assert result.telemetry.processes == (f"{os.getpid()} as the host counts, 0.5 GiB", "4194302 as the host counts")


def test_a_shuffled_list_of_processes_is_not_taken_for_the_host_s(driver: Path, nvml: Path) -> None:
    told = {"NVML_FAKE_PIDS": str(os.getpid()), "NVML_FAKE_OWN": "1", "NVML_FAKE": f"{LIST}=r535"}
    environ = surroundings(driver, nvml, FAKE_MEMORY=LITTLE, **told)
    (result,) = bench.measure(("pcie.h2d.pinned",), quick=True, environ=environ, timeout=60).results
    name = Path("/proc/self/comm").read_text("utf-8").strip()
    assert result.telemetry
    assert result.telemetry.processes == (f"{os.getpid()} {name}, 0.5 GiB",)


@pytest.mark.parametrize("plan", ["nvmlInit=9", "nvmlDeviceGetUUID=999", "nvmlDeviceGetCurrPcieLinkWidth=3"])
def test_nvml_that_will_not_speak_ends_no_measurement(driver: Path, nvml: Path, plan: str) -> None:
    environ = surroundings(driver, nvml, NVML_FAKE=plan, FAKE_MEMORY=LITTLE)
    (result,) = bench.measure(("pcie.h2d.pinned",), quick=True, environ=environ, timeout=60).results
    assert result.verdict in MEASURED
    assert result.value == pytest.approx(55.5, rel=1e-3)


def child(path: list[str], **asked: object) -> list[dict[str, object]]:
    given = {"main": "gpustack.bench.child", "path": path, "library": None}
    argument = json.dumps({"gpu": 0, "highest": 0, "names": [], "quick": True, "data": "random", **given, **asked})
    said = subprocess.run([sys.executable, "-c", PROGRAM, argument], capture_output=True, text=True, check=False)
    return [json.loads(line) for line in said.stdout.splitlines()]


def test_a_machine_without_the_packages_gets_the_command_to_install_them(tmp_path: Path) -> None:
    (tmp_path / "pynvml.py").write_text("raise ImportError")  # cuda itself may be preloaded by its own .pth file
    (line,) = child([str(tmp_path), str(REPO), *filter(None, sys.path)])
    assert isinstance(line["nothing"], dict)
    extra = tomllib.loads((REPO / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]["bench"]
    assert shlex.split(line["nothing"]["remedy"]) == ["pip", "install", *extra]


@pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="there is a driver here")
def test_a_machine_without_a_driver_says_so() -> None:
    with pytest.raises(NothingSeenError, match="there is no NVIDIA driver here"):
        bench.measure(("hbm.read",))
