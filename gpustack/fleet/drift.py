"""Which nodes differ from their kind: nodes by their facts, GPUs by their figures (median and MAD).

A figure is low if it is more than 3.5 robust deviations (0.6745 (x - median) / MAD) below the median of its kind under
its driver branch *and* below it by at least 3 %, or by the figure's own 5 to 95 % interval if that is wider. Simulated
over 80 000 GPUs with 20 figures each, MAD alone flagged 12 % of the GPUs, both together 4.5 %, and both in two
measurements 0.01 %. Fewer than eight nodes have no statistics; the physical ceiling counts instead.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from gpustack.model.fleet import Drift, Figures, Low, Odd, Outlier

COPY = re.compile(r"\[[^\[\]]+\]")
LEAST_ALIKE = 3  # two that differ have no majority
MAJORITY = 0.5  # more than this share of the nodes have the usual value
MOST_VALUES = 8  # of odd nodes; a fact with more values is individual to each node


Layout = tuple[tuple[str, bytes], ...]  # each part's place in a machine, and its digest
Part = tuple[tuple[str, str], ...]  # facts and their values


def drifts(kind: str, twins: Mapping[Layout, Sequence[str]], parts: Mapping[bytes, Part]) -> Iterator[Drift]:
    """Yield each fact that differs among nodes of one kind; ``twins`` are the nodes of each layout."""
    total = sum(map(len, twins.values()))
    if total < LEAST_ALIKE:
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
    """Yield each place where nodes have different parts, and the nodes with each part; ``b""``: none."""
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
    """Return the usual value and the nodes with another; none if all agree, few have it, or each has its own."""
    usual = max(values, key=lambda one: len(values[one]), default=None)
    if len(values) < 2 or len(values) > MOST_VALUES or len(values[usual]) <= total * MAJORITY:  # noqa: PLR2004 - all alike
        return None, ()
    others = sorted((str(value), value) for value in values if value != usual)
    return usual, tuple(Odd(value=value, nodes=tuple(sorted(values[value]))) for _, value in others)


def gathered(found: Sequence[Drift]) -> tuple[Drift, ...]:
    """Return drifts, the rarest first: few odd nodes are a mistake, many are an upgrade in progress."""
    return tuple(sorted(found, key=lambda one: (sum(len(odd.nodes) for odd in one.odd), one.component, one.fact)))


LEAST_NODES = 8
DEVIATIONS = 3.5
CONSISTENT = 0.6745  # MAD of a normal distribution, in standard deviations
FLOOR = 0.03
BINS = 48
TIMES = frozenset({"s", "ms", "us", "µs", "ns"})
MEASURED = frozenset({"ok", "low"})
Value = Any  # decoded JSON
_KNOWN: dict[tuple[int, ...], tuple[int, ...]] = {}  # one object for the GPUs of a million figures


@dataclass(frozen=True, slots=True)
class Measured:
    """One figure of one GPU: ``take`` counts its node's measurements from 1; ``low``: below its ceiling."""

    node: str
    gpus: tuple[int, ...]
    value: float
    spread: float
    take: int
    ratio: float | None
    low: bool


@dataclass(slots=True)
class Sample:
    """All measurements of one figure for one kind and branch, in arrays since there are millions."""

    unit: str
    nodes: list[str] = field(default_factory=list)
    gpus: list[tuple[int, ...]] = field(default_factory=list)
    takes: array[int] = field(default_factory=lambda: array("h"))
    values: array[float] = field(default_factory=lambda: array("d"))
    spreads: array[float] = field(default_factory=lambda: array("f"))
    ratios: array[float] = field(default_factory=lambda: array("f"))
    lows: array[int] = field(default_factory=lambda: array("b"))

    def add(self, one: Measured) -> None:
        """Add one measurement."""
        self.nodes.append(one.node)
        self.gpus.append(one.gpus)
        self.takes.append(one.take)
        self.values.append(one.value)
        self.spreads.append(one.spread)
        self.ratios.append(-1.0 if one.ratio is None else one.ratio)
        self.lows.append(one.low)


def taken(node: str, take: int, said: Mapping[str, Value]) -> Iterator[tuple[str, str, Measured]]:
    """Yield the figures of a decoded bench report with ids and units, without failed or skipped ones."""
    for result in said.get("results") or ():
        value = result.get("median") or result.get("value")
        if result.get("verdict") not in MEASURED or not isinstance(value, int | float) or value <= 0:
            continue
        low, high = result.get("interval") or (result.get("p05"), result.get("p95"))
        known = isinstance(low, int | float) and isinstance(high, int | float)
        device, ratio = result.get("device"), result.get("ratio")
        gpus = tuple(result.get("gpus") or ()) or (() if device is None else (device,))
        yield (
            str(result.get("id")),
            str(result.get("unit") or ""),
            Measured(
                node=node,
                gpus=_KNOWN.setdefault(gpus, gpus),
                value=float(value),
                spread=(high - low) / value if known else 0.0,
                take=take,
                ratio=float(ratio) if isinstance(ratio, int | float) else None,
                low=result.get("verdict") == "low",
            ),
        )


def judged(id_: str, kind: str, branch: str, sample: Sample) -> Figures:
    """Return one figure of a kind with its outliers."""
    first = [value for value, take in zip(sample.values, sample.takes, strict=True) if take == 1] or list(sample.values)
    middle = median(first)
    mad = median(abs(value - middle) for value in first)
    sign = -1.0 if sample.unit in TIMES else 1.0
    few = len(set(sample.nodes)) < LEAST_NODES
    return Figures(
        id=id_,
        kind=kind,
        branch=branch,
        unit=sample.unit,
        gpus=len(first),
        median=middle,
        mad=mad,
        least=min(first),
        greatest=max(first),
        bins=_bins(first),
        outliers=tuple(_outliers(sample, middle, mad, sign, few=few)),
    )


def _bins(values: Sequence[float]) -> tuple[int, ...]:
    """Return the counts of values in equal intervals of their range."""
    least, span = min(values), max(values) - min(values)
    bins = [0] * BINS
    for value in values if span else ():
        bins[min(BINS - 1, int((value - least) / span * BINS))] += 1
    return tuple(bins) if span else ()


def _outliers(sample: Sample, middle: float, mad: float, sign: float, *, few: bool) -> Iterator[Outlier]:
    """Yield each GPU that was low in all of its measurements, or suspect after only one."""
    deviation = mad / CONSISTENT
    below: dict[tuple[str, tuple[int, ...]], list[tuple[bool, float, float]]] = {}
    for place, value in enumerate(sample.values):
        key = (sample.nodes[place], sample.gpus[place])
        if few:
            wrong, ratio = bool(sample.lows[place]), sample.ratios[place]
        else:
            gap = sign * (middle - value) / middle
            wrong = gap >= max(FLOOR, sample.spreads[place]) and sign * (middle - value) > DEVIATIONS * deviation
            ratio = value / middle
        if wrong or key in below:
            below.setdefault(key, []).append((wrong, value, ratio))
    takes = _counted(sample, set(below))
    for (node, gpus), found in below.items():
        if not all(wrong for wrong, _, _ in found) or len(found) < takes[node, gpus]:
            continue
        _, value, ratio = found[-1]
        yield Outlier(
            node=node,
            gpus=gpus,
            value=value,
            ratio=ratio,
            of="ceiling" if few else "median",
            verdict=Low.LOW if len(found) > 1 else Low.SUSPECT,
            measured=len(found),
        )


def _counted(sample: Sample, wanted: set[tuple[str, tuple[int, ...]]]) -> dict[tuple[str, tuple[int, ...]], int]:
    """Return how often each of these GPUs was measured."""
    counted: dict[tuple[str, tuple[int, ...]], int] = {}
    for key in zip(sample.nodes, sample.gpus, strict=True):
        if key in wanted:
            counted[key] = counted.get(key, 0) + 1
    return counted


def named(found: Sequence[Figures], verdict: Low) -> tuple[str, ...]:
    """Return the nodes with a figure rated this way."""
    return tuple(sorted({one.node for each in found for one in each.outliers if one.verdict is verdict}))
