"""The contracts that only a bad example shows: two versions that their makers know to fail together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.rules.compatibility import Fit
from gpustack.diagnose.rules.contracts.edges import edge
from gpustack.diagnose.rules.known_bad_combination import GRAVE, versions_of
from gpustack.matrix.subjects import known_bad
from gpustack.model.report import Kept

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts
    from gpustack.model.report import Contract


def draw(facts: Facts, matrix: Matrix) -> Iterator[Contract]:
    """Give each pair of versions that is known to fail, whatever else is so."""
    versions = versions_of(facts)
    for one in known_bad.matching(matrix, versions, architecture=facts.host.machine) if len(versions) > 1 else ():
        certain = not one.when and one.effect.value in GRAVE and one.proof is known_bad.Proof.PROJECT
        for partner, span in one.partners.items() if certain else ():
            found = f"{partner} {versions[partner]}: {one.what}"
            fit = Fit(kept=Kept.BROKEN, needs=f"no {partner} {span}".strip(), found=found, row=one.row)
            yield edge(one.component, partner, "combination", fit)
