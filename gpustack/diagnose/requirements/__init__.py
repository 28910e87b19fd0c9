"""Requirements on a machine's health, stated by rows: each broken one is a contract and a finding."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.requirements import counts, events, states
from gpustack.diagnose.requirements.records import by_id, by_maker
from gpustack.diagnose.requirements.subjects import Machine
from gpustack.model.report import Because, Confidence, Contract, Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from gpustack.diagnose.requirements.states import Outcome
    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts

SEVERITIES = tuple(Severity)


def outcomes(facts: Facts, matrix: Matrix) -> tuple[Outcome, ...]:
    """Return every requirement of the health table that is broken, limited or unknown."""
    machine = Machine(facts=facts, matrix=matrix)
    return (
        *counts.missing(machine),
        *counts.far(machine),
        *states.broken(machine),
        *states.siblings(machine),
        *events.logged(machine),
    )


def contracts(held: Iterable[Outcome]) -> Iterator[Contract]:
    """Yield the contract of each of them; a broken one names its finding."""
    for one in held:
        yield Contract(
            from_=one.component,
            to=one.component if one.kind != "count" else one.source,
            kind=one.kind,
            needs=one.needs,
            found=one.found,
            status=one.status,
            row=one.row,
            finding=None if one.unknown else one.key,
        )


def findings(held: Iterable[Outcome]) -> Iterator[Finding]:
    """Yield the finding of each broken one; several for one finding on one GPU are merged."""
    found: dict[str, list[Outcome]] = {}
    for one in held:
        if not one.unknown:
            found.setdefault(one.key, []).append(one)
    for group in found.values():
        yield _finding(sorted(group, key=lambda one: SEVERITIES.index(one.severity)))


def _finding(group: Sequence[Outcome]) -> Finding:
    """Return one finding with the most severe problem in its title, and the others in its detail."""
    first, record = group[0], by_id()[group[0].finding]
    maker = by_maker().get(first.component)
    return Finding(
        id=first.finding,
        instance=first.instance,
        severity=first.severity,
        layer=record.layer,
        component=first.component if maker else record.component,
        title=first.title[:190],
        detail=" ".join(f"{title}." for title in dict.fromkeys(one.title for one in group) if title != first.title),
        because=tuple(
            dict.fromkeys(
                Because(component=one.component, fact=fact, value=value, source=one.source)
                for one in group
                for fact, value in one.grounds
            )
        ),
        row=first.row,
        fix=record.fix(first.instance, maker),
        confidence=record.confidence if first.sure else Confidence.LIKELY,
    )
