"""What became of the nodes of a fleet between two collections."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack import __version__
from gpustack.fleet import judging
from gpustack.matrix import Matrix
from gpustack.model.fleet import Changed, FleetDifference, Turned
from gpustack.model.report import Tool

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from gpustack.fleet.judging import Whole
    from gpustack.model.fleet import FleetReport

MOST_OF_ONE = 64  # pairs of values; a fact with more is another at every look


def between(before: Path, after: Path) -> FleetDifference:
    """Return which nodes have another verdict or other causes, and which facts changed on nodes that are in both."""
    then, now = judging.judge(before), judging.judge(after)
    sides = tuple(_verdicts(one.report) for one in (then, now))
    grouped: dict[tuple[str | None, str | None, tuple[str, ...], tuple[str, ...]], list[str]] = {}
    same = 0
    for name in sorted({*sides[0], *sides[1]}):
        (old, was), (new, causes) = (side.get(name, (None, ())) for side in sides)
        gone, come = (tuple(sorted({*one} - {*other})) for one, other in ((was, causes), (causes, was)))
        if old == new and not gone and not come:
            same += 1
        else:
            grouped.setdefault((old, new, gone, come), []).append(name)
    turned = (
        Turned(before=old, after=new, gone=gone, new=come, nodes=tuple(names))
        for (old, new, gone, come), names in grouped.items()
    )
    return FleetDifference(
        tool=Tool(name="gpustack", version=__version__, matrix_date=Matrix().date),
        turned=tuple(sorted(turned, key=lambda one: (-len(one.nodes), one.nodes))),
        changed=tuple(sorted(_changed(then, now), key=lambda one: (-len(one.nodes), one.component, one.fact))),
        same=same,
    )


def _verdicts(report: FleetReport) -> dict[str, tuple[str | None, tuple[str, ...]]]:
    found = {name: (one.status.value, one.root_causes) for one in report.classes for name in one.nodes}
    return {**found, **{one.node: ("missing", ()) for one in report.missing}}


def _changed(then: Whole, now: Whole) -> Iterator[Changed]:
    """Yield each fact that is not what it was, with the nodes on which it changed in the same way."""
    known: dict[tuple[object, object], dict[str, tuple[str | None, str | None]]] = {}
    grouped: dict[tuple[str, str, str | None, str | None], list[str]] = {}
    for name in sorted({*then.gathered.seen} & {*now.gathered.seen}):
        layouts = then.gathered.seen[name].layout, now.gathered.seen[name].layout
        if layouts not in known:
            sides = tuple(_facts(*one) for one in zip(layouts, (then.gathered.parts, now.gathered.parts), strict=True))
            both = dict.fromkeys((*sides[0], *sides[1]))
            pairs = {at: (sides[0].get(at), sides[1].get(at)) for at in both}
            known[layouts] = {at: pair for at, pair in pairs.items() if pair[0] != pair[1]}
        for at, (old, new) in known[layouts].items():
            component, _, fact = at.rpartition("/")
            grouped.setdefault((component.strip("/"), fact, old, new), []).append(name)
    kinds: dict[tuple[str, str], int] = {}
    for component, fact, *_ in grouped:
        kinds[component, fact] = kinds.get((component, fact), 0) + 1
    for (component, fact, old, new), names in grouped.items():
        if kinds[component, fact] <= MOST_OF_ONE:
            yield Changed(component=component, fact=fact, before=old, after=new, nodes=tuple(names))


def _facts(layout: tuple[tuple[str, bytes], ...], parts: Mapping[bytes, tuple[tuple[str, str], ...]]) -> dict[str, str]:
    return {f"{at.strip('/')}/{fact}": value for at, part in layout for fact, value in parts.get(part, ())}
