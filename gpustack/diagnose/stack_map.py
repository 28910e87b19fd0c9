"""From facts to the map of the stack: every system of the matrix, whether or not anybody asked after it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack import __version__
from gpustack.diagnose import requirements
from gpustack.diagnose.environments import whole
from gpustack.diagnose.machine.completing import complete
from gpustack.diagnose.requirements.versions import draw
from gpustack.matrix.subjects import terms
from gpustack.model.facts import Component, Facts, Status
from gpustack.model.matrix_answer import StackMap
from gpustack.model.report import Tool

if TYPE_CHECKING:
    from gpustack.matrix import Matrix

NOT_TOLD = "the input does not mention it"
NOT_ASKED = "it was not asked for"


def chart(facts: Facts, matrix: Matrix) -> StackMap:
    """Return the map of one machine; a system that the facts do not speak of is unknown, never absent."""
    facts = complete(facts, matrix)
    seen = {component.id: component for component in whole(facts, matrix)}
    why = NOT_ASKED if facts.taken else NOT_TOLD
    known = [
        seen.pop(one.id)
        if one.id in seen
        else Component(id=one.id, layer=one.layer, vendor=one.vendor, status=Status.UNKNOWN, reason=why)
        for one in terms.systems(matrix)
    ]
    return StackMap(
        tool=Tool(name="gpustack", version=__version__, matrix_date=matrix.date),
        host=facts.host,
        components=(*known, *seen.values()),
        contracts=(*draw(facts, matrix), *requirements.contracts(requirements.outcomes(facts, matrix))),
        environments=facts.environments,
        not_seen=facts.not_seen,
        known=tuple(component.id for component in known),
        taken=facts.taken,
        seconds=facts.seconds,
    )
