"""The commands of fleet as a user types them: what they print, and the exit codes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gpustack.cli import app
from gpustack.errors import GpustackError
from tools.fleet.__main__ import fleet

LABELS = {f"n{number}": {"switch": f"s{number // 4}"} for number in range(8)}


def run(*words: str) -> tuple[int, str]:
    """Return the exit code and the output; an error of ours has its own code."""
    done = CliRunner().invoke(app, ["fleet", *words], prog_name="gpustack")
    if isinstance(done.exception, GpustackError):
        return done.exception.exit_code, str(done.exception)
    return done.exit_code, done.output


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("commands")
    fleet(folder, 20, seed=5)
    code, said = run("judge", str(folder))
    assert code == 1
    assert said.startswith("20 nodes: 2 broken")
    return folder


def test_a_judged_fleet_is_remembered_and_gates_the_scheduler(made: Path) -> None:
    store = str(made / "fleet.sqlite")
    planted = json.loads((made / "planted").read_text())
    assert run("gate", planted["lost"][0], "--store", store) == (1, f"{planted['lost'][0]}\n")
    sick = {name.partition("/")[0] for held in planted.values() for name in held}
    well = next(name for name in (f"gpu{number:05d}" for number in range(1, 21)) if name not in sick)
    assert run("gate", well, "--store", store) == (0, "")
    assert run("gate", "stranger", "--store", store)[0] == 0
    assert run("gate", "stranger", "--unknown", "--store", store) == (1, "stranger\n")
    held = json.loads(run("gate", "--format", "json", "--store", store)[1])["exclude"]
    assert planted["lost"][0] in held
    code, said = run("since", "gpu-missing", "--store", store)
    assert code == 0
    assert planted["lost"][0] in said
    code, said = run("since", "gpu-mising", "--store", store)
    assert code == 2
    assert "gpu-missing" in said


def test_the_json_is_of_its_schema_and_names_every_node(made: Path) -> None:
    said = json.loads(run("judge", str(made), "--format", "json", "--fail-on", "never")[1])
    assert said["schema"] == "gpustack.fleet/1"
    assert sum(one["count"] for one in said["classes"]) + len(said["missing"]) == 20


def test_what_changed_between_two_collections(made: Path, tmp_path: Path) -> None:
    for path in made.glob("gpu*.json.gz"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    planted = json.loads((made / "planted").read_text())
    sick = {name.partition("/")[0] for held in planted.values() for name in held}
    well = next(name for name in (f"gpu{number:05d}" for number in range(1, 21)) if name not in sick)
    (tmp_path / f"{well}.json.gz").write_bytes((made / f"{planted['lost'][0]}.json.gz").read_bytes())
    code, said = run("diff", str(made), str(tmp_path))
    assert code == 0
    assert "healthy -> broken" in said
    assert "new gpu-missing" in said
    assert well in said


def test_pairs_from_the_plan_to_the_one_who_is_slow(tmp_path: Path) -> None:
    code, said = run("pairs", "plan", "n[0-7]", "--seed", "3")
    assert code == 0
    lines = [line.split() for line in said.splitlines()]
    assert len(lines) == 12
    measured, labels = tmp_path / "pairs.txt", tmp_path / "labels.json"
    rows = (f"{one} {other} {300 if 'n5' in {one, other} else 350} {at}" for at, one, other in lines)
    measured.write_text("\n".join(rows))
    labels.write_text(json.dumps(LABELS))
    code, said = run("pairs", "decode", str(measured), "--labels", str(labels))
    assert code == 1
    assert "node n5: 85.7% of the median" in said
    assert "confirm n5 " in said


@pytest.mark.parametrize(
    "words",
    [
        ("judge", "/no/such/folder"),
        ("gate", "--store", "/no/such/store"),
        ("gate", "gpu[1", "--store", "/no/such/store"),
        ("pairs", "plan", "a,b"),
        ("pairs", "decode", "/no/such/file"),
        ("collect", "nodes", "--engine", "kubernetes", "--nodes", "n1"),
        ("diff", "/no/such", "/no/such"),
    ],
)
def test_bad_input_is_one_line_and_two(words: tuple[str, ...]) -> None:
    code, said = run(*words)
    assert code == 2
    assert len(said.splitlines()) == 1


def test_the_gate_imports_nothing_heavy(made: Path) -> None:
    code = f"""
import sys
sys.argv = ["gpustack", "fleet", "gate", "gpu00001", "--store", {str(made / "fleet.sqlite")!r}]
from gpustack.cli import main
try:
    main()
except SystemExit:
    print(sorted({{"rich", "gpustack.diagnose", "gpustack.matrix", "gpustack.collect.probing"}} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip().splitlines()[-1] == "[]"
