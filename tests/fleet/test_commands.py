"""The fleet commands as a user types them: what they print, and the exit codes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gpustack.cli import app
from gpustack.errors import GpustackError
from gpustack.fleet import nodes
from gpustack.fleet.launching import Engine
from tests.integrations.recorded import record
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


def test_pairs_from_the_plan_to_the_slow_node(tmp_path: Path) -> None:
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


SECRETS = (
    "n1",
    "gpu007",
    "lemon-3.example.org",
    "rack-north-4",
    "GPU-12345678-1234-1234-1234-1234567890ab",
    "1653322001234",
)
ECHO = """#!{python}
import json, sys
name, words = sys.argv[1], sys.argv[2:]
if name == "gpu007": sys.exit("error: gpu007: cannot reach gpu007 by way of n1")
said = json.load(open({recorded!r}))
said["host"]["hostname"] = name
gpu = next(one for one in said["components"] if one["id"] == "gpu")
gpu["instances"][0]["facts"] |= {{"uuid": {uuid!r}, "serial": {serial!r}}}
bench = {{"schema": "gpustack.bench/1", "devices": [{{"index": 0, "uuid": {uuid!r}}}], "results": []}}
print(json.dumps(bench if "bench" in words else said))
"""


@pytest.fixture
def named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with two keys, and a launcher of nodes whose names, UUIDs and serial numbers are SECRETS."""
    path = tmp_path / "bin/clush"
    path.parent.mkdir()
    recorded = str(record("healthy-h200", tmp_path))
    path.write_text(ECHO.format(python=sys.executable, recorded=recorded, uuid=SECRETS[4], serial=SECRETS[5]))
    path.chmod(0o755)
    row = Engine(name="ssh", command=(str(path), "{node}"), source="", checked="")
    monkeypatch.setattr("gpustack.fleet.launching.engines", lambda _: (row,))
    (tmp_path / "key").write_bytes(b"k" * 32)
    (tmp_path / "other.key").write_bytes(b"o" * 32)
    (tmp_path / "labels").write_text(json.dumps({"n1": {"rack": "rack-north-4", "switch": "n1"}}))
    return tmp_path


def collected(named: Path, folder: str, *more: str) -> str:
    nodes_of = "n1,gpu007,lemon-3.example.org"
    words = (
        "collect",
        "--engine",
        "ssh",
        "--nodes",
        nodes_of,
        "--attempts",
        "1",
        "--bench",
        *more,
        str(named / folder),
    )
    return run(*words)[1]


def said_in(folder: Path) -> str:
    """Return the contents of all files of a folder, and their names."""
    return "\n".join(
        f"{path.name}\n{nodes.text(path)}" for path in sorted(folder.iterdir()) if path.suffix != ".sqlite"
    )


def test_no_file_of_a_pseudonymous_collection_names_a_machine(named: Path) -> None:
    key = str(named / "key")
    collected(named, "plain")
    for folder, held in (("first", key), ("second", key), ("other", str(named / "other.key"))):
        collected(named, folder, "--pseudonyms", held)
    plain, first, second, other = (said_in(named / one) for one in ("plain", "first", "second", "other"))
    assert all(secret in plain for secret in (*SECRETS[:3], SECRETS[4]))  # the test would notice them
    assert [secret for secret in SECRETS if re.search(rf"\b{secret}\b", first + other)] == []
    assert first == second  # the same machine, the same pseudonym
    names, others = (set(re.findall(r"(?:host|GPU|serial)-\d{12}", one)) for one in (first, other))
    assert len([one for one in names if one.startswith("host-")]) == 3
    assert any(one.startswith("serial-") for one in names)
    assert not names & others  # without the key, nothing
    assert "0 answered, 2 had answered" in collected(named, "first", "--pseudonyms", key)


@pytest.mark.parametrize("form", ["text", "json", "html", "prometheus", "junit"])
def test_no_report_with_pseudonyms_names_a_machine(form: str, named: Path) -> None:
    key, labels = ("--pseudonyms", str(named / "key")), ("--labels", str(named / "labels"))
    collected(named, "plain")
    (named / "plain/lemon-3.example.org.json.gz").write_bytes(b"damaged")
    words = ("judge", str(named / "plain"), *labels, "--format", form, "-o", str(named / "report"))
    run(*words)
    if form != "prometheus":
        assert "gpu007" in (named / "report").read_text()
    run(*words, *key)
    hidden = (named / "report").read_text()
    assert [secret for secret in SECRETS if re.search(rf"\b{secret}\b", hidden)] == []
    assert run("judge", str(named / "plain"), *key, "--format", "nodelist")[0] == 2


def test_a_report_and_a_collection_call_a_machine_the_same(named: Path) -> None:
    key = ("--pseudonyms", str(named / "key"))
    collected(named, "plain")
    collected(named, "first", *key)
    told = run("judge", str(named / "plain"), *key, "--format", "json")[1]
    kept = run("judge", str(named / "first"), "--format", "json")[1]
    called = [[one["nodes"] for one in json.loads(said)["classes"]] for said in (told, kept)]
    assert called[0] == called[1] != []
    assert not (named / "plain/fleet.sqlite").exists()


@pytest.mark.parametrize("file", ["nodes.sqlite", "nodes.duckdb", "nodes.parquet"])
def test_a_packed_fleet_is_judged_as_its_folder_is(file: str, made: Path, tmp_path: Path) -> None:
    if not file.endswith("sqlite"):
        pytest.importorskip("duckdb")
    assert run("pack", str(made), str(tmp_path / file))[0] == 0
    words = ("--format", "json", "--fail-on", "never")
    whole, packed = (json.loads(run("judge", str(one), *words)[1]) for one in (made, tmp_path / file))
    assert all((whole["missing"], whole["drift"], [one for one in whole["figures"] if one["outliers"]]))
    assert {**packed, "seconds": 0} == {**whole, "seconds": 0}
    assert run("pack", str(made), str(tmp_path / file))[0] == 2


def test_without_duckdb_its_files_are_refused_with_what_to_install(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    (tmp_path / "there.parquet").write_bytes(b"PAR1" + bytes(20))
    for words in (("pack", str(made), str(tmp_path / "new.parquet")), ("judge", str(tmp_path / "there.parquet"))):
        code, said = run(*words)
        assert code == 2
        assert said == "this kind of file needs DuckDB: pip install 'gpustack-doctor[fleet]'"


def test_a_file_that_holds_no_recordings_is_refused_in_one_line(made: Path, tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    duckdb.sql("select 1 as a").write_parquet(str(tmp_path / "a.parquet"))
    (tmp_path / "text").write_text("PAR1 and nothing more")
    (tmp_path / "empty").write_text("")
    evil = "select '../../evil' as node, 'snapshot' as kind, '{}' as answer"
    duckdb.sql(evil).write_parquet(str(tmp_path / "evil.parquet"))
    for path in (*tmp_path.iterdir(), made / "fleet.sqlite"):
        code, said = run("judge", str(path))
        assert code == 2, path
        assert len(said.splitlines()) == 1
    assert not (tmp_path.parent / "evil.json.gz").exists()


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
