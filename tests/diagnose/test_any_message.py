"""Whatever a message holds or lacks, judging it never raises."""

from __future__ import annotations

from itertools import chain

import pytest

from gpustack.diagnose.engine import judge
from gpustack.matrix import Matrix
from gpustack.matrix.subjects.messages import Pattern, patterns
from gpustack.model.facts import Facts, Host, Message

MATRIX = Matrix()
PATTERNS = patterns(MATRIX)


@pytest.mark.parametrize("kind", sorted({one.kind for one in PATTERNS}))
def test_a_message_with_any_of_its_values_is_judged(kind: str) -> None:
    for pattern in (one for one in PATTERNS if one.kind == kind):
        for values in held(pattern):
            message = Message(kind=kind, line="a line", origin="a.txt", values={**pattern.values, **values})
            judge(Facts(taken="", host=Host(), messages=(message,)), MATRIX)


def held(pattern: Pattern) -> list[dict[str, str]]:
    """Give nothing, each value alone as a version and as a word, and all of them at once."""
    names = sorted(pattern.compiled().groupindex)
    alone = chain.from_iterable(({name: "12.4"}, {name: "x"}) for name in names)
    return [{}, *alone, dict.fromkeys(names, "1"), dict.fromkeys(names, "libcudnn.so.9")]
