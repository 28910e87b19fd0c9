"""Every message that is known can be looked for, and leads to a finding that exists."""

from __future__ import annotations

import re

import pytest

from gpustack.matrix import Matrix
from gpustack.rulebook import explain
from gpustack.subjects.messages import Pattern, patterns

PATTERNS = patterns(Matrix())


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda one: one.kind)
def test_a_message_can_be_looked_for(pattern: Pattern) -> None:
    expression = pattern.compiled()
    assert pattern.has == pattern.has.lower()
    assert pattern.has.isascii()
    assert expression.search("") is None
    assert expression.search("\n" * 2000 + "x " * 2000) is None


@pytest.mark.parametrize("pattern", [one for one in PATTERNS if one.finding], ids=lambda one: one.kind)
def test_the_finding_that_a_message_leads_to_is_there(pattern: Pattern) -> None:
    assert pattern.finding
    assert explain(pattern.finding)


def test_kinds_are_words_and_each_leads_to_one_finding() -> None:
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", one.kind) for one in PATTERNS)
    told = {(one.kind, one.finding) for one in PATTERNS if one.finding}
    assert len(told) == len({kind for kind, _ in told})
