"""What holds for every rule, whatever it speaks of."""

from __future__ import annotations

import inspect
import json
import re
import sys
from pathlib import Path

import pytest

from gpustack import rules
from gpustack.model.report import Finding, Severity
from gpustack.rules.causes import EXPLAINED_BY, OWN_INSTANCE
from gpustack.snapshots import read
from tests.build import healthy, onnxruntime, report, torch

HOSTS = sorted((Path(__file__).parent.parent / "hosts").glob("*.json"))
IDS = {rule.__module__.rpartition(".")[2].replace("_", "-") for rule in rules.RULES}


def findings() -> list[Finding]:
    recorded = [json.dumps(json.loads(path.read_text("utf-8"))["facts"]) for path in HOSTS]
    machines = [*(read(text) for text in recorded), healthy(torch(), onnxruntime())]
    return [finding for facts in machines for finding in report(facts).findings]


FINDINGS = findings()


@pytest.mark.parametrize("rule", rules.RULES, ids=lambda rule: rule.__module__.rpartition(".")[2])
def test_a_rule_says_what_was_seen_why_it_hurts_and_what_to_do(rule: rules.Judge) -> None:
    doc = sys.modules[rule.__module__].__doc__ or ""
    first, _, rest = doc.partition("\n\n")
    assert first.endswith(".")
    assert "\n" not in first
    assert len(re.findall(r"[.:;]", rest)) >= 2
    assert inspect.signature(rule).parameters.keys() in ({"facts", "matrix"}, {"facts", "_matrix"})


def test_each_rule_stands_once_in_the_order() -> None:
    assert len(set(rules.RULES)) == len(rules.RULES)
    assert len(IDS) == len(rules.RULES)


@pytest.mark.parametrize("finding", sorted(IDS))
def test_explain_gives_a_rules_own_words(finding: str) -> None:
    said = rules.explain(finding)
    assert said is not None
    assert "\n\n" in said


@pytest.mark.parametrize("name", ["reading", "seen", "no-such-thing", "", "causes"])
def test_explain_knows_rules_alone(name: str) -> None:
    assert rules.explain(name) is None


def test_causes_and_consequences_are_findings_that_exist() -> None:
    named = {*EXPLAINED_BY, *(one for causes in EXPLAINED_BY.values() for one in causes), *OWN_INSTANCE}
    assert named <= IDS


def test_no_finding_explains_itself_by_way_of_others() -> None:
    def behind(finding: str, seen: frozenset[str]) -> None:
        assert finding not in seen, f"{finding} explains itself"
        for cause in EXPLAINED_BY.get(finding, ()):
            behind(cause, seen | {finding})

    for finding in EXPLAINED_BY:
        behind(finding, frozenset())


@pytest.mark.parametrize("finding", FINDINGS, ids=lambda finding: finding.key)
def test_a_finding_rests_on_facts_and_its_fix_on_commands(finding: Finding) -> None:
    assert finding.id in IDS
    assert finding.because
    assert all(ground.component and ground.fact for ground in finding.because)
    assert finding.title == finding.title.strip()
    assert not finding.title.endswith(".")
    assert len(finding.title) < 200
    if finding.fix:
        assert finding.fix.text.endswith(".")
        assert finding.fix.commands
        assert finding.fix.needs_root == any("sudo " in command for command in finding.fix.commands)
    if finding.row:
        assert finding.row.source
        assert finding.row.checked


@pytest.mark.parametrize("finding", FINDINGS, ids=lambda finding: finding.key)
def test_a_root_that_is_at_fault_has_a_fix_and_a_consequence_has_none(finding: Finding) -> None:
    if finding.caused_by:
        assert finding.fix is None
    elif finding.severity in {Severity.ERROR, Severity.WARNING}:
        assert finding.fix is not None
