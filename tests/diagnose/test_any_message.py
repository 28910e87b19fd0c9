"""Whatever a message contains or lacks, judging it never raises."""

from __future__ import annotations

from itertools import chain

import pytest

from gpustack.diagnose.engine import judge
from gpustack.matrix import Matrix
from gpustack.matrix.subjects.messages import Pattern, patterns
from gpustack.model.facts import Facts, Host, Message, Strength
from gpustack.model.report import Confidence
from tests.wide import sample, wide

MATRIX = Matrix()
PATTERNS = patterns(MATRIX)


@wide
def test_a_message_with_any_of_its_values_is_judged() -> None:
    """In CI one in eight of the messages with some of their values; all of them with GPUSTACK_WIDE=1."""
    every = {(one.kind, tuple(sorted({**one.values, **values}.items()))) for one in PATTERNS for values in held(one)}
    for kind, values in sample(sorted(every), 8):
        message = Message(kind=kind, line="a line", origin="a.txt", values=dict(values))
        judge(Facts(taken="", host=Host(), messages=(message,)), MATRIX)


@pytest.mark.parametrize("strength", [Strength.MESSAGE, Strength.STATED])
def test_a_message_that_leads_somewhere_ends_in_a_cause_and_words_alone_are_never_certain(strength: Strength) -> None:
    mute, sure = set(), set()
    for one in {row.kind: row for row in PATTERNS if row.finding and row.finding != "application-fault"}.values():
        said = Message(kind=one.kind, line="a line", origin="a.txt", values=one.values, strength=strength)
        report = judge(Facts(taken="", host=Host(), messages=(said,)), MATRIX)
        if not (report.verdict.root_causes or report.candidates):
            mute.add(one.kind)
        roots = [found for found in report.findings if found.key in report.verdict.root_keys]
        sure |= {found.id for found in roots if found.confidence is Confidence.CERTAIN}
    assert not mute
    assert strength is not Strength.STATED or not sure


def held(pattern: Pattern) -> list[dict[str, str]]:
    """Return no values, each value alone as a version and as a word, and all of them at once."""
    names = sorted(pattern.names)
    alone = chain.from_iterable(({name: "12.4"}, {name: "x"}) for name in names)
    return [{}, *alone, dict.fromkeys(names, "1"), dict.fromkeys(names, "libcudnn.so.9")]
