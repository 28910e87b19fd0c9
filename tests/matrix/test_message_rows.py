"""Every message that is known can be looked for, and leads to a finding that exists."""

from __future__ import annotations

import re

from gpustack.diagnose.rulebook import explain
from gpustack.matrix import Matrix
from gpustack.matrix.subjects.messages import patterns

PATTERNS = patterns(Matrix())


def test_a_message_can_be_looked_for() -> None:
    for pattern in PATTERNS:
        expression = pattern.compiled()
        assert pattern.has == pattern.has.lower(), pattern
        assert pattern.has.isascii(), pattern
        assert expression.search("") is None, pattern
        assert expression.search("\n" * 2000 + "x " * 2000) is None, pattern


def test_the_finding_that_a_message_leads_to_is_there() -> None:
    assert all(explain(one.finding) for one in PATTERNS if one.finding)


def test_kinds_are_words_and_each_leads_to_one_finding() -> None:
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", one.kind) for one in PATTERNS)
    told = {(one.kind, one.finding) for one in PATTERNS if one.finding}
    assert len(told) == len({kind for kind, _ in told})
