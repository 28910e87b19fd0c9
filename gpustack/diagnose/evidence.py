"""How surely the facts behind a finding are known: measured, printed by a tool, implied by a message, or stated."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gpustack.diagnose.machine.messages import MESSAGE
from gpustack.diagnose.machine.values import at, everything
from gpustack.model.facts import Strength
from gpustack.model.report import Confidence

if TYPE_CHECKING:
    from gpustack.model.facts import Facts, Instance
    from gpustack.model.report import Because, Finding

STRENGTHS = tuple(Strength)


def weighed(finding: Finding, facts: Facts) -> Finding:
    """Return a finding whose grounds say how each was learnt; what only words support is never certain."""
    grounds = tuple(replace(one, strength=_of(one, facts)) for one in finding.because)
    known = [one.strength for one in grounds if one.value is not None]
    words = bool(known) and all(one is Strength.STATED for one in known)
    sure = Confidence.LIKELY if words and finding.confidence is Confidence.CERTAIN else finding.confidence
    return replace(finding, because=grounds, confidence=sure)


def _of(ground: Because, facts: Facts) -> Strength:
    """Return how a fact was learnt: that of the copy that has this value, else of the first that has the fact."""
    if ground.component == MESSAGE:
        said = (one.strength for one in facts.messages if (one.kind, one.line) == (ground.fact, ground.value))
        return next(said, Strength.MESSAGE)
    names = ground.fact.split(".")
    seen = facts.find(ground.component)
    having = [copy for copy in seen.instances if at(everything(copy), names[0]) is not None] if seen else []
    same = (copy for copy in having if at(everything(copy), *names) == ground.value)
    copy = next(same, having[0] if having else None)
    if copy:
        return _learnt(copy, names[0])
    return Strength.MEASURED if facts.taken else Strength.PRINTED


def _learnt(copy: Instance, name: str) -> Strength:
    """Return how a copy's fact was learnt; one that was concluded is as weak as the weakest that is known of it."""
    weakest = max(copy.strengths.values(), key=STRENGTHS.index, default=Strength.MEASURED)
    return copy.strengths.get(name, weakest)
