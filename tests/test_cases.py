"""Real broken machines, told as people paste them into public issues: the true cause is named, nothing healthy blamed.

Each folder of ``tests/cases`` holds such a paste and ``expected.toml``: the thread of its facts, the cause found
there, and the facts that a diagnosis must name (``|`` parts spellings). A case is ``partly`` decidable where its input
narrows the cause down without settling it; then it is enough to list the cause. The facts are the thread's; the text is
ours: docs/decisions/0010-recorded-machines-in-our-own-words.md.
"""

from __future__ import annotations

import io
import json
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpustack.imports import load
from gpustack.judging import judge
from gpustack.matrix import Matrix
from gpustack.model.report import Health, Severity
from gpustack.render.plain import render

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from gpustack.model.report import Report

FOLDER = Path(__file__).parent / "cases"
MATRIX = Matrix()
LONGEST = 4000  # of a finding's JSON, as much as a reader takes in
NOT_YET: dict[str, str] = {}  # cases that are not diagnosed rightly yet, each with the reason


@cache
def expected(name: str) -> dict[str, Any]:
    return tomllib.loads((FOLDER / name / "expected.toml").read_text("utf-8"))


def judged(name: str) -> Report:
    texts = sorted(str(path) for path in (FOLDER / name).glob("*.txt"))
    return judge(load(texts, io.BytesIO(), MATRIX), MATRIX)


def cases(*, healthy: bool) -> list[Any]:
    names = sorted(path.parent.name for path in FOLDER.glob("*/expected.toml"))
    return [
        pytest.param(name, marks=[pytest.mark.xfail(reason=NOT_YET[name])] if name in NOT_YET else [])
        for name in names
        if expected(name)["healthy"] is healthy
    ]


@pytest.mark.parametrize("name", cases(healthy=False))
def test_the_true_cause_is_the_first_root_and_names_the_facts_that_decide(name: str) -> None:
    report, wanted = judged(name), expected(name)
    roots = report.verdict.root_causes
    assert wanted["root_cause"] in (roots if wanted["decidable"] == "partly" else roots[:1])
    root = next(one for one in report.findings if one.id == wanted["root_cause"])
    at = json.loads(render(report))["findings"][report.findings.index(root)]
    said = json.dumps(at, ensure_ascii=False).lower()[:LONGEST]
    for fact in wanted["must_mention"]:
        assert any(spelling.strip().lower() in said for spelling in fact.split("|")), fact


@pytest.mark.parametrize("name", cases(healthy=True))
def test_a_stack_that_is_well_is_not_blamed(name: str) -> None:
    report = judged(name)
    assert report.verdict.root_causes == ()
    assert [one.id for one in report.findings if one.severity is Severity.ERROR] == []
    assert report.verdict.status is not Health.BROKEN


def test_a_case_says_where_it_comes_from() -> None:
    for name in sorted(path.parent.name for path in FOLDER.glob("*/expected.toml")):
        held = expected(name)
        assert "#" in held["source"] or held["source"].startswith("https://"), name
        assert held["id"] == name
        assert {f"{stem}.txt" for stem in held["dump"]} == {path.name for path in (FOLDER / name).glob("*.txt")}, name
