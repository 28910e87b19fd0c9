"""The output of peer tools is read as they mean it, and compared fairly; the outputs are from a real H200."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.peer import lines, outputs, programs

PRINTED = Path(__file__).parent / "printed"
REPO = Path(__file__).resolve().parents[2]


def printed(name: str) -> str:
    return (PRINTED / f"{name}.txt").read_bytes().decode()


def read(name: str) -> dict[str, float]:
    return outputs.PARSERS[name](printed(name.replace(" ", "-")))


def test_nvbandwidth_tells_each_case_and_its_own_copy_counts_both_ways() -> None:
    figures = read("nvbandwidth")
    assert figures["host_to_device_memcpy_ce"] == pytest.approx(55.4866, abs=1e-3)
    assert figures["device_to_host_bidirectional_memcpy_ce"] == pytest.approx(50.9716, abs=1e-3)
    assert figures["device_local_copy"] == pytest.approx(2 * 2092.044, abs=1e-2)


def test_of_several_gpus_one_card_is_compared_with_one_and_all_with_all() -> None:
    def case(name: str, rows: list[list[str]], total: float) -> dict[str, object]:
        return {"name": name, "status": "Passed", "bandwidth_matrix": rows, "sum": total}

    cases = [
        case("host_to_device_memcpy_ce", [["55.2", "55.4", "55.3", "55.4"]], 221.3),
        case("device_to_device_memcpy_write_ce", [["N/A", "396.5"], ["396.2", "N/A"]], 792.7),
        case("device_local_copy", [["2093.0", "2094.0"]], 4187.0),
        case("host_to_all_memcpy_ce", [["39.4", "41.4", "40.0", "40.7"]], 161.5),
        case("all_to_host_memcpy_ce", [["31.9", "32.7"]], 64.6),
    ]
    assert outputs.nvbandwidth(json.dumps({"nvbandwidth": {"testcases": cases}})) == {
        "host_to_device_memcpy_ce": 55.2,
        "device_to_device_memcpy_write_ce": 396.5,
        "device_local_copy": 4186.0,
        "host_to_all_memcpy_ce": 161.5,
        "all_to_host_memcpy_ce": 64.6,
    }


def test_a_case_that_nvbandwidth_did_not_pass_is_not_a_figure() -> None:
    text = printed("nvbandwidth").replace('"status" : "Passed"', '"status" : "Waived"', 1)
    assert "host_to_device_memcpy_ce" not in outputs.nvbandwidth(text)
    assert "device_to_host_memcpy_ce" in outputs.nvbandwidth(text)


def test_babelstream_is_read_in_the_unit_that_it_names() -> None:
    assert read("babelstream")["triad"] == pytest.approx(4367.917, abs=1e-2)
    text = printed("babelstream").replace("Function    MB/s ", "Function    MiB/s")
    assert outputs.babelstream(text)["triad"] == pytest.approx(4367.917 * 1.048576, abs=1e-2)


def test_mamf_finder_is_read_from_its_end_not_from_the_lines_on_the_way() -> None:
    assert read("mamf-finder bf16") == {"mean": 810.8, "median": 811.0, "max": 819.0}
    assert read("mamf-finder fp8")["median"] == pytest.approx(1471.4)


def test_gpu_l2_cache_counts_sets_that_are_neither_served_together_nor_memory() -> None:
    assert read("gpu-l2-cache") == {"l2": 9954.4}
    assert max(rate for _, rate in outputs.l2_rows(printed("gpu-l2-cache"))) > 12000


def test_gpu_burn_is_the_middle_of_what_it_told_after_its_start() -> None:
    assert read("gpu-burn")["rate"] == pytest.approx(364.4, abs=2)


def test_nccl_tests_have_a_figure_for_each_size() -> None:
    assert read("nccl-tests") == {"all_reduce 64 MiB": 0.0, "all_reduce 256 MiB": 0.0}  # a single GPU has no bus figure
    text = printed("nccl-tests").replace("1921.8    0.00", "1921.8  344.40")
    assert outputs.nccl_tests(text)["all_reduce 64 MiB"] == pytest.approx(344.4)


def test_the_program_by_torch_is_read_from_its_last_line() -> None:
    assert outputs.torch("a warning of a library\n" + printed("torch"))["fp64"] == pytest.approx(61.787, abs=1e-3)


@pytest.mark.parametrize("name", sorted(outputs.PARSERS))
def test_an_output_without_a_figure_is_said_and_never_a_figure(name: str) -> None:
    with pytest.raises(outputs.OutputError):
        outputs.PARSERS[name]("CUDA error: no device\n")


def test_a_ratio_is_of_medians_and_of_the_best_peer() -> None:
    line = lines.Line(ours="hbm.copy", peers=("torch: copy", "nvbandwidth: device_local_copy"), least=0.995)
    samples = {
        "hbm.copy": [4300.0, 4290.0, 100.0],
        "torch: copy": [4200.0, 4310.0, 4320.0],
        "nvbandwidth: device_local_copy": [4184.0, 4184.0, 9000.0],
    }
    (outcome,) = lines.outcomes(samples, [line])
    assert (outcome.peer, outcome.rounds) == ("torch: copy", 3)
    assert outcome.ratio == pytest.approx(4290 / 4310)
    assert outcome.kept
    assert lines.outcomes({**samples, "hbm.copy": [4280.0]}, [line])[0].kept is False


def test_both_directions_are_added_up_round_by_round() -> None:
    samples = {"pcie.bidir.pinned": [102.0], "a: in": [51.0, 52.0], "a: out": [50.0, 51.5]}
    (outcome,) = lines.outcomes(samples, [lines.Line(ours="pcie.bidir.pinned", peers=("a: in + a: out",))])
    assert outcome.theirs == (101.0, 102.25, 103.5)
    assert outcome.kept is None


def test_a_line_without_its_peer_is_not_made_up() -> None:
    assert lines.outcomes({"hbm.copy": [4300.0]}) == []


def test_runs_agree_only_where_those_that_are_steady_do() -> None:
    reports = [
        {"hbm.read": {"value": value, "steady": steady}, "launch.kernel": {"value": 1.0, "steady": False}}
        for value, steady in ((4600.0, True), (4610.0, True), (4690.0, True))
    ]
    read, launch = lines.agreement(reports)
    assert not read.kept
    assert read.next_apart == pytest.approx(80 / 4690, rel=0.02)
    assert launch.kept  # nothing is required of it: it reports itself as unsteady
    assert lines.agreement(reports[:2])[0].kept
    reports[0]["hbm.read"]["steady"] = False
    assert not lines.agreement(reports[:2])[0].kept  # this one must be steady


def where(folder: Path, *, gpus: int = 1, mamf_warm: int | None = None) -> programs.Where:
    return programs.Where(folder=folder, python=sys.executable, gpus=gpus, shapes={}, mamf_warm=mamf_warm)


def test_what_is_not_here_is_said_with_what_was_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    ready, missing = programs.peers(where(tmp_path), list(programs.MAKERS))
    assert not ready
    assert missing["nvbandwidth"] == "no program nvbandwidth in the folder's bin or on PATH"
    assert missing["nccl-tests"] == "an all-reduce needs two GPUs"
    assert missing["mamf-finder bf16"] == "no mamf-finder/**/mamf-finder.py in the folder"


def program(folder: Path, name: str, body: str) -> None:
    folder.joinpath("bin").mkdir(exist_ok=True)
    path = folder / "bin" / name
    path.write_text(f"#!/bin/sh\n{body}\n", "utf-8")
    path.chmod(0o755)


def test_nvbandwidth_runs_without_affinity_where_that_is_refused(tmp_path: Path) -> None:
    program(tmp_path, "nvbandwidth", f'[ "$1" = -d ] || exit 1\ncat {PRINTED}/nvbandwidth.txt')
    (ready,), _ = programs.peers(where(tmp_path), ["nvbandwidth"])
    assert outputs.nvbandwidth(ready.run())["host_to_device_memcpy_ce"] > 55


def test_gpu_l2_cache_is_ended_when_its_sets_are_memory(tmp_path: Path) -> None:
    program(tmp_path, "gpu-l2-cache", f"cat {PRINTED}/gpu-l2-cache.txt\nexec sleep 100")
    (ready,), _ = programs.peers(where(tmp_path), ["gpu-l2-cache"])
    assert outputs.l2_cache(ready.run()) == {"l2": 9954.4}


def test_a_peer_that_fails_tells_its_last_words(tmp_path: Path) -> None:
    program(tmp_path, "babelstream", "echo Invalid device index. >&2; exit 1")
    (ready,), _ = programs.peers(where(tmp_path), ["babelstream"])
    with pytest.raises(programs.FailedError, match="Invalid device index"):
        ready.run()


def test_without_a_gpu_nothing_is_compared() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.peers"],
        cwd=REPO,
        capture_output=True,
        text=True,
        check=False,
        env={"CUDA_VISIBLE_DEVICES": "", "PATH": "", "HOME": "/"},
    )
    assert done.returncode == 3
    assert "gpustack" in done.stderr
    assert not done.stdout


def test_the_shapes_for_torch_are_those_that_we_tried() -> None:
    from benchmarks import peers  # noqa: PLC0415 - the script itself

    row = {
        "id": "gemm.bf16",
        "value": 840.0,
        "method": {
            "way": "8448 x 8192 x 8192, heuristic 1",
            "tried": {"8448 x 4096 x 8192, heuristic 1": 1.0, "8448 x 4096 x 8192, heuristic 2": 1.0},
        },
    }
    report = {"results": [row, {"id": "gemm.fp4", "value": None}, {"id": "hbm.read", "value": 1.0}]}
    assert json.loads(json.dumps(peers.shapes(report))) == {"bf16": [[8448, 4096, 8192], [8448, 8192, 8192]]}


def test_each_pair_of_gpus_keeps_its_own_figure() -> None:
    pairs = [{"id": "p2p.bandwidth", "device": one, "gpus": [one, other]} for one, other in ((0, 1), (1, 0), (0, 2))]
    rows = lines.by_name([{"id": "hbm.read", "device": 0, "gpus": None}, *pairs])
    assert list(rows) == ["hbm.read", "p2p.bandwidth", "p2p.bandwidth 1 0", "p2p.bandwidth 0 2"]
    assert rows["p2p.bandwidth"]["gpus"] == [0, 1]
