"""Recorded and invented machines, each with the diagnosis that must result."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpustack.model.report import Health, Kept
from gpustack.model.writing import plain
from gpustack.snapshots import read
from tests.build import report
from tests.report import screens

HOSTS = sorted((Path(__file__).parents[1] / "hosts").glob("*.json"))


def load(path: Path) -> dict[str, object]:
    said = json.loads(path.read_text("utf-8"))
    assert isinstance(said, dict)
    return said


@pytest.mark.parametrize("path", HOSTS, ids=lambda path: path.stem)
def test_a_machine_yields_its_answer(path: Path) -> None:
    said = load(path)
    expect = said["expect"]
    assert isinstance(expect, dict)
    made = report(read(json.dumps(said["facts"]), path.name))
    found = {finding.id for finding in made.findings}
    assert made.verdict.status is Health(expect["verdict"])
    assert list(made.verdict.root_causes) == expect["root_causes"]
    assert set(expect["findings"]) <= found
    assert not set(expect["absent"]) & found
    assert expect.get("works", made.verdict.works) == made.verdict.works
    assert list(screens.wrong(made)) == []
    if made.verdict.status is Health.HEALTHY:
        assert Kept.BROKEN not in {contract.status for contract in made.contracts}


@pytest.mark.parametrize("path", HOSTS, ids=lambda path: path.stem)
def test_a_machine_says_what_it_is_and_whether_it_was_real(path: Path) -> None:
    said = load(path)
    assert len(str(said["about"])) > 20
    assert said["origin"] in {"recorded", "constructed"}
    facts = read(json.dumps(said["facts"]), path.name)
    told = said["facts"]
    assert isinstance(told, dict)
    pythons = [{"found": False, **one} for one in told["environments"]]
    components = [
        {**one, "instances": [{"strengths": {}, **copy} for copy in one["instances"]]} for one in told["components"]
    ]
    kept = {
        "messages": [],
        "words": [],
        **told,
        "environments": pythons,
        "components": components,
    }  # recorded before snapshots kept these
    assert plain(facts) == kept


def test_there_are_machines_for_every_verdict() -> None:
    verdicts = {load(path)["expect"]["verdict"] for path in HOSTS}  # type: ignore[index]  # an object of our own
    assert verdicts == {health.value for health in Health}
