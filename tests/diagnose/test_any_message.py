"""Whatever a message holds or lacks, judging it never raises."""

from __future__ import annotations

from itertools import chain

from gpustack.diagnose.engine import judge
from gpustack.matrix import Matrix
from gpustack.matrix.subjects.messages import Pattern, patterns
from gpustack.model.facts import Facts, Host, Message
from tests.wide import sample, wide

MATRIX = Matrix()
PATTERNS = patterns(MATRIX)


@wide
def test_a_message_with_any_of_its_values_is_judged() -> None:
    """In CI one in four of the messages with some of their values; all of them with GPUSTACK_WIDE=1."""
    every = {(one.kind, tuple(sorted({**one.values, **values}.items()))) for one in PATTERNS for values in held(one)}
    for kind, values in sample(sorted(every), 4):
        message = Message(kind=kind, line="a line", origin="a.txt", values=dict(values))
        judge(Facts(taken="", host=Host(), messages=(message,)), MATRIX)


def held(pattern: Pattern) -> list[dict[str, str]]:
    """Give nothing, each value alone as a version and as a word, and all of them at once."""
    names = sorted(pattern.compiled().groupindex)
    alone = chain.from_iterable(({name: "12.4"}, {name: "x"}) for name in names)
    return [{}, *alone, dict.fromkeys(names, "1"), dict.fromkeys(names, "libcudnn.so.9")]
