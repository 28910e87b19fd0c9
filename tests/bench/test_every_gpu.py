"""Every GPU of a node on the stand-in driver: all are measured, and a faulty one does not affect the others."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest

from gpustack import bench
from gpustack.model.bench import BenchReport, Mark
from tests.patience import idle, in_time
from tests.wide import WIDE, wide

MEASURED = {Mark.OK, Mark.UNSTEADY}  # on a busy machine there may not be enough samples in the time
OWN = ("hbm.copy", "pcie.d2h.pinned", "pcie.d2h.all")
Run = Callable[..., BenchReport]
pytestmark = [
    in_time,
    pytest.mark.skipif(
        find_spec("cuda") is None or platform.machine() != "x86_64", reason="needs the bench extra, on x86-64"
    ),
]


@pytest.fixture
def run(driver: Path, nvml: Path, sums: str) -> Run:
    """Return a function that measures on this many stand-in GPUs, controlled by FAKE_ variables."""

    def run_(
        count: int, *names: str, gpus: tuple[int, ...] | None = None, spare: bool = False, **fakes: str
    ) -> BenchReport:
        paths = ":".join([str(driver), str(nvml), os.environ.get("LD_LIBRARY_PATH", "")])
        many = {"FAKE_GPUS": str(count), "NVML_FAKE_GPUS": str(count), "FAKE_MEMORY": "1000000"}
        kept = {name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}
        environ = {**kept, "LD_LIBRARY_PATH": paths, **many, "FAKE_NAME": "Twin", "NVML_FAKE_NVLINK": "4", **fakes}
        return bench.measure(names, quick=True, gpus=gpus, spare=spare, nccl=sums, environ=environ, timeout=idle(90))

    return run_


@wide
@pytest.mark.parametrize("count", [1, 2, 4, 8, 16] if WIDE else [1, 2, 8])
def test_all_gpus_are_measured_by_default(count: int, run: Run) -> None:
    """On up to 8 GPUs in CI, on 16 with GPUSTACK_WIDE=1."""
    report = run(count, *OWN)
    for name in ("hbm.copy", "pcie.d2h.pinned"):
        assert [one.device for one in report.results if one.id == name] == list(range(count))
    (whole,) = [one for one in report.results if one.id == "pcie.d2h.all"]
    assert {one.verdict for one in report.results if one is not whole} <= MEASURED, report.results
    if count == 1:
        assert whole.verdict is Mark.SKIPPED
        return
    assert whole.verdict in MEASURED
    assert whole.gpus == tuple(range(count))
    assert whole.value == pytest.approx(55.5 * count, rel=1e-2)
    assert whole.ceiling == pytest.approx(57.6 * count, rel=1e-2)
    cards = whole.method["cards"]
    assert isinstance(cards, tuple | list)
    assert len(cards) == count


@pytest.mark.parametrize(("fault", "how"), [("719", "CUDA_ERROR_LAUNCH_FAILED"), ("segv", "was killed by SIGSEGV")])
def test_a_card_that_is_lost_in_the_middle_does_not_affect_the_others(fault: str, how: str, run: Run) -> None:
    report = run(3, "hbm.copy", "hbm.write", FAKE_FAULT=f"cuMemcpyAsync@30={fault}", FAKE_SICK="2")
    failed = [one for one in report.results if one.verdict is Mark.FAILED]
    assert {one.device for one in failed} == {2}
    assert how in failed[0].why[0]
    fine = [one for one in report.results if one.device != 2]
    assert {one.verdict for one in fine} <= MEASURED
    assert len(fine) == 2 * len({one.id for one in report.results})


def test_a_card_that_hangs_in_the_middle_is_ended_and_the_others_are_complete(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpustack.bench.session.PATIENCE", 4.0)
    report = run(2, "hbm.copy", "pcie.d2h.all", FAKE_FAULT="cuMemcpyAsync@8=hang", FAKE_SICK="1")
    marks = {(one.id, one.device): one.verdict for one in report.results}
    assert marks["hbm.copy", 0] in MEASURED
    assert Mark.FAILED in {marks["hbm.copy", 1], marks.get(("pcie.d2h.all", 1))}
    assert any(one.id == "pcie.d2h.all" and one.value for one in report.results)


@pytest.mark.parametrize("sick", ["0", "1"])
def test_a_card_that_cannot_be_opened_is_a_result_of_its_own(sick: str, run: Run) -> None:
    report = run(2, "hbm.copy", "hbm.write", FAKE_FAULT="cuDevicePrimaryCtxRetain=46", FAKE_SICK=sick)
    lost = [one for one in report.results if one.device == int(sick)]
    assert [one.verdict for one in lost] == [Mark.FAILED, Mark.SKIPPED]
    assert {one.verdict for one in report.results if one.device != int(sick)} <= MEASURED
    assert [one.severity.value for one in report.findings if one.id == "bench-failed"] == ["error"]


def test_a_slow_card_is_named_among_its_siblings(run: Run) -> None:
    report = run(3, "hbm.copy", FAKE_SLOW_CARD="2")
    low = [one for one in report.results if one.verdict is Mark.LOW]
    assert [one.device for one in low] == [2]
    assert "of what its siblings reach" in low[0].why[-1]
    assert [one.title for one in report.findings if one.id == "bench-low"] == ["hbm.copy on GPU 2 is low"]


def test_a_link_is_measured_alone_in_the_short_suite_where_it_stands_out(run: Run) -> None:
    fine, slow = (run(3, FAKE_SLOW_CARD=card).results for card in ("", "1"))
    assert [one.device for one in fine if one.id == "pcie.d2h.pinned"] == []
    assert [one.device for one in slow if one.id == "pcie.d2h.pinned"] == [1]
    assert {one.id for one in fine} >= {"pcie.h2d.all", "pcie.d2h.all", "hbm.read", "launch.kernel"}


def test_a_card_on_which_others_compute_is_left_alone_unless_it_is_named(run: Run) -> None:
    other = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        fakes = {"NVML_FAKE_PIDS": str(other.pid), "NVML_FAKE_PIDS_OF": "1"}
        report, named = run(2, "hbm.copy", spare=True, **fakes), run(2, "hbm.copy", gpus=(1,), **fakes)
    finally:
        other.communicate(b"\n")
    marks = {one.device: one for one in report.results}
    assert marks[0].verdict in MEASURED
    assert marks[1].verdict is Mark.SKIPPED
    assert str(other.pid) in marks[1].why[0]
    assert marks[1].remedy == "gpustack bench --gpu 1"
    assert named.results[0].value
