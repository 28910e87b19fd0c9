"""Judge all recorded nodes together: twins once, facts against the majority, figures against their kind."""

from __future__ import annotations

import os
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from gpustack import plugins
from gpustack.fleet import drift, launching, looking, nodes
from gpustack.matrix import Matrix
from gpustack.model import record
from gpustack.model.fleet import Changed, Drift, FleetDifference, FleetReport, Missing, NodeClass, Turned
from gpustack.model.report import Health

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from gpustack.fleet.looking import Said, Seen

BATCH = 32  # nodes per batch for a process
FEW = 64  # below this many nodes, no further process is started


@dataclass(slots=True)
class Gathered:
    """Everything known about all nodes so far."""

    seen: dict[str, Seen] = field(default_factory=dict)
    parts: dict[bytes, drift.Part] = field(default_factory=dict)
    layouts: dict[drift.Layout, drift.Layout] = field(default_factory=dict)
    unread: list[Missing] = field(default_factory=list)
    samples: dict[tuple[str, str, str], drift.Sample] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    def add(self, one: Seen) -> None:
        """Add what is known about one node."""
        if one.why is not None:
            self.missing[one.name] = one.why
            return
        self.parts.update(one.parts)
        self.unread += [Missing(node=one.name, why=why) for why in one.complaints]
        for id_, unit, measured in one.figures:
            key = (id_, one.kind, one.branch)
            self.samples.setdefault(key, drift.Sample(unit)).add(measured)
        layout = self.layouts.setdefault(one.layout, one.layout)  # one object for twins
        self.seen[one.name] = replace(one, layout=layout, parts={}, figures=(), complaints=())


@record
class Whole:
    """A fleet's report and the data behind it."""

    report: FleetReport
    gathered: Gathered


def judge(
    folder: Path,
    *,
    labels: Mapping[str, Mapping[str, str]] | None = None,
    workers: int | None = None,
    progress: Callable[[int, int], object] | None = None,
    called: Callable[[str], str] = str,
    ray: bool = False,
) -> Whole:
    """Return the report on the nodes whose files are in a folder, and the data on each.

    ``called`` returns the name that the report uses for a node. Twins, which differ in nothing that a requirement or
    rule reads, are judged once. Raises InputError if the folder contains no node.
    """
    began = time.monotonic()
    recorded, missing = nodes.look(folder)
    there = [replace(one, name=called(one.name)) for one in recorded]
    whole = Gathered(missing={called(name): why for name, why in missing.items()})
    paths = {one.name: one.snapshot for one in there}
    with _processes(workers, len(there), ray=ray) as spread:
        for batch in spread(partial(looking.look, os.urandom(8)), _batches(there)):
            for one in batch:
                whole.add(one)
            if progress:
                progress(len(whole.seen) + len(whole.missing), len(there))
        firsts = {one.judged: one.name for one in reversed(whole.seen.values())}
        order = sorted(firsts.items(), key=lambda one: one[1])
        asked = [(digest, path) for digest, name in order if (path := paths[name])]
        verdicts = dict(pair for batch in spread(looking.judge, _batches(asked)) for pair in batch)
    classes = tuple(_classes(whole, verdicts))
    report = FleetReport(
        tool=Matrix().tool,
        taken=max((one.taken for one in whole.seen.values()), default=""),
        nodes=len(whole.seen) + len(whole.missing),
        status=_statuses(classes, len(whole.missing)),
        classes=classes,
        drift=drift.gathered([one for kind in _kinds(whole) for one in _drifts(kind, whole)]),
        figures=tuple(drift.judged(*key, sample) for key, sample in sorted(whole.samples.items())),
        missing=tuple(Missing(node=name, why=why) for name, why in sorted(whole.missing.items())),
        unread=tuple(whole.unread),
        labels={
            name: held for name, held in _labels(labels or {}, called) if name in whole.seen or name in whole.missing
        },
        seconds=round(time.monotonic() - began, 3),
    )
    return Whole(report=report, gathered=whole)


def _labels(
    labels: Mapping[str, Mapping[str, str]], called: Callable[[str], str]
) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Yield what a site states about each node; racks and switches are named like nodes."""
    yield from ((called(name), {key: called(one) for key, one in held.items()}) for name, held in labels.items())


class _processes:  # noqa: N801 - used as a function is
    """Return a way to spread work over processes: ``spread(work, batches)`` yields each batch's result, in order.

    With ``ray`` the processes belong to this machine's Ray cluster, where the same folder must exist.
    """

    def __init__(self, workers: int | None, count: int, *, ray: bool) -> None:
        wanted = workers or len(os.sched_getaffinity(0))
        alone, begin = ray or wanted == 1 or count <= FEW, partial(plugins.load, plugins.folders())
        self.pool = None if alone else ProcessPoolExecutor(wanted, initializer=begin)
        self.actors = launching.ray_pool(workers, begin) if ray else None

    def __enter__(self) -> Callable[..., Iterator[Any]]:
        if self.actors is None:
            return self.pool.map if self.pool else map
        imap: Callable[..., Iterator[Any]] = self.actors.imap
        return imap

    def __exit__(self, *_: object) -> None:
        if self.actors:
            self.actors.terminate()
        if self.pool:
            self.pool.shutdown(cancel_futures=True)


def _batches(things: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
    left = iter(things)
    while batch := tuple(islice(left, BATCH)):
        yield batch


def _classes(whole: Gathered, verdicts: Mapping[bytes, Said]) -> Iterator[NodeClass]:
    """Yield the groups of nodes with the same verdict and causes, the worst first, then the largest."""
    grouped: dict[tuple[str, tuple[str, ...], str], list[tuple[str, bytes]]] = {}
    for name, one in whole.seen.items():
        status, _, roots = verdicts[one.judged]
        grouped.setdefault((status, roots, one.kind), []).append((name, one.judged))
    found = [
        NodeClass(
            status=Health(status),
            kind=kind,
            root_causes=roots,
            findings=verdicts[members[0][1]][1],
            nodes=tuple(sorted(name for name, _ in members)),
        )
        for (status, roots, kind), members in grouped.items()
    ]
    yield from sorted(found, key=lambda one: (_rank(one), -one.count, one.nodes))


def _rank(one: NodeClass) -> int:
    order = (Health.BROKEN, Health.UNKNOWN, Health.DEGRADED, Health.NO_GPU, Health.HEALTHY)
    return order.index(one.status)


def _statuses(classes: Sequence[NodeClass], missing: int) -> dict[str, int]:
    counted: Counter[str] = Counter()
    for one in classes:
        counted[one.status.value] += one.count
    counted["missing"] = missing
    return {name: count for name, count in counted.items() if count}


def _kinds(whole: Gathered) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one.kind for one in whole.seen.values()))


def _drifts(kind: str, whole: Gathered) -> Iterator[Drift]:
    twins: dict[drift.Layout, list[str]] = {}
    for name, one in whole.seen.items():
        if one.kind == kind:
            twins.setdefault(one.layout, []).append(name)
    return drift.drifts(kind, twins, whole.parts)


MOST_OF_ONE = 64  # pairs of values; a fact with more changes constantly


def between(before: Path, after: Path, called: Callable[[str], str] = str) -> FleetDifference:
    """Return which nodes changed verdict or causes, and which facts changed on nodes in both collections."""
    then, now = (judge(folder, called=called) for folder in (before, after))
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
        tool=Matrix().tool,
        turned=tuple(sorted(turned, key=lambda one: (-len(one.nodes), one.nodes))),
        changed=tuple(sorted(_changed(then, now), key=lambda one: (-len(one.nodes), one.component, one.fact))),
        same=same,
    )


def _verdicts(report: FleetReport) -> dict[str, tuple[str | None, tuple[str, ...]]]:
    found = {name: (one.status.value, one.root_causes) for one in report.classes for name in one.nodes}
    return {**found, **{one.node: ("missing", ()) for one in report.missing}}


def _changed(then: Whole, now: Whole) -> Iterator[Changed]:
    """Yield each changed fact, with the nodes on which it changed in the same way."""
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
