"""A synthetic fleet: every planted fault is found, and no healthy node is blamed."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import Any

import pytest

from gpustack.diagnose.engine import judge
from gpustack.fleet import judging, launching, nodes, runs
from gpustack.fleet.outline import Outlines
from gpustack.matrix import Matrix
from gpustack.model.fleet import FleetReport, Low, fold
from gpustack.model.report import Health
from gpustack.report import renderer
from gpustack.snapshots import read
from tools.fleet.__main__ import GPUS, HOSTS, fleet
from tools.fleet.__main__ import main as make_fleet

NODES = 150
Planted = Mapping[str, Sequence[str]]
Json = Any


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Planted]:
    folder = tmp_path_factory.mktemp("fleet")
    return folder, fleet(folder, NODES, seed=7)


@pytest.fixture(scope="module")
def whole(made: tuple[Path, Planted]) -> judging.Whole:
    return judging.judge(made[0], workers=2)


def nodes_with(report: FleetReport, finding: str) -> set[str]:
    return {name for one in report.classes if finding in one.root_causes for name in one.nodes}


def test_all_that_was_planted_is_found_and_nobody_else_is_blamed(
    made: tuple[Path, Planted], whole: judging.Whole
) -> None:
    _, planted = made
    report = whole.report
    assert report.nodes == NODES
    assert nodes_with(report, "driver-library-mismatch") == set(planted["driver"])
    assert nodes_with(report, "gpu-missing") == set(planted["lost"])
    assert nodes_with(report, "sibling-differs") == set(planted["vbios"])
    assert {one.node for one in report.missing} == set(planted["silent"])
    sick = {name for what in ("driver", "lost", "vbios", "silent") for name in planted[what]}
    well = {name for one in report.classes if one.status is Health.HEALTHY for name in one.nodes}
    assert len(well) == NODES - len(sick)
    assert not well & sick
    odd = {
        name
        for one in report.drift
        if (one.component, one.fact) == ("host", "kernel")
        for odd in one.odd
        for name in odd.nodes
    }
    assert odd == set(planted["kernel"])
    low = {
        f"{one.node}/{one.gpus[0]}" for figure in report.figures for one in figure.outliers if one.verdict is Low.LOW
    }
    assert low == set(planted["slow"])


def test_most_nodes_are_judged_once(whole: judging.Whole) -> None:
    assert len({one.judged for one in whole.gathered.seen.values()}) <= 6


def test_a_slow_card_is_a_suspect_until_it_is_measured_again(tmp_path: Path) -> None:
    planted = fleet(tmp_path, 40, seed=3, benches=1)
    found = judging.judge(tmp_path).report
    outliers = [one for figure in found.figures for one in figure.outliers]
    assert {f"{one.node}/{one.gpus[0]}" for one in outliers} >= set(planted["slow"])
    assert {one.verdict for one in outliers} == {Low.SUSPECT}
    text = renderer("fleet")(found)
    assert f"--bench --again --nodes '{fold(one.node for one in outliers)}'" in text


def test_a_distribution_counts_every_gpu_that_was_measured(whole: judging.Whole) -> None:
    measured = [one for one in whole.report.figures if one.gpus > GPUS]
    assert measured
    assert all(sum(one.bins) == one.gpus for one in measured)
    [bf16] = [one for one in measured if one.id == "gemm.bf16" and one.gpus > NODES]
    fullest = bf16.bins.index(max(bf16.bins)) / len(bf16.bins)
    assert abs(bf16.least + fullest * (bf16.greatest - bf16.least) - bf16.median) < 0.02 * bf16.median


def test_few_nodes_are_held_to_their_ceilings_alone(tmp_path: Path) -> None:
    fleet(tmp_path, 5, seed=3)
    assert all(one.of == "ceiling" for each in judging.judge(tmp_path).report.figures for one in each.outliers)


def changed(base: Json, component: str, path: str, value: Json) -> Json:
    """Return a snapshot in which one fact of the second copy of a component is changed."""
    said = json.loads(json.dumps(base))
    part = next(one for one in said["components"] if one["id"] == component)
    at = (part["instances"][1] if len(part["instances"]) > 1 else part["instances"][0])["facts"]
    *steps, last = path.split(".")
    for step in steps:
        at = at[int(step)] if step.isdecimal() else at[step]
    at[last] = value
    return said


FACTS = [
    ("gpu", "temperature.gpu_c", 88),
    ("gpu", "temperature.gpu_c", 60),
    ("gpu", "temperature.memory_c", 104),
    ("gpu", "temperature.memory_c", 70),
    ("gpu", "temperature.margin_c", 2),
    ("gpu", "ecc.corrected_volatile", 60_000_000),
    ("gpu", "ecc.corrected_volatile", 60),
    ("gpu", "ecc.uncorrected_volatile", 1),
    ("gpu", "pcie.replays", 500_000),
    ("gpu", "pcie.replays", 7),
    ("gpu", "pcie.fatal_errors", 1),
    ("gpu", "power.watts", 640.0),
    ("gpu", "power.watts", "ERR!"),
    ("gpu", "power.limit_watts", 500.0),
    ("gpu", "memory.free_mib", 5),
    ("gpu", "memory.used_mib", 90_000),
    ("gpu", "clocks.max_sm_mhz", 1700),
    ("gpu", "fabric.state", "in-progress"),
    ("gpu", "vbios", "96.00.00.00.01"),
    ("gpu", "throttle.since_load_hw_therm_slowdown", 99_000_000_000),
    ("nvlink", "links.3.active", False),
    ("nvlink", "links.3.errors.replay", 5000),
    ("nvlink", "links.3.errors.replay", 5),
    ("linux-kernel", "numa_balancing", True),
    ("linux-kernel", "uptime_s", 61.0),
]


@pytest.mark.parametrize(("component", "path", "value"), FACTS)
def test_twins_have_one_verdict(made: tuple[Path, Planted], component: str, path: str, value: Json) -> None:
    """Nodes with the same fingerprint have the same findings: grouping them changes no verdict."""
    matrix = Matrix()
    outlines = Outlines(matrix)
    sick = {name for held in made[1].values() for name in held}
    well = next(one for one in nodes.look(made[0])[0] if one.snapshot and one.name not in sick)
    assert well.snapshot
    base = json.loads(nodes.text(well.snapshot))
    other = changed(base, component, path, value)
    texts = json.dumps(base), json.dumps(other)
    digests = [outlines.of(text)[0].judged for text in texts]
    found = [{(one.key, one.severity) for one in judge(read(text), matrix).findings} for text in texts]
    if digests[0] == digests[1]:
        assert found[0] == found[1]
    if found[0] != found[1]:
        assert digests[0] != digests[1]


@pytest.mark.parametrize("up", [4_000.0, 9_000_000.0])
def test_a_rate_counts_for_how_long_the_machine_is_up(made: tuple[Path, Planted], up: float) -> None:
    """Of two identical GPUs with many replays, the one with an hour of uptime is faulty, the one with weeks is not."""
    matrix, outlines = Matrix(), Outlines(Matrix())
    base = json.loads(nodes.text(made[0] / "gpu00001.json.gz"))
    if not any(one["id"] == "gpu" and one["instances"] for one in base["components"]):
        base = json.loads(nodes.text(made[0] / "gpu00002.json.gz"))
    many = changed(base, "gpu", "pcie.replays", 5_000)
    kernel = next(one for one in many["components"] if one["id"] == "linux-kernel")
    texts = []
    for one in (5_000.0, up):
        for held in (kernel, *kernel["instances"]):
            held["facts"]["uptime_s"] = one
        texts.append(json.dumps(many))
    digests = [outlines.of(text)[0].judged for text in texts]
    found = [{one.id for one in judge(read(text), matrix).findings} for text in texts]
    assert digests[0] != digests[1] or found[0] == found[1]
    assert ("pcie-errors" in found[1]) == (5_000 * 60 / up > 31)


EXTRAS = [  # what makes a node unlike the others without being a fault
    (
        "infiniband",
        {"card": "mlx5_0", "firmware": "28.43.1014"},
        {"card": "mlx5_0", "firmware": "28.39.2048"},
        "firmware",
    ),
    (
        "environment",
        {"variables": {"NCCL_IB_DISABLE": "0"}},
        {"variables": {"NCCL_IB_DISABLE": "1"}},
        "NCCL_IB_DISABLE",
    ),
    ("environment", {"nccl_conf": {"NCCL_IB_HCA": "mlx5"}}, {"nccl_conf": {"NCCL_IB_HCA": "mlx5_0"}}, "NCCL_IB_HCA"),
]


@pytest.mark.parametrize("extra", EXTRAS, ids=lambda one: one[3])
def test_the_network_of_a_node_is_compared_too(
    made: tuple[Path, Planted], tmp_path: Path, extra: tuple[str, Json, Json, str]
) -> None:
    component, usual, odd, fact = extra
    sick = {name for held in made[1].values() for name in held}
    well = [one for one in nodes.look(made[0])[0] if one.snapshot and one.name not in sick][:5]
    for place, one in enumerate(well):
        assert one.snapshot
        said = json.loads(nodes.text(one.snapshot))
        said["components"] = [held for held in said["components"] if held["id"] != component]
        facts = odd if place == 3 else usual
        layer = "hardware" if component == "infiniband" else "environment"
        copy = {
            "key": "mlx5_0/1",
            "version": None,
            "build": None,
            "path": None,
            "environment": None,
            "status": "present",
        }
        part = {"id": component, "layer": layer, "vendor": "any", "status": "present", "facts": facts, "source": ""}
        said["components"].append({**part, "version": None, "instances": [{**copy, "facts": facts}]})
        (tmp_path / f"{one.name}.json").write_text(json.dumps(said))
    found = [one for one in judging.judge(tmp_path).report.drift if fact in one.fact]
    assert [one.odd[0].nodes for one in found] == [(well[3].name,)] * len(found) != []


def test_a_pool_of_ray_says_what_we_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the standard library's pool, whose interface Ray's shares; test_engines.py tests Ray itself."""
    fleet(tmp_path, 16, seed=6)
    pools: list[ThreadPool] = []

    def pool(workers: int | None, begin: Callable[[], object]) -> ThreadPool:
        pools.append(ThreadPool(workers, begin))
        return pools[-1]

    monkeypatch.setattr(launching, "ray_pool", pool)
    alone, spread = (judging.judge(tmp_path, workers=1, ray=ray).report for ray in (False, True))
    assert alone.drift
    assert replace(alone, seconds=0.0) == replace(spread, seconds=0.0)
    assert len(pools) == 1


def test_a_finding_that_comes_back_after_a_boot_makes_a_lemon(tmp_path: Path) -> None:
    """Four runs in three boots: clocks that date the same boot a minute later do not add a boot."""
    well, sick = (
        json.loads((HOSTS / f"{name}.json").read_text())["facts"] for name in ("healthy-h200", "gpu-fell-off-bus")
    )
    store, folder = tmp_path / "fleet.sqlite", tmp_path / "nodes"
    folder.mkdir()
    taken = [("01", 90_000, sick), ("02", 176_460, sick), ("03", 3_600, well), ("04", 1_800, sick)]
    for day, up, said in taken:
        for name, held in (("lemon", said), ("well", well)):
            whole = json.loads(json.dumps({**held, "taken": f"2026-11-{day}T12:00:00+00:00"}))
            kernel = next(one for one in whole["components"] if one["id"] == "linux-kernel")
            for one in (kernel, *kernel["instances"]):
                one["facts"]["uptime_s"] = float(up)
            (folder / f"{name}.json").write_text(json.dumps(whole))
        report = judging.judge(folder)
        runs.add(store, folder, report.report, report.gathered.seen)
    [id_] = {id_ for one in report.report.classes for id_ in one.root_causes}
    [lemon] = runs.since(store, id_)
    assert (lemon.node, lemon.runs, lemon.of, lemon.boots, lemon.now) == ("lemon", 3, 4, 2, True)
    assert (lemon.first[:10], lemon.last[:10]) == ("2026-11-01", "2026-11-04")
    assert lemon.score == 1.0  # three of four runs, half as many again after a boot


def test_each_form_says_which_nodes_must_take_no_work(made: tuple[Path, Planted], whole: judging.Whole) -> None:
    _, planted = made
    wanted = {name for what in ("driver", "lost", "silent") for name in planted[what]}
    wanted |= {name.partition("/")[0] for name in planted["slow"]}
    assert set(nodes.expand(renderer("fleet-nodelist")(whole.report).strip())) == wanted
    text = renderer("fleet")(whole.report)
    page = renderer("fleet-html")(whole.report)
    for name in planted["lost"]:
        assert name in text
        assert name in page
    assert "src=" not in page
    assert 'status="broken"' in renderer("fleet-prometheus")(whole.report)
    assert renderer("fleet-junit")(whole.report).count("<failure") == len(planted["driver"]) + len(planted["lost"])


def test_what_is_not_a_snapshot_affects_only_its_own_node(tmp_path: Path) -> None:
    fleet(tmp_path, 4, seed=1)
    (tmp_path / "bad1.json").write_text("{")
    (tmp_path / "bad2.json").write_text('{"schema": "gpustack.snapshot/9"}')
    (tmp_path / "bad3.json.gz").write_bytes(b"no gzip")
    (tmp_path / "bad4.json").write_text('{"schema": "gpustack.snapshot/1", "components": [3]}')
    (tmp_path / "bad5.json").write_text("[]")
    (tmp_path / "gpu00002.bench.json.gz").write_bytes(gzip.compress(b'{"results": [1]}'))
    report = judging.judge(tmp_path).report
    assert {one.node for one in report.missing} >= {"bad1", "bad2", "bad3", "bad5"}
    assert any("bad4" in {one.node for one in report.missing} or "bad4" in held.nodes for held in report.classes)
    assert [one.node for one in report.unread] == ["gpu00002"]


def test_the_store_knows_who_came_back_and_holds_back_the_faulty(
    made: tuple[Path, Planted], whole: judging.Whole, tmp_path: Path
) -> None:
    _, planted = made
    path = tmp_path / "fleet.sqlite"
    for _ in range(2):
        runs.add(path, made[0], whole.report, whole.gathered.seen)
    lost = runs.since(path, "gpu-missing")
    assert {one.node for one in lost} == set(planted["lost"])
    assert all((one.runs, one.of, one.now) == (2, 2, True) for one in lost)
    held = {one.node: one.why for one in runs.gate(path, ()) if one.why}
    assert set(held) == {
        *planted["driver"],
        *planted["lost"],
        *planted["silent"],
        *(name.partition("/")[0] for name in planted["slow"]),
    }
    [stranger] = runs.gate(path, ("login1",))
    assert not stranger.known


def test_the_generator_is_a_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["tools.fleet", str(tmp_path), "--nodes", "3", "--benches", "0"])
    make_fleet()
    assert json.loads(capsys.readouterr().out)["lost"] == 1
    first = json.loads(nodes.text(next(tmp_path.glob("gpu*.json.gz"))))
    assert len(next(one for one in first["components"] if one["id"] == "pci-display")["instances"]) in {1, GPUS}


def test_a_fleet_that_is_judged_twice_in_one_process_says_the_same_twice(tmp_path: Path) -> None:
    fleet(tmp_path, 12, seed=2)
    first, second = (judging.judge(tmp_path).report for _ in range(2))
    assert first.drift
    assert (first.drift, first.classes) == (second.drift, second.classes)
