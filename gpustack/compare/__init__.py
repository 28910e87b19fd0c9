"""Two reports side by side: what changed, which findings came and went, and on which change they rest."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gpustack import __version__
from gpustack.compare import fingerprint
from gpustack.model.difference import Changed, Difference, Side, Told, Turn
from gpustack.model.facts import Layer, Status
from gpustack.model.report import Severity, Tool

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from gpustack.model.facts import Component, Instance
    from gpustack.model.report import Finding, Report

LAYERS = tuple(Layer)
SEVERITIES = tuple(Severity)
HERE = frozenset({Status.PRESENT, Status.FAILED})
NOT_HERE = frozenset({Status.ABSENT, Status.NOT_APPLICABLE})
FLEETING = frozenset({"gpu-processes", "kernel-log"})  # never twice the same; what is wrong in them is a finding
IN_USE = ("version", "build", "path")


def compare(before: Report, after: Report, paths: tuple[str, str] = ("", "")) -> Difference:
    """Return what is not the same about two reports, what matters first; ``paths`` are where they were read."""
    changed = changes(before, after)
    parts = {one.component for one in changed}
    then = {fingerprint.common(one.key, before): one for one in before.findings}
    now = {fingerprint.common(one.key, after): one for one in after.findings}
    told = [
        _told(then.get(key), now.get(key), parts)
        for key in dict.fromkeys((*now, *then))
        if key not in then or key not in now or then[key].severity is not now[key].severity
    ]
    findings = tuple(iter(sorted(told, key=_weight)))
    tied = (replace(one, matters=tuple(_resting(one.component, findings))) for one in changed)
    seen = {one.id for one in before.components} & {one.id for one in after.components}
    return Difference(
        tool=Tool(name="gpustack", version=__version__, matrix_date=after.tool.matrix_date),
        before=_side(before, paths[0]),
        after=_side(after, paths[1]),
        changes=tuple(sorted(tied, key=lambda one: not one.matters)),
        findings=findings,
        same=len(seen - parts),
    )


def changes(before: Report, after: Report) -> tuple[Changed, ...]:
    """Return everything that is not the same about two machines, the lowest layer first.

    What one of the two did not look at is not compared.
    """
    then = {one.id: one for one in before.components}
    found = list(_hosts(before, after))
    for one in after.components:
        if one.id in then and one.id not in FLEETING:
            found += _component(then[one.id], one, (before, after))
    return tuple(sorted(found, key=lambda one: LAYERS.index(one.layer)))


def _resting(component: str, findings: Iterable[Told]) -> Iterator[str]:
    return (one.key for one in findings if component in one.because_of)


def _side(report: Report, path: str) -> Side:
    return Side(
        path=path,
        taken=report.taken,
        hostname=report.host.hostname,
        status=report.verdict.status,
        root_causes=report.verdict.root_causes,
    )


# Findings.


def _told(before: Finding | None, after: Finding | None, parts: set[str]) -> Told:
    known = [one for one in (after, before) if one]
    turn = Turn.CHANGED if len(known) > 1 else Turn.NEW if after else Turn.GONE
    rests = [name for one in known for name in (one.component, *(ground.component for ground in one.because))]
    first = known[0]
    return Told(
        key=first.key,
        id=first.id,
        layer=first.layer,
        title=first.title,
        turn=turn,
        before=before.severity if before else None,
        after=after.severity if after else None,
        caused_by=first.caused_by,
        because_of=tuple(name for name in dict.fromkeys(rests) if name in parts),
    )


def _weight(one: Told) -> tuple[int, bool, int]:
    gravest = min(SEVERITIES.index(severity) for severity in (one.before, one.after) if severity)
    return gravest, one.turn is Turn.GONE, LAYERS.index(one.layer)


# What is there.


def _hosts(before: Report, after: Report) -> Iterator[Changed]:
    then, now = before.host, after.host
    for what, layer in (("os", Layer.KERNEL), ("virtualisation", Layer.KERNEL), ("container", Layer.CONTAINER)):
        old, new = getattr(then, what), getattr(now, what)
        if old != new and ((old and new) or (before.taken and after.taken)):
            yield _changed("host", layer, what, old, new)


def _component(then: Component, now: Component, reports: tuple[Report, Report]) -> Iterator[Changed]:
    """Yield what changed of one system."""
    both = {then.status, now.status}
    if now.id == fingerprint.VARIABLES and Status.UNKNOWN not in both:
        yield from _facts(now, fingerprint.notable(then.id, then.facts), fingerprint.notable(now.id, now.facts), None)
        return
    if both <= NOT_HERE or (Status.UNKNOWN in both and both & NOT_HERE) or both == {Status.UNKNOWN}:
        return
    if both & NOT_HERE:
        old, new = (one.version or one.status.value if one.status in HERE else None for one in (then, now))
        yield _changed(now.id, now.layer, "version", old, new)
        return
    if then.status is not now.status:
        old, new = (one.status.value + (f": {one.reason}" if one.reason else "") for one in (then, now))
        yield _changed(now.id, now.layer, "status", old, new)
    if both <= HERE:
        yield from _inside(then, now, reports)


def _inside(then: Component, now: Component, reports: tuple[Report, Report]) -> Iterator[Changed]:
    """Yield what changed of a system that is there both times: of the copy in use, and then of the others."""
    told: set[tuple[str, str | None, str | None]] = set()
    if now.id not in fingerprint.EACH:
        for what in IN_USE:
            old, new = getattr(then, what), getattr(now, what)
            if old and new and _common(old, reports[0]) != _common(new, reports[1]):
                told.add((what, old, new))
                yield _changed(now.id, now.layer, what, old, new)
        facts = fingerprint.notable(now.id, then.facts), fingerprint.notable(now.id, now.facts)
        yield from _facts(now, *facts, None)
    for old_copy, new_copy in _paired(then.instances, now.instances, reports):
        for one in _copies(now, old_copy, new_copy):
            if (one.what, one.before, one.after) not in told:
                yield one
    if now.id == fingerprint.PACKAGES:
        yield from _packages(now, reports)


def _copies(component: Component, old: Instance | None, new: Instance | None) -> Iterator[Changed]:
    """Yield what became of one copy of a system."""
    copy = new or old
    if copy is None:
        return
    where = fingerprint.place(copy)
    if old is None or new is None:
        gone, come = (fingerprint.described(one) if one else None for one in (old, new))
        yield _changed(component.id, component.layer, "copy", gone, come, where=where)
        return
    for what in ("version", "build"):
        then, now = getattr(old, what), getattr(new, what)
        if then and now and then != now:
            yield _changed(component.id, component.layer, what, then, now, where=where)
    if component.id in fingerprint.EACH:
        facts = fingerprint.notable(component.id, old.facts), fingerprint.notable(component.id, new.facts)
        yield from _facts(component, *facts, where)


def _facts(component: Component, then: dict[str, str], now: dict[str, str], where: str | None) -> Iterator[Changed]:
    """Yield the facts that are not the same; one that was reported only once is usually no change."""
    for what in dict.fromkeys((*then, *now)):
        told = (what in then and what in now) or what.startswith(fingerprint.SET)
        if told and then.get(what) != now.get(what):
            yield _changed(component.id, component.layer, what, then.get(what), now.get(what), where=where)


def _packages(now: Component, reports: tuple[Report, Report]) -> Iterator[Changed]:
    """Yield the distributions of the chosen Python that came, went or changed."""
    old, new = fingerprint.distributions(reports[0]), fingerprint.distributions(reports[1])
    for name in sorted({*old, *new}):
        if old.get(name) != new.get(name):
            yield _changed(name, now.layer, "distribution", old.get(name), new.get(name))


def _paired(
    then: Sequence[Instance], now: Sequence[Instance], reports: tuple[Report, Report]
) -> Iterator[tuple[Instance | None, Instance | None]]:
    """Yield the copies in pairs: those of one name, then what is left of one Python; None where there is none."""
    left = dict(enumerate(then))
    unpaired: list[Instance] = []
    for copy in now:
        name = fingerprint.identity(copy, reports[1])
        number = next((key for key, one in left.items() if fingerprint.identity(one, reports[0]) == name), None)
        if number is None:
            unpaired.append(copy)
        else:
            yield left.pop(number), copy
    for copy in unpaired:
        side = _common(copy.environment, reports[1])
        number = next((key for key, one in left.items() if _common(one.environment, reports[0]) == side), None)
        yield (left.pop(number) if number is not None else None), copy
    yield from ((one, None) for one in left.values())


def _common(text: str | None, report: Report) -> str | None:
    return fingerprint.common(text, report) if text else text


def _changed(
    component: str, layer: Layer, what: str, before: str | None, after: str | None, *, where: str | None = None
) -> Changed:
    turn = Turn.NEW if before is None else Turn.GONE if after is None else Turn.CHANGED
    return Changed(component=component, layer=layer, what=what, turn=turn, before=before, after=after, where=where)
