"""The shipped schemas are those of our types, and every output is validated against them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from gpustack import assets
from gpustack.model.facts import Environment, Facts
from gpustack.model.writing import render
from tests.report import measurements, reports, traces
from tools.schemas import ROOTS, write


def validator(name: str) -> jsonschema.Draft202012Validator:
    """Return what validates an output against the shipped schema of this name."""
    schema = json.loads((assets.SCHEMAS / f"{name}.json").read_text("utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def written(value: object) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(render(value))
    return loaded


SNAPSHOT = Facts(
    taken="2026-11-21T10:02:00+00:00",
    host=reports.H200_HOST,
    components=reports.H200_COMPONENTS,
    environments=(Environment(python=reports.PYTHON, kind="venv", version="3.12.3", prefix=reports.VENV),),
    not_seen=reports.h200().not_seen,
)


def test_the_shipped_schemas_are_those_of_the_types(tmp_path: Path) -> None:
    """When this fails: ``python -m tools.schemas``, and review the difference as a change of what users rely on."""
    write(tmp_path)
    assert {path.stem for path in assets.SCHEMAS.glob("*.json")} == set(ROOTS)
    for name in ROOTS:
        assert (assets.SCHEMAS / f"{name}.json").read_text("utf-8") == (tmp_path / f"{name}.json").read_text("utf-8")


@pytest.mark.parametrize("name", reports.ALL)
def test_reports_keep_their_schema(name: str) -> None:
    validator("report").validate(written(reports.ALL[name]()))


@pytest.mark.parametrize("name", measurements.ALL)
def test_bench_reports_keep_their_schema(name: str) -> None:
    validator("bench").validate(written(measurements.ALL[name]()))


@pytest.mark.parametrize("name", traces.ALL)
def test_traces_keep_their_schema(name: str) -> None:
    validator("trace").validate(written(traces.ALL[name]()))


def test_snapshots_keep_their_schema() -> None:
    validator("snapshot").validate(written(SNAPSHOT))


def test_the_doctor_keeps_its_schema_on_this_machine() -> None:
    command = [sys.executable, "-m", "gpustack", "doctor", "--format", "json"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode in {0, 1}, run.stderr
    validator("report").validate(json.loads(run.stdout))


def test_a_new_key_is_free_and_a_missing_or_a_changed_one_is_not() -> None:
    report = validator("report")
    said = written(reports.driver_too_old())
    assert report.is_valid({**said, "new": 1, "host": {**said["host"], "new": 1}})
    for key in said:
        assert not report.is_valid({name: value for name, value in said.items() if name != key}), key
    for row, key in (("contracts", "from"), ("findings", "key"), ("components", "instances"), ("findings", "row")):
        first = {name: value for name, value in said[row][0].items() if name != key}
        assert not report.is_valid({**said, row: [first]}), key
    assert not report.is_valid({**said, "schema": "gpustack.report/2"})
    assert not report.is_valid({**said, "verdict": {**said["verdict"], "status": "fine"}})
    assert not report.is_valid({**said, "findings": [{**said["findings"][0], "severity": "fatal"}]})
