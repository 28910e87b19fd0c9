"""The load on most of the memory, on a stand-in driver: what it compares, what it finds, and how it ends."""

from __future__ import annotations

import io
import json
import os
import platform
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpustack import bench
from gpustack.bench import results
from gpustack.bench.stress import concluded as ended
from gpustack.errors import NothingSeenError, UsageError
from gpustack.matrix import Matrix
from gpustack.model.bench import BenchReport, Mark
from gpustack.model.versions import ComputeCapability
from tests.bench.lines import COUNTERS, OPENED, READING
from tests.patience import in_time

if TYPE_CHECKING:
    from typing import Protocol

    class Load(Protocol):
        def __call__(self, seconds: float = ..., gpus: tuple[int, ...] = ..., **fakes: str) -> BenchReport: ...


pytestmark = in_time


standing_in = pytest.mark.skipif(
    find_spec("cuda") is None or platform.machine() != "x86_64", reason="needs the bench extra, on x86-64"
)


@pytest.fixture
def stress(driver: Path, products: str) -> Load:
    """Return a function that puts load on the stand-in GPUs."""

    def stress_(seconds: float = 1.0, gpus: tuple[int, ...] = (0,), **fakes: str) -> BenchReport:
        return bench.stress(seconds, gpus=gpus, cublaslt=products, environ=surroundings(driver, **fakes))

    return stress_


def surroundings(driver: Path, **fakes: str) -> dict[str, str]:
    return {**os.environ, "LD_LIBRARY_PATH": f"{driver}:{os.environ.get('LD_LIBRARY_PATH', '')}", **fakes}


@standing_in
def test_a_healthy_gpu_passes_with_most_of_its_free_memory_compared(stress: Load) -> None:
    report = stress()
    (result,) = report.results
    assert (result.id, result.verdict) == ("stress", Mark.OK)
    seen = result.stress
    assert seen
    assert seen.wrong_bits == 0
    assert not seen.operands_changed
    assert seen.memory_gib * 1024 > 2.5  # operands and workspace take three of the six available
    assert seen.compared_gib == pytest.approx(seen.products * 256 * 512 * 2 / 2**30, abs=1e-3)
    assert seen.rounds > 1
    assert seen.patterns == seen.rounds
    assert (seen.wrong_units, seen.steps > 0) == (0, True)
    assert 1.0 <= seen.seconds < 5
    assert report.findings == ()


@standing_in
def test_one_wrong_bit_is_a_failure_that_names_its_gpu(stress: Load) -> None:
    report = stress(2.0, gpus=(0, 1), FAKE_GPUS="2", FAKE_GEMM="flips")
    assert [(one.device, one.verdict) for one in report.results] == [(0, Mark.FAILED), (1, Mark.FAILED)]
    for index, result in enumerate(report.results):
        assert result.stress
        assert result.stress.wrong_bits >= 1
        named = f"GPU {index} (Stand-in GPU {index}, 0000:0{6 + index}:00.0)"
        assert result.why[0].startswith(f"{named} computes or stores")
    assert [finding.severity.value for finding in report.findings] == ["error", "error"]


@standing_in
def test_results_that_are_stored_no_more_are_not_taken_for_those_of_the_round_before(stress: Load) -> None:
    (result,) = stress(3.0, FAKE_GEMM="lost").results
    assert result.verdict is Mark.FAILED
    assert result.stress
    assert result.stress.rounds > 1
    assert result.stress.wrong_bits


@standing_in
def test_memory_that_does_not_keep_an_operand_is_found(stress: Load) -> None:
    (result,) = stress(3.0, FAKE_GEMM="fades").results
    assert result.verdict is Mark.FAILED
    assert result.stress
    assert result.stress.operands_changed
    assert "does not keep what is written to its memory" in result.why[0]


@standing_in
def test_memory_that_does_not_keep_a_pattern_is_found(stress: Load) -> None:
    (result,) = stress(2.0, FAKE_WRONG="write").results
    assert result.verdict is Mark.FAILED
    assert result.stress
    assert (result.stress.wrong_bits, result.stress.wrong_units > 0) == (0, True)
    assert "does not keep what is written to its memory: " in result.why[0]


@standing_in
def test_a_product_that_is_wrong_from_the_first_is_a_failure(stress: Load) -> None:
    (result,) = stress(FAKE_GEMM="wrong").results
    assert result.verdict is Mark.FAILED
    assert "entry (0, 0) of the product" in result.why[0]


@standing_in
@pytest.mark.parametrize(
    ("fakes", "verdict", "says"),
    [
        ({"FAKE_MEMORY": "200000"}, Mark.SKIPPED, "of the GPU's memory are free"),
        ({"FAKE_FAULT": "cuMemAllocFromPoolAsync@12=2"}, Mark.SKIPPED, "too little memory is free"),
        ({"FAKE_GEMM": "none"}, Mark.SKIPPED, "has no way"),
        ({"FAKE_FAULT": "cuEventRecord@20=719"}, Mark.FAILED, "CUDA_ERROR_LAUNCH_FAILED"),
        ({"FAKE_FAULT": "cuEventRecord@20=segv"}, Mark.FAILED, "was killed by SIGSEGV"),
    ],
)
def test_what_cannot_be_loaded_or_fails_under_load_is_reported(
    stress: Load, fakes: dict[str, Any], verdict: Mark, says: str
) -> None:
    (result,) = stress(10.0, **fakes).results  # it ends with the fault, which a busy machine reaches late
    assert result.verdict is verdict, result
    assert says in result.why[0]


@standing_in
def test_without_a_gpu_nothing_was_seen(stress: Load) -> None:
    with pytest.raises(NothingSeenError, match="CUDA_ERROR_NO_DEVICE"):
        stress(FAKE_GPUS="0")
    with pytest.raises(UsageError, match="no GPU 2; CUDA shows 1"):
        stress(gpus=(2,))


def command(driver: Path, products: str, *arguments: str, **fakes: str) -> subprocess.Popen[str]:
    environ = surroundings(driver, **fakes)
    environ["LD_LIBRARY_PATH"] += f":{Path(products).parent}"
    return subprocess.Popen(
        [sys.executable, "-m", "gpustack", "stress", *arguments],
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@standing_in
@pytest.mark.parametrize(
    ("fakes", "code", "says"),
    [
        ({}, 0, "compared bit by bit: all identical"),
        ({"FAKE_GEMM": "flips"}, 1, "computes or stores wrong values"),
        ({"FAKE_MEMORY": "200000"}, 3, "of the GPU's memory are free"),
    ],
)
def test_the_exit_code_tells_the_result(
    driver: Path, products: str, fakes: dict[str, str], code: int, says: str
) -> None:
    child = command(driver, products, "--seconds", "1", **fakes)
    out, _ = child.communicate(timeout=60)
    assert child.returncode == code
    assert says in " ".join(out.split())


@standing_in
def test_ctrl_c_keeps_what_was_found_and_shows_how_it_went(driver: Path, products: str) -> None:
    child = command(driver, products, "--seconds", "600", "--format", "json")
    assert child.stderr
    first = child.stderr.readline()
    child.send_signal(signal.SIGINT)
    out, _ = child.communicate(timeout=20)
    report = json.loads(out)
    assert "of 600 s," in first
    assert first.endswith("no errors\n")
    assert child.returncode == 130
    assert report["schema"] == "gpustack.bench/1"
    assert report["interrupted"] == "Ctrl-C"
    assert report["results"][0]["verdict"] == "ok"
    assert report["results"][0]["stress"]["products"] > 0


STATE: dict[str, Any] = {
    "dtype": "bf16",
    "amount": 2.0 * 8448 * 4096 * 8192,
    "way": "heuristic 1",
    "m": 8448,
    "n": 4096,
    "memory": 130 << 30,
    "result": 8448 * 4096 * 2,
    "spent": 1.5,
    "products": 1900,
    "each": 0.00075,
    "clock": 1400.0,
    "wrong": [0, 0, None],
    "changed": False,
    "readings": [{**READING, "watts": 698.0, "mask": 4}],
    "before": COUNTERS,
    "after": COUNTERS,
}


def concluded(**bent: Any) -> Any:  # noqa: ANN401 - a result or its failure
    return summed(STATE, {**STATE, "spent": 3.0, **bent})


def summed(*states: dict[str, Any]) -> Any:  # noqa: ANN401 - a result or its failure
    capability = ComputeCapability.parse("9.0")
    assert capability
    return ended(list(states), 3.0, results.opened(OPENED, 0), Matrix().arch(capability))


def test_a_power_bound_card_that_errs_nowhere_is_healthy() -> None:
    result = concluded()
    assert result.verdict is Mark.OK
    assert result.why[0] == "3800 products over 130.0 GiB compared bit by bit: all identical"
    assert result.why[1].startswith("power-bound: 1400 of 1980 MHz held")
    assert "698 W, up to 47 °C" in result.why[-1]


@pytest.mark.parametrize(
    ("bent", "says"),
    [
        ({"wrong": [3, 2, 640]}, "wrong bits: 3, in 2 words of 3800 products, the first at byte 640"),
        ({"changed": True}, "does not keep what is written to its memory"),
        ({"after": {**COUNTERS, "uncorrected": 1}}, "1 uncorrected memory errors"),
    ],
)
def test_each_sign_of_a_faulty_card_is_a_failure(bent: dict[str, Any], says: str) -> None:
    result = concluded(**bent)
    assert result.verdict is Mark.FAILED
    assert any(says in why for why in result.why)


def test_what_went_wrong_in_one_round_alone_stays_in_the_result() -> None:
    faulty = {**COUNTERS, "uncorrected": 1}
    changed = summed({**STATE, "changed": True}, STATE)
    errors = summed({**STATE, "after": faulty}, {**STATE, "before": faulty, "after": faulty})
    assert (changed.verdict, changed.stress.operands_changed) == (Mark.FAILED, True)
    assert errors.verdict is Mark.FAILED
    assert any("1 uncorrected memory errors" in why for why in errors.why)


def test_a_load_far_below_the_limit_is_low_though_nothing_is_wrong() -> None:
    slow = {**STATE, "each": 0.003, "clock": 1980.0, "readings": [READING]}
    assert summed(*[slow] * 6).verdict is Mark.LOW
    assert summed(slow, slow).verdict is Mark.OK  # too few rounds to be sure


def test_operands_that_changed_are_reported_without_bits_where_no_result_differs() -> None:
    alone, both = concluded(changed=True).why[0], concluded(changed=True, wrong=[3, 2, 640]).why[0]
    assert " bits" not in alone
    assert both == f"{alone}, and 3 bits of the results differ"


def test_a_round_that_makes_no_sense_is_a_failure_of_the_answer() -> None:
    result = concluded(each="soon")
    assert result.verdict is Mark.FAILED
    assert "malformed" in result.why[0]


def test_a_log_gets_a_line_every_ten_seconds_and_one_for_each_wrong_round() -> None:
    stream = io.StringIO()
    ticker = bench.Ticker(stream, 60)
    for spent, wrong in ((1, 0), (4, 0), (9, 0), (12, 0), (13, 2), (14, 0)):
        ticker.told(0, {**STATE, "spent": spent, "wrong": [wrong, wrong, None]})
    ticker.close()
    lines = stream.getvalue().splitlines()
    assert [line.split(";")[0] for line in lines] == [
        "1 of 60 s, 59 s left",
        "12 of 60 s, 48 s left",
        "13 of 60 s, 47 s left",
    ]
    assert lines[0].endswith("GPU 0: 755.9 TFLOP/s, 1400 MHz, 698 W, 47 °C, no errors")
    assert lines[2].endswith("2 WRONG BITS")


def test_all_gpus_are_loaded_by_default_but_those_of_others(driver: Path, nvml: Path, products: str) -> None:
    other = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    told = {"FAKE_GPUS": "3", "NVML_FAKE_GPUS": "3", "NVML_FAKE_PIDS": str(other.pid), "NVML_FAKE_PIDS_OF": "1"}
    try:
        report = bench.stress(1.0, cublaslt=products, environ=surroundings(Path(f"{driver}:{nvml}"), **told))
    finally:
        other.communicate(b"\n")
    seen = {result.device: result for result in report.results}
    assert sorted(seen, key=str) == [0, 1, 2]
    assert (seen[1].verdict, str(other.pid) in seen[1].why[0]) == (Mark.SKIPPED, True)
    assert [seen[gpu].stress is not None for gpu in (0, 2)] == [True, True]
