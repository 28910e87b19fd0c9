"""``gpustack check`` and ``gpustack diff`` as their users meet them: exit codes, one clear line for each error."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests import warm
from tests.schemas.test_schemas import validator

if TYPE_CHECKING:
    import subprocess

TESTS = Path(__file__).resolve().parents[1]
BENCH = TESTS.parent / "docs/evidence/2026-11-21-h200/bench.json"
ELSEWHERE = 'frameworks = ["pytorch"]\n[components]\npytorch = ">=2"\n'


def gpustack(*arguments: str | Path, at: Path, given: str = "") -> subprocess.CompletedProcess[str]:
    return warm.run([*map(str, arguments)], cwd=at, environ=os.environ, given=given, timeout=100)


@pytest.fixture(scope="session")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with recorded machines as snapshots, and no policy in it or above."""
    folder = tmp_path_factory.mktemp("machines")
    for path in (TESTS / "hosts").glob("*.json"):
        (folder / path.name).write_text(json.dumps(json.loads(path.read_text("utf-8"))["facts"]))
    return folder


def said(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(done.stdout)
    return loaded


def test_the_healthy_machine_passes_with_its_figures_and_keeps_the_schema(machines: Path) -> None:
    done = gpustack("check", "--from", "recorded-h200.json", "--bench", BENCH, "--format", "json", at=machines)
    assert (done.returncode, done.stderr) == (0, "")
    report = said(done)
    validator("check").validate(report)
    assert (report["schema"], report["class"], report["bench"]["schema"]) == (
        "gpustack.check/1",
        "ok",
        "gpustack.bench/1",
    )
    assert [row["rule"] for row in report["policy"]] == ["gpus.count", "bench"]


@pytest.mark.parametrize(
    ("name", "arguments", "code"),
    [
        ("recorded-h200", (), 0),
        ("recorded-h200", ("--exit-style", "nagios"), 0),
        ("cpu-only-torch", (), 0),
        ("cpu-only-torch", ("--fail-on", "warning"), 1),
        ("cpu-only-torch", ("--exit-style", "nagios"), 1),
        ("cpu-only-torch", ("--exit-style", "npd"), 0),
        ("ecc-error", (), 1),
        ("ecc-error", ("--fail-on", "never"), 0),
        ("ecc-error", ("--exit-style", "nagios"), 2),
        ("ecc-error", ("--exit-style", "npd"), 1),
        ("nvml-hung", (), 0),
        ("nvml-hung", ("--fail-on", "unknown"), 1),
        ("nvml-hung", ("--exit-style", "nagios"), 3),
        ("nvml-hung", ("--exit-style", "npd"), 2),
    ],
)
def test_the_exit_code_matches_the_class(name: str, arguments: tuple[str, ...], code: int, machines: Path) -> None:
    assert gpustack("check", "--from", f"{name}.json", *arguments, at=machines).returncode == code


def test_a_policy_is_found_from_a_folder_below_and_its_failure_names_the_line(machines: Path, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.gpustack.components]\npytorch = "<2"\n')
    (tmp_path / "inner").mkdir()
    snapshot = machines / "recorded-h200.json"
    done = gpustack("check", "--from", snapshot, "--format", "json", at=tmp_path / "inner")
    report = said(done)
    assert (done.returncode, report["class"]) == (1, "bad-environment")
    (row,) = [row for row in report["policy"] if row["ok"] is False]
    assert (row["rule"], row["wanted"], row["found"]) == ("components.pytorch", "<2", "2.11.0+cu130")
    assert row["place"].endswith("pyproject.toml:2")
    text = gpustack("check", "--from", snapshot, at=tmp_path).stdout
    assert text.startswith("✗ BAD ENVIRONMENT: components.pytorch (pyproject.toml:2): <2 is required")
    elsewhere = tmp_path / "other.toml"
    elsewhere.write_text(ELSEWHERE)
    assert gpustack("check", "--from", snapshot, "--policy", elsewhere, at=tmp_path).returncode == 0


@pytest.mark.parametrize(
    ("policy", "line"),
    [
        ("[gpus]\ncount = 'many'", 'gpustack.toml:2: gpus.count: "many" is not a range of versions'),
        ("[gpus", "gpustack.toml:1: this is not valid TOML"),
        ("[golden]\nsnapshot = 'gone.json'", "gpustack.toml:2: golden.snapshot: gone.json cannot be read"),
        ("[bench]\nbaseline = 'gone.json'", "gpustack.toml:2: bench.baseline: gone.json cannot be read"),
    ],
)
def test_a_wrong_policy_is_one_line_and_exit_code_2(policy: str, line: str, machines: Path, tmp_path: Path) -> None:
    (tmp_path / "gpustack.toml").write_text(policy)
    common = ("check", "--from", machines / "recorded-h200.json", "--bench", BENCH)
    done = gpustack(*common, at=tmp_path)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    assert done.stderr.startswith(f"gpustack: {line}")
    nagios = gpustack(*common, "--exit-style", "nagios", at=tmp_path)
    assert (nagios.returncode, nagios.stderr) == (3, "")
    assert nagios.stdout.startswith(f"GPUSTACK UNKNOWN - {line}")


@pytest.mark.parametrize("wrong", [("--foo",), ("--bench", "x", "--no-bench"), ("--timeout", "soon"), ("-o", "/no/x")])
@pytest.mark.parametrize(("style", "code"), [("nagios", 3), ("npd", 2)])
def test_wrong_use_is_unknown_for_those_who_read_exit_codes(wrong: tuple[str, ...], style: str, code: int) -> None:
    for named in ((f"--exit-style={style}",), ("--exit-style", style)):
        done = gpustack("check", *named, *wrong, at=Path.cwd())
        assert (done.returncode, done.stderr) == (code, "")
        assert done.stdout.startswith("GPUSTACK UNKNOWN - ")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("check", "--from", "recorded-h200.json", "--deep"), "--from cannot be combined with --deep"),
        (("check", "--bench", "x.json", "--no-bench"), "--bench and --no-bench contradict each other"),
        (("check", "--from", "gone.json"), "gone.json cannot be read"),
        (
            ("check", "--from", "recorded-h200.json", "--bench", "recorded-h200.json"),
            "is not a gpustack bench report",
        ),
        (("check", "--policy", "gone.toml"), "gone.toml cannot be read"),
        (("check", "--init", "--policy", "pyproject.toml"), "--init writes a file of its own"),
        (("diff", "recorded-h200.json"), "Missing argument"),
        (("diff", "-", "-"), "standard input is one machine"),
        (("diff", "recorded-h200.json", "gone.json"), "gone.json cannot be read"),
    ],
)
def test_wrong_use_is_one_clear_line_and_exit_code_2(arguments: tuple[str, ...], says: str, machines: Path) -> None:
    done = gpustack(*arguments, at=machines)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    assert says in done.stderr


def test_a_rule_that_does_not_apply_fails_in_no_form(machines: Path) -> None:
    common = ("check", "--from", "recorded-h200.json", "--fail-on", "unknown", "--format")
    done = gpustack(*common, "junit", at=machines)
    assert "not measured: the machine is recorded" in gpustack(*common, "text", "-v", at=machines).stdout
    assert (done.returncode, done.stdout.count("<failure")) == (0, 0)


def test_a_baseline_that_the_policy_names_is_compared_with(machines: Path, tmp_path: Path) -> None:
    (tmp_path / "then.json").write_bytes(BENCH.read_bytes())
    policy = '[bench]\nbaseline = "then.json"\n[bench.least-of-baseline]\n"hbm.*" = {least}\n'
    for least, code in (("0.99", 0), ("1.01", 1)):
        (tmp_path / "gpustack.toml").write_text(policy.format(least=least))
        done = gpustack(
            *("check", "--from", machines / "recorded-h200.json", "--bench", BENCH, "--format", "json"), at=tmp_path
        )
        (row,) = [row for row in said(done)["policy"] if row["rule"] == "bench.least-of-baseline.hbm.*"]
        assert (done.returncode, row["ok"]) == (code, code == 0)
        assert "100.0% hbm.read on GPU 0" in row["found"] or code == 0


def test_init_writes_a_policy_that_this_machine_keeps_and_never_over_one(machines: Path, tmp_path: Path) -> None:
    common = ("check", "--from", machines / "recorded-h200.json", "--bench", BENCH)
    assert gpustack(*common, "--init", at=tmp_path).returncode == 0
    written = (tmp_path / "gpustack.toml").read_text("utf-8")
    assert 'name = ["NVIDIA H200"]' in written
    done = gpustack(*common, "--format", "json", at=tmp_path)
    assert (done.returncode, said(done)["class"]) == (0, "ok")
    assert len(said(done)["policy"]) > 15
    again = gpustack(*common, "--init", at=tmp_path)
    assert again.returncode == 2
    assert "gpustack.toml already exists" in again.stderr
    (tmp_path / "gpustack.toml").write_text("x")
    assert gpustack(*common, "--init", "--force", at=tmp_path).returncode == 0
    assert (tmp_path / "gpustack.toml").read_text("utf-8") == written


def test_a_machine_that_is_not_like_the_golden_one_fails(machines: Path) -> None:
    same = gpustack("check", "--from", "recorded-h200.json", "--golden", "recorded-h200.json", at=machines)
    assert same.returncode == 0
    other = gpustack(
        *("check", "--from", "recorded-h200-x2.json", "--golden", "recorded-h200.json", "--format", "json"), at=machines
    )
    rows = [row for row in said(other)["policy"] if row["ok"] is False]
    assert (other.returncode, said(other)["class"]) == (1, "bad-host")
    assert "golden.gpu" in {row["rule"] for row in rows}


def test_this_machine_is_checked_in_seconds_and_without_a_gpu_is_bad_unless_none_is_required(tmp_path: Path) -> None:
    done = gpustack("check", "--format", "json", at=tmp_path)
    report = said(done)
    validator("check").validate(report)
    if report["verdict"]["status"] != "no-gpu":
        pytest.skip("this machine has a GPU: the case without one is held by the recorded machines")
    assert (done.returncode, report["class"], report["bench"]) == (1, "bad-host", None)
    count, row = report["policy"]
    assert (count["rule"], count["ok"], count["wanted"]) == ("gpus.count", False, ">=1")
    assert (row["ok"], row["found"]) == (None, "not measured: there is no GPU")
    none = gpustack("check", "--gpus", "0", "--no-bench", at=tmp_path)
    assert (none.returncode, none.stdout.startswith("✓ OK: there is no GPU here, and none is required.")) == (0, True)


def test_a_difference_is_reported_as_text_and_as_json_and_does_its_work_whatever_it_finds(machines: Path) -> None:
    text = gpustack("diff", "recorded-h200.json", "ecc-error.json", at=machines)
    assert (text.returncode, text.stderr) == (0, "")
    assert text.stdout.startswith("HEALTHY → BROKEN: ")
    done = gpustack("diff", "recorded-h200.json", "ecc-error.json", "--format", "json", at=machines)
    validator("diff").validate(said(done))
    new = [one["id"] for one in said(done)["findings"] if one["turn"] == "new" and one["after"] == "error"]
    assert new == ["gpu-ecc-error", "gpu-recovery-needed"]
    snapshot = (machines / "recorded-h200.json").read_text()
    same = gpustack("diff", "-", "recorded-h200.json", "-o", "same.txt", at=machines, given=snapshot)
    assert (same.returncode, same.stdout) == (0, "")
    assert "nothing changed" in (machines / "same.txt").read_text("utf-8")
