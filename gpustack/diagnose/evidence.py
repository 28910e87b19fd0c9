"""How surely facts are known: measured, printed by a tool, implied by a message, stated; and which are not known."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gpustack.diagnose.machine.messages import MESSAGE
from gpustack.diagnose.machine.values import at, everything, flag, text, told
from gpustack.model.facts import Status, Strength, Unseen
from gpustack.model.report import Confidence, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.model.facts import Facts, Instance
    from gpustack.model.report import Because, Finding

STRENGTHS = tuple(Strength)
LOG = "kernel-log"
ALWAYS = ("linux-kernel", "pci-display", LOG)  # what every look at a machine asks
AS_ROOT = "run gpustack as root"


def weighed(finding: Finding, facts: Facts) -> Finding:
    """Return a finding whose grounds say how each was learnt; what only words support, or nothing, is never certain."""
    grounds = tuple(replace(one, strength=_of(one, facts)) for one in finding.because)
    known = [one.strength for one in grounds if one.value is not None]
    named = bool(known) or facts.taken or finding.severity is Severity.UNKNOWN
    words = not named or (bool(known) and all(one is Strength.STATED for one in known))
    sure = Confidence.LIKELY if words and finding.confidence is Confidence.CERTAIN else finding.confidence
    return replace(finding, because=grounds, confidence=sure)


def unseen(facts: Facts) -> Iterator[Unseen]:
    """Yield what a look at a machine did not learn and does not name itself: components, and a kernel log unread."""
    if not facts.taken:
        return
    for seen in facts.components:
        if seen.status is Status.UNKNOWN and not any(one.what.startswith(seen.id) for one in facts.not_seen):
            yield Unseen(what=seen.id, why=seen.reason or "no reason was given")
    yield from (Unseen(what=name, why="these facts do not have it") for name in ALWAYS if not facts.find(name))
    log = facts.find(LOG)
    if log and log.status is not Status.UNKNOWN and flag(told(facts, LOG), "readable") is not True:
        why = text(told(facts, LOG), "why") or log.reason or "it could not be read"
        if not any(one.what in why or why in one.why for one in facts.not_seen):
            yield Unseen(what=LOG, why=why, enable_by=AS_ROOT)


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
