"""The rules by their ids: which are asked, and what each means in its own words."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from gpustack.diagnose.requirements.records import records
from gpustack.diagnose.rules import AFTERWARDS, FROM_MESSAGES, RULES, module_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.diagnose.rules import Judge
    from gpustack.model.facts import Facts


def rule(finding: str) -> Judge:
    """Give the rule of this id."""
    judge: Judge = import_module(module_of(finding)).judge
    return judge


def asked(facts: Facts) -> Iterator[Judge]:
    """Give the rules that can say something of these facts, in their order."""
    for finding in RULES:
        if facts.messages or finding not in FROM_MESSAGES:
            yield rule(finding)


def load() -> None:
    """Import the rules that are asked of any machine."""
    for finding in RULES:
        if finding not in FROM_MESSAGES:
            rule(finding)


def explain(finding: str) -> str | None:
    """Give what a finding means, why it hurts and what to do; None where no rule has this id."""
    if finding in (*RULES, *AFTERWARDS):
        return import_module(module_of(finding)).__doc__
    record = records().get(finding)
    return record.doc if record else None
