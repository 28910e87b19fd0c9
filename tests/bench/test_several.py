"""Whole runs over several GPUs on a stand-in driver, NVML and NCCL: real copies, real sums, no GPU."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpustack import bench
from gpustack.model import writing
from gpustack.model.bench import BenchReport, Mark, Result
from gpustack.model.difference import Outcome
from gpustack.report import bench_text
from tests.wide import WIDE, wide

if TYPE_CHECKING:
    from collections.abc import Callable

    Run = Callable[..., BenchReport]

NAMES = ("p2p.*", "nccl.*")
LITTLE = "4000000"
MEASURED = {Mark.OK, Mark.UNSTEADY}  # on a busy machine there may not be enough samples in the time
pytestmark = [
    pytest.mark.timeout(240),  # longer than a run takes: nothing here is judged by its duration
    pytest.mark.skipif(
        find_spec("cuda") is None or platform.machine() != "x86_64", reason="needs the bench extra, on x86-64"
    ),
]


@pytest.fixture
def run(driver: Path, nvml: Path, sums: str) -> Run:
    """Return a function that measures on two stand-in GPUs, controlled by FAKE_ variables."""

    def run_(*names: str, gpus: tuple[int, ...] | None = None, nccl: str | None = sums, **fakes: str) -> BenchReport:
        paths = ":".join([str(driver), str(nvml), os.environ.get("LD_LIBRARY_PATH", "")])
        usual = {"FAKE_GPUS": "2", "FAKE_MEMORY": LITTLE, "NVML_FAKE_GPUS": "2", "NVML_FAKE_NVLINK": "4"}
        kept = {name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}
        environ = {**kept, "LD_LIBRARY_PATH": paths, **usual, **fakes}
        return bench.measure(names or NAMES, gpus=gpus, nccl=nccl, environ=environ, timeout=200)

    return run_


def by_name(report: BenchReport) -> Mapping[str, Result]:
    return {result.name(): result for result in report.results}


@wide
@pytest.mark.parametrize("count", [2, 4] if WIDE else [4])
def test_each_work_between_all_gpus_has_its_own_limit_and_is_right(count: int, run: Run) -> None:
    """On four GPUs in CI, on two as well with GPUSTACK_WIDE=1."""
    told = {"FAKE_GPUS": str(count), "NVML_FAKE_GPUS": str(count), "FAKE_MEMORY": "1000000"}
    seen = by_name(run("nccl.*", "p2p.all_to_all", **told))
    assert {one.verdict for one in seen.values()} <= MEASURED, seen
    assert all(one.gpus == tuple(range(count)) and one.device is None for one in seen.values())
    whole = seen["p2p.all_to_all"]
    assert whole.ceiling == pytest.approx(450.0 * count, rel=1e-4)
    cards = whole.method["cards"]
    assert isinstance(cards, tuple | list)
    assert len(cards) == count
    for name in ("all_gather", "reduce_scatter", "all_to_all", "send_recv"):
        size: Any = seen[f"nccl.{name}"].method["bytes"]
        moved = size if name == "send_recv" else size * (count - 1) / count
        assert seen[f"nccl.{name}"].value == pytest.approx(moved / (1e-5 + moved / 340e9) / 1e9, rel=1e-3)


def test_each_pair_and_all_gpus_are_measured_and_checked(run: Run) -> None:
    report = run()
    seen = by_name(report)
    pairs = ["p2p.bandwidth 0>1", "p2p.latency 0>1", "p2p.bandwidth 1>0", "p2p.latency 1>0"]
    works = ["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send_recv"]
    assert sorted(seen) == sorted([*pairs, "p2p.all_to_all", *(f"nccl.{work}" for work in works)])
    assert {one.verdict for one in report.results} <= MEASURED, report.results
    for name in ("p2p.bandwidth 0>1", "p2p.bandwidth 1>0"):
        copy = seen[name]
        assert copy.value == pytest.approx(394.0, rel=1e-3)
        assert copy.ceiling == pytest.approx(450.0, rel=1e-4)
        assert copy.method["peer_access"] == "enabled"
        assert copy.method["read_gb_s"] == pytest.approx(394.0, rel=1e-3)
    assert "both_gb_s" in seen["p2p.bandwidth 0>1"].method
    assert "both_gb_s" not in seen["p2p.bandwidth 1>0"].method
    assert seen["p2p.latency 0>1"].value == pytest.approx(1128.0, rel=1e-3)
    assert {device.index for device in report.devices} == {0, 1}


def test_the_sum_tells_its_library_its_sizes_and_the_bandwidth_of_the_bus(run: Run, sums: str) -> None:
    (result,) = run("nccl.all_reduce").results
    assert result.method["library"] == os.path.realpath(sums)
    assert result.method["library_version"] == "2.29.7"
    assert result.gpus == (0, 1)
    sizes: Any = result.method["sizes"]
    assert [row["bytes"] for row in sizes] == [1024, 32768, 983040]
    whole = 983040 / (1e-5 + 983040 / 340e9) / 1e9
    assert result.value == pytest.approx(whole, rel=1e-3)
    assert sizes[-1]["bus_gb_s"] == pytest.approx(whole, rel=1e-3)


@pytest.mark.parametrize(
    ("name", "fakes", "says"),
    [
        ("p2p.bandwidth", {"FAKE_WRONG": "p2p"}, "GPU 1 did not get what GPU 0 sent"),
        ("p2p.latency", {"FAKE_WRONG": "chase"}, "the chain of reads led to place"),
        ("p2p.all_to_all", {"FAKE_WRONG": "p2p"}, "did not get what GPU 1 sent"),
        ("nccl.all_reduce", {"FAKE_NCCL": "wrong"}, "1 of 245760 sums are wrong on GPU 1"),
        ("nccl.all_gather", {"FAKE_NCCL": "wrong"}, "GPU 1 did not get what the others sent"),
        ("nccl.reduce_scatter", {"FAKE_NCCL": "wrong"}, "sums are wrong on GPU"),
        ("nccl.all_to_all", {"FAKE_NCCL": "wrong"}, "what the GPUs got is not what they sent"),
        ("nccl.send_recv", {"FAKE_NCCL": "wrong"}, "did not get what GPU"),
        ("nccl.all_reduce", {"FAKE_NCCL": "refused"}, "unhandled system error (the stand-in says so)"),
    ],
)
def test_what_is_wrong_is_a_failure_and_no_figure(run: Run, name: str, fakes: dict[str, str], says: str) -> None:
    first = run(name, **fakes).results[0]
    assert (first.verdict, first.value) == (Mark.FAILED, None)
    assert says in first.why[0]


def test_where_peer_access_is_refused_copies_say_so_and_reads_are_skipped(run: Run) -> None:
    seen = by_name(run("p2p.*", FAKE_PEERS="refused"))
    copy, read = seen["p2p.bandwidth 0>1"], seen["p2p.latency 0>1"]
    assert copy.verdict in MEASURED
    assert copy.value == pytest.approx(22.0, rel=1e-3)
    assert (copy.ceiling, copy.method["peer_access"], copy.method["gated"]) == (None, "refused", False)
    assert any(why.startswith("no peer access: ") for why in copy.why)
    assert (read.verdict, read.remedy) == (Mark.SKIPPED, "nvidia-smi topo -p2p r")


def test_the_slower_direction_is_the_outlier(run: Run) -> None:
    seen = by_name(run("p2p.bandwidth", FAKE_SLOW="1>0", FAKE_NAME="Twin"))
    assert seen["p2p.bandwidth 1>0"].verdict is Mark.LOW
    assert "outlier among siblings: 67% of what its siblings reach" in seen["p2p.bandwidth 1>0"].why[-1]
    assert seen["p2p.bandwidth 0>1"].verdict in MEASURED


def test_a_link_that_is_down_is_reported_for_the_pair(run: Run) -> None:
    seen = by_name(run("p2p.bandwidth", NVML_FAKE_DOWN="3"))["p2p.bandwidth 0>1"]
    assert seen.ceiling_held == pytest.approx(425.0, rel=1e-4)
    said = "NVLink links down: 17 of 18 NVLinks of GPU 0, 17 of 18 NVLinks of GPU 1 are up"
    assert said in seen.why


@pytest.mark.parametrize(
    ("gpus", "fakes", "why", "remedy"),
    [
        (None, {"FAKE_GPUS": "1"}, "CUDA shows one GPU", "nvidia-smi topo -m"),
        (
            None,
            {"FAKE_GPUS": "1", "CUDA_VISIBLE_DEVICES": "0"},
            "CUDA_VISIBLE_DEVICES shows one",
            "env -u CUDA_VISIBLE",
        ),
        ((1,), {}, "one GPU was named", "--gpu 0 --gpu 1"),
    ],
)
def test_with_one_gpu_they_are_skipped_with_what_would_bring_them(
    run: Run, gpus: tuple[int, ...] | None, fakes: dict[str, str], why: str, remedy: str
) -> None:
    report = run(gpus=gpus, **fakes)
    assert [one.id for one in report.results] == [one for one in bench.listed() if one.startswith(("p2p.", "nccl."))]
    for one in report.results:
        assert one.verdict is Mark.SKIPPED
        assert why in one.why[0]
        assert remedy in (one.remedy or "")
    assert report.interrupted is None


@pytest.mark.parametrize(
    ("cuda", "nccl", "remedy"),
    [("12040", "/no/libnccl.so.2", "nvidia-nccl-cu12"), ("13000", "/no/x", "nvidia-nccl-cu13")],
)
def test_without_nccl_it_is_skipped_with_what_brings_one(run: Run, cuda: str, nccl: str, remedy: str) -> None:
    (result,) = run("nccl.all_reduce", nccl=nccl, FAKE_CUDA=cuda).results
    assert (result.verdict, result.remedy) == (Mark.SKIPPED, f"pip install {remedy}")
    assert "cannot be loaded" in result.why[0]


def test_a_crash_in_a_pair_fails_only_that_pair(run: Run) -> None:
    seen = by_name(run("p2p.latency", FAKE_GPUS="3", FAKE_FAULT="cuCtxEnablePeerAccess@3=segv"))
    assert len(seen) == 6
    failed = [name for name, one in seen.items() if one.verdict is Mark.FAILED]
    assert failed == ["p2p.latency 0>1", "p2p.latency 1>0", "p2p.latency 2>0"]  # the second pair of each child


def test_the_text_has_a_row_for_each_of_few_pairs_and_a_matrix_for_many(run: Run) -> None:
    few = bench_text.render(run("p2p.bandwidth"))
    assert "Between GPUs" in few
    assert few.count("p2p.bandwidth ") == 2
    assert "both ways at once" in few
    many = bench_text.render(run("p2p.latency", FAKE_GPUS="3", NVML_FAKE_GPUS="3"))
    assert "p2p.latency, ns, from each row to each column" in many
    assert f"{1:>7}{1128:>7}{'-':>7}{1128:>7}" in many


def test_pairs_are_compared_each_with_itself(run: Run, tmp_path: Path) -> None:
    before = tmp_path / "before.json"
    before.write_text(writing.render(run("p2p.bandwidth")))
    later = bench.compare(run("p2p.bandwidth", FAKE_SLOW="1>0"), bench.load(before), 0.03)
    found = {change.id: change.outcome for change in later.changes}
    assert found == {"p2p.bandwidth 0>1": Outcome.SAME, "p2p.bandwidth 1>0": Outcome.WORSE}
