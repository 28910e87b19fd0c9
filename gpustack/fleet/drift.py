"""In which facts nodes of a kind differ from most of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from gpustack.model.fleet import Drift, Odd

COPY = re.compile(r"\[[^\[\]]+\]")
LEAST_NODES = 3  # two that differ have no majority
MAJORITY = 0.5  # more than this share of the nodes have the usual value
MOST_VALUES = 8  # that odd nodes have; a fact with more is a fact that every node has for itself


Layout = tuple[tuple[str, bytes], ...]  # where each part of a machine stands, and the part's digest
Part = tuple[tuple[str, str], ...]  # facts and their values


def drifts(kind: str, twins: Mapping[Layout, Sequence[str]], parts: Mapping[bytes, Part]) -> Iterator[Drift]:
    """Yield each fact in which nodes of one kind differ; ``twins`` are the nodes of each layout."""
    total = sum(map(len, twins.values()))
    if total < LEAST_NODES:
        return
    merged: dict[tuple[str, str, str | None, tuple[Odd, ...]], list[str]] = {}
    for at, held in _differing(twins):
        place, copy = COPY.sub("", at).strip("/"), COPY.search(at)
        known = [(dict(parts.get(part, ())), names) for part, names in held.items() if part]
        here = {"yes": [name for _, names in known for name in names], None: held.get(b"", [])}
        for fact, values in (*_values(known), ("present", {value: names for value, names in here.items() if names})):
            usual, rest = _odd(values, total)
            if rest:
                merged.setdefault((place, fact, usual, rest), []).append(copy[0].strip("[]") if copy else "")
    for (component, fact, usual, odd_ones), copies in merged.items():
        yield Drift(
            kind=kind,
            component=component,
            fact=fact,
            instances=tuple(filter(None, copies)),
            usual=usual,
            count=total - sum(len(one.nodes) for one in odd_ones),
            odd=odd_ones,
        )


def _differing(twins: Mapping[Layout, Sequence[str]]) -> Iterator[tuple[str, dict[bytes, list[str]]]]:
    """Yield each place at which not all nodes have the same part, and the nodes of each part; ``b""``: none there."""
    places = dict.fromkeys(at for layout in twins for at, _ in layout)
    held: dict[str, dict[bytes, list[str]]] = {at: {} for at in places}
    for layout, names in twins.items():
        there = dict(layout)
        for at in places:
            held[at].setdefault(there.get(at, b""), []).extend(names)
    yield from ((at, parts) for at, parts in held.items() if len(parts) > 1)


def _values(
    known: Sequence[tuple[Mapping[str, str], Sequence[str]]],
) -> Iterator[tuple[str, dict[str | None, list[str]]]]:
    """Yield each fact with its values and the nodes that have them."""
    for fact in dict.fromkeys(name for facts, _ in known for name in facts):
        values: dict[str | None, list[str]] = {}
        for facts, names in known:
            values.setdefault(facts.get(fact), []).extend(names)
        yield fact, values


def _odd(values: Mapping[str | None, Sequence[str]], total: int) -> tuple[str | None, tuple[Odd, ...]]:
    """Return the usual value and who has another: nobody where all have one, few have it, or each has his own."""
    usual = max(values, key=lambda one: len(values[one]), default=None)
    if len(values) < 2 or len(values) > MOST_VALUES or len(values[usual]) <= total * MAJORITY:  # noqa: PLR2004 - all alike
        return None, ()
    others = sorted((str(value), value) for value in values if value != usual)
    return usual, tuple(Odd(value=value, nodes=tuple(sorted(values[value]))) for _, value in others)


def gathered(found: Sequence[Drift]) -> tuple[Drift, ...]:
    """Return drifts, the rarest first: few odd nodes are a mistake, many are an upgrade that is under way."""
    return tuple(sorted(found, key=lambda one: (sum(len(odd.nodes) for odd in one.odd), one.component, one.fact)))
