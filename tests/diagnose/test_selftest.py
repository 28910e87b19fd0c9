"""The self-test: everything passes here, each rule has facts of its own, and what is broken is reported."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from gpustack import selftest
from gpustack.collect.subprocesses import Door
from gpustack.diagnose import engine, rule
from gpustack.errors import BrokenError
from gpustack.matrix import Matrix
from gpustack.model import writing
from gpustack.model.matrix_answer import Part, Proof, SelfTest
from gpustack.model.report import Tool
from gpustack.report.check_text import render_selftest
from tests.faults import command
from tests.schemas.test_schemas import validator

if TYPE_CHECKING:
    from pathlib import Path

    from gpustack.model.facts import Facts
    from gpustack.model.report import Finding

MATRIX = Matrix()


def test_all_holds_here_in_time_and_leaves_nothing(tmp_path: Path) -> None:
    ran = command.run(("selftest", "--format", "json"), {"PATH": "", "HOME": str(tmp_path), "TMPDIR": str(tmp_path)})
    assert ran.code == 0, ran.out
    validator("selftest").validate(ran.report)
    assert ran.report["held"] is True
    assert ran.report["seconds"] < 30  # one on an idle machine
    assert {one["name"] for one in ran.report["proofs"]} == {*rule.ids(), *selftest.SICK}
    assert list(tmp_path.iterdir()) == []
    assert command.left(ran.mark) == []


def test_every_rule_has_facts_of_its_own_and_none_of_this_machine() -> None:
    """When this fails: the first lines of ``tests/proofs.py``."""
    sick = selftest.sick_facts()
    assert set(sick) == set(rule.ids())


def test_a_rule_that_is_silent_or_breaks_does_not_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(_facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
        yield from ()

    def broken(_facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
        raise KeyError("x")

    nouveau = rule.rules()["nouveau-loaded"]
    for judge, says in ((silent, "it said nothing of facts that are sick"), (broken, "it broke: KeyError: 'x'")):
        monkeypatch.setitem(rule.rules(), "nouveau-loaded", replace(nouveau, predicate=judge))
        proofs = {proof.name: proof for proof in selftest.rules(MATRIX, selftest.sick_facts())}
        assert not proofs["nouveau-loaded"].held
        assert proofs["nouveau-loaded"].says == says
    assert engine.judge is not None


def test_a_rule_without_facts_and_damaged_facts_do_not_hold() -> None:
    proofs = {one.name: one for one in selftest.rules(MATRIX, {"gpu-overheat": {"components": 3}})}
    assert not any(one.held for one in proofs.values())
    assert proofs["libcuda-missing"].says == "no facts are shipped on which it could be tried"
    assert "components is not a list" in proofs["gpu-overheat"].says


def test_a_guard_that_is_gone_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selftest, "SICK", {"a probe that is well": ("pass", "was killed by SIGSEGV")})
    (proof,) = selftest.guards(Door())
    assert (proof.held, proof.says) == (False, "it answered as if it were well")


def test_a_damaged_file_is_our_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("nothing.json", "__init__.py"):
        monkeypatch.setattr(selftest, "PROOFS", name)
        with pytest.raises(BrokenError, match=f"the shipped file {name} is damaged"):
            selftest.sick_facts()


def test_what_did_not_hold_stands_out_in_text_and_json() -> None:
    proofs = (
        Proof(name="gpu-overheat", part=Part.RULE, held=True, says="H200 is hot"),
        Proof(name="libcuda-missing", part=Part.RULE, held=False, says="it said nothing"),
        Proof(name="a probe that hangs", part=Part.GUARD, held=True, says="gave no answer in 0.8 s"),
    )
    tool = Tool(name="gpustack", version="1", matrix_date="2026-11-21")
    tested = SelfTest(tool=tool, held=False, proofs=proofs, seconds=1.25)
    text = render_selftest(tested)
    assert "✗ 1 of 2 checks fire" in text
    assert "libcuda-missing: it said nothing" in text
    assert "H200 is hot" not in text
    assert "H200 is hot" in render_selftest(tested, verbose=True)
    assert "do not trust this installation" in " ".join(text.split())
    assert json.loads(writing.render(tested))["schema"] == "gpustack.selftest/1"
