"""The contracts of servers with the GPUs, technique by technique."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.rules.contracts.edges import asked, edge
from gpustack.diagnose.rules.reading import copies
from gpustack.diagnose.rules.techniques import abilities

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts
    from gpustack.model.report import Contract


def draw(facts: Facts, matrix: Matrix) -> Iterator[Contract]:
    """Give whether each technique of each installed server can be used here."""
    named = any(asked(copy) for copy in copies(facts, "gpu"))
    for one in abilities(facts, matrix):
        if not (one.parallel and named):  # how many there are, nobody said
            yield edge(one.component, "gpu", "technique", one.fit, one.environment)
