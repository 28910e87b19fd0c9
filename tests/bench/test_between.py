"""Traffic between GPUs is compared with the available links, and links that are down are mentioned."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from gpustack.bench import ceilings, reasons, results, setting, siblings, suite
from gpustack.bench.case import Case, Weight
from gpustack.bench.reasons import judge, links
from gpustack.matrix import Matrix
from gpustack.model.bench import Device, Link, Mark, Result
from gpustack.model.versions import ComputeCapability
from tests.bench import lines
from tests.bench.cases import pair

BENCHES = {bench.id: bench for bench in suite.listed()}
HOPPER = Matrix().arch(ComputeCapability(9, 0))
SECOND = {**lines.DEVICE, "index": 1, "uuid": "GPU-00000000-0000-0000-0000-000000000002"}
SEEN = results.opened({**lines.OPENED, "devices": [lines.DEVICE, SECOND]}, 0)
LINK = Link(generation=5, width=16, max_generation=5, max_width=16)


def end(gpu: int, up: int = 18, total: int = 18, mb_s: int = 26562, straight: int = 0) -> dict[str, Any]:
    other = {str(1 - gpu): straight} if straight else {}
    return {"gpu": gpu, "links": total, "up": up, "mb_s": mb_s, "straight": other}


def limit(*ends: dict[str, Any], kind: str = "p2p.copy", **method: object) -> tuple[object, ...]:
    name, ceiling = ceilings.limit(kind, {"nvlinks": list(ends), **method}, LINK, 256)
    return name, ceiling.best, ceiling.held


def figure(name: str, rate: float, *ends: dict[str, Any], gpus: tuple[int, ...] = (0, 1), **method: object) -> Result:
    """Return the result of a multi-GPU benchmark whose child reported these links."""
    bench = replace(BENCHES[name], company=gpus[1:])
    seen = replace(SEEN, device=SEEN.devices[gpus[0]])
    said = lines.measured(name, rate, 1.0)
    told = {**said["method"], "bytes": 4 << 30, "gpus": gpus, "nvlinks": list(ends), **method}
    return results.measured({**said, "method": told}, bench, seen, HOPPER)


@pytest.mark.parametrize(
    ("mb_s", "links_", "best"), [(26562, 18, 450.0), (53125, 18, 900.0), (25781, 6, 150.0), (25000, 12, 300.0)]
)
def test_the_limit_is_that_of_the_datasheet_where_all_links_are_up(mb_s: int, links_: int, best: float) -> None:
    ends = [end(gpu, up=links_, total=links_, mb_s=mb_s) for gpu in (0, 1)]
    assert limit(*ends) == ("p2p.nvlink", pytest.approx(best, rel=1e-4), pytest.approx(best, rel=1e-4))


def test_the_gpu_with_the_fewest_links_is_the_limit() -> None:
    assert limit(end(0), end(1, up=16)) == ("p2p.nvlink", pytest.approx(450, rel=1e-4), pytest.approx(400, rel=1e-4))


def test_links_that_go_straight_to_the_other_gpu_are_counted_alone() -> None:
    ends = end(0, total=12, up=8, mb_s=25000, straight=4), end(1, total=12, up=8, mb_s=25000, straight=4)
    assert limit(*ends) == ("p2p.nvlink", 100.0, 100.0)


@pytest.mark.parametrize("ends", [(), (end(0, up=0, mb_s=0), end(1, up=0, mb_s=0)), (end(0),)])
def test_without_links_it_is_that_of_pcie(ends: tuple[dict[str, Any], ...]) -> None:
    if len(ends) == 1:
        ends = (end(0, straight=4), end(1, up=0, mb_s=0))  # links to another device
        ends[0]["straight"] = {"2": 4}
    assert limit(*ends) == ("p2p.pcie", pytest.approx(57.6, abs=0.05), pytest.approx(57.6, abs=0.05))


@pytest.mark.parametrize(
    ("kind", "method"),
    [("p2p.copy", {"refused": "no"}), ("p2p.latency", {}), ("nccl.sum", {"multicast": "NCCL_NVLS_ENABLE=1"})],
)
def test_where_links_are_not_the_limit_there_is_none(kind: str, method: dict[str, str]) -> None:
    assert limit(end(0), end(1), kind=kind, **method) == (kind, None, None)


def test_a_sum_over_gpus_without_links_has_no_limit() -> None:
    assert limit(kind="nccl.sum", bytes=4 << 30) == ("nccl.sum", None, None)


def test_a_healthy_pair_is_ok_and_says_where_its_limit_comes_from() -> None:
    seen = figure("p2p.bandwidth", 396e9, end(0), end(1))
    assert (seen.verdict, seen.why, seen.gpus, seen.device) == (Mark.OK, (), (0, 1), 0)
    assert seen.ratio == pytest.approx(0.88, abs=1e-3)
    assert "18 NVLinks of a GPU x 25 GB/s per direction, 26.562 signalled" in (seen.ceiling_from or "")
    assert seen.name() == "p2p.bandwidth 0>1"


def test_links_that_are_down_are_why_a_pair_is_low() -> None:
    seen = figure("p2p.bandwidth", 330e9, end(0), end(1, up=15))
    assert seen.verdict is Mark.LOW
    assert seen.why[-1] == "NVLink links down: 15 of 18 NVLinks of GPU 1 are up"
    assert "nvidia-smi nvlink -s" in seen.advice[0].commands


def test_a_pair_that_is_low_with_all_links_up_does_not_blame_them() -> None:
    seen = figure("p2p.bandwidth", 200e9, end(0), end(1))
    assert seen.verdict is Mark.LOW
    assert len(seen.why) == 1


def test_bridges_that_leave_links_free_are_no_fault() -> None:
    ends = end(0, total=12, up=4, mb_s=25000, straight=4), end(1, total=12, up=4, mb_s=25000, straight=4)
    seen = figure("p2p.bandwidth", 92e9, *ends)
    assert (seen.verdict, seen.why) == (Mark.OK, ())


def test_refused_peer_access_is_reported_and_judges_nothing() -> None:
    seen = figure(
        "p2p.bandwidth", 20e9, end(0), end(1), refused="the driver does not let GPU 0 access the memory of GPU 1"
    )
    assert (seen.verdict, seen.ceiling) == (Mark.OK, None)
    assert seen.why[0].startswith("no peer access: the driver does not let GPU 0 access")
    case = replace(pair(None), method={"refused": "so"})
    assert (links.refused(case) or pytest.fail("silent")).weight is Weight.NOTE
    assert links.refused(replace(case, method={"refused": None})) is None
    assert links.refused(replace(case, limit="pcie.d2h")) is None


def test_the_sum_over_all_gpus_belongs_to_none_of_them() -> None:
    seen = figure("nccl.all_reduce", 344e9, end(0), end(1))
    assert (seen.device, seen.gpus, seen.verdict, seen.place()) == (None, (0, 1), Mark.OK, "")
    assert figure("nccl.all_reduce", 200e9, end(0), end(1)).verdict is Mark.LOW
    assert figure("nccl.all_reduce", 20e9, end(0), end(1), bytes=1 << 20).verdict is Mark.OK


def test_more_than_the_links_can_carry_is_a_doubt_of_the_report() -> None:
    case = replace(pair(None), figures=replace(pair(None).figures, median=600.0))
    said = reasons.beyond(case)
    assert said
    assert "its links to other GPUs" in said.text
    assert judge(case).mark is Mark.OK


def row(first: int, second: int, value: float, ceiling: float = 450.0) -> Result:
    result = Result(id="p2p.bandwidth", device=first, gpus=(first, second), unit="GB/s", verdict=Mark.OK, value=value)
    return replace(result, ceiling=ceiling)


def marked(*rows: Result) -> dict[tuple[int, ...], tuple[Mark, tuple[str, ...]]]:
    devices = [Device(index=gpu, uuid="", name="NVIDIA H200", compute_capability="9.0") for gpu in range(3)]
    return {one.gpus: (one.verdict, one.why) for one in siblings.compared(rows, devices)}


def test_the_pair_that_is_far_below_the_others_is_the_outlier() -> None:
    seen = marked(row(0, 1, 395), row(1, 0, 396), row(0, 2, 394), row(2, 0, 250))
    assert [gpus for gpus, (mark, _) in seen.items() if mark is Mark.LOW] == [(2, 0)]
    (why,) = seen[2, 0][1]
    assert why == "outlier among siblings: 63% of what its siblings reach (394.5 GB/s; GPUs 0>1, 1>0, 0>2)"


def test_pairs_that_differ_a_little_or_have_another_way_are_not_outliers() -> None:
    alike = marked(row(0, 1, 395), row(1, 0, 370))
    other = marked(row(0, 1, 395), row(1, 0, 396), row(0, 2, 95, ceiling=100.0), row(2, 0, 96, ceiling=100.0))
    assert {mark for mark, _ in [*alike.values(), *other.values()]} == {Mark.OK}


def test_copies_through_the_host_are_checked_against_no_siblings() -> None:
    refused = [replace(one, ceiling=None, method={"refused": "so"}) for one in (row(0, 1, 22), row(1, 0, 12))]
    assert {mark for mark, _ in marked(*refused).values()} == {Mark.OK}


def test_every_pair_is_measured_in_both_directions_and_all_gpus_once() -> None:
    works = suite.tasks([BENCHES["p2p.bandwidth"], BENCHES["nccl.all_reduce"]], [0, 2, 5])
    assert {gpu: [(one.id, one.company) for one in tasks] for gpu, tasks in works.items()} == {
        0: [("p2p.bandwidth", (5,)), ("p2p.bandwidth", (2,)), ("nccl.all_reduce", (2, 5))],
        2: [("p2p.bandwidth", (5,)), ("p2p.bandwidth", (0,))],
        5: [("p2p.bandwidth", (2,)), ("p2p.bandwidth", (0,))],
    }
    assert list(suite.tasks([BENCHES["nccl.all_reduce"]], [0, 1])) == [0]


@pytest.mark.parametrize("count", [2, 3, 4, 8, 16])
def test_all_pairs_are_met_in_the_fewest_rounds_of_disjoint_pairs(count: int) -> None:
    found = suite.rounds(range(count))
    assert len(found) == (count - 1 if count % 2 == 0 else count)
    assert all(len({gpu for pair in each for gpu in pair}) == 2 * len(each) for each in found)
    assert sorted(pair for each in found for pair in each) == list(combinations(range(count), 2))


def test_the_nccl_of_the_chosen_environment_is_taken(tmp_path: Path) -> None:
    wheel = tmp_path / "lib/python3.12/site-packages/nvidia/nccl/lib"
    wheel.mkdir(parents=True)
    assert setting.of_environment([str(tmp_path)], "nccl", setting.NCCL_WHEELS) is None
    (wheel / "libnccl.so.2").touch()
    (wheel / "libnccl.so.old").touch()
    assert setting.of_environment([str(tmp_path)], "nccl", setting.NCCL_WHEELS) == str(wheel / "libnccl.so.2")


def test_multicast_is_off_unless_the_user_has_set_it() -> None:
    assert setting.variables({})["NCCL_NVLS_ENABLE"] == "0"
    assert setting.variables({"NCCL_NVLS_ENABLE": "1"})["NCCL_NVLS_ENABLE"] == "1"


def test_the_rule_of_a_case_without_a_child_s_word_is_that_of_its_telemetry() -> None:
    case: Case = replace(pair(None), method={"nvlinks": (end(0, up=0), end(1, up=0))})
    assert links.nvlinks(case) is None  # no bridge: the path is a different one
