"""What a verdict on one figure rests on: its samples with median and spread, its case, and what a reason is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cache
from math import sqrt
from statistics import median
from typing import TYPE_CHECKING, Any

from gpustack.model.bench import TIMES, Advice, Device, Mark, Result, Telemetry

if TYPE_CHECKING:
    from gpustack.bench.ceilings import Ceiling
    from gpustack.bench.suite import Part
    from gpustack.model.facts import JsonValue
    from gpustack.model.rows import Architecture

# What is reached of the limit where the architecture has no row: the least of what peers published for sound cards
# (nvbandwidth, gpu-benches, BabelStream, mamf-finder, nccl-tests on V100 to B200; read 2026-11-21).
USUAL = {
    "pcie.h2d": 0.88,
    "pcie.d2h": 0.88,
    "pcie.bidir": 0.87,
    "hbm.read": 0.85,
    "hbm.write": 0.88,
    "hbm.copy": 0.80,
    "hbm.triad": 0.80,
    "smem.read": 0.90,
    "p2p.nvlink": 0.82,
    "nccl.nvlink": 0.72,
    "compute.fp32": 0.60,
    "compute.tf32": 0.55,
    "compute.fp16": 0.60,
    "compute.bf16": 0.60,
}
CLEARLY = 0.95  # of what is usual: below that a figure is low
SLOWER = 0.95  # of the highest clock: below that the clock was held back
CLOCKED = {"compute", "smem", "l2"}  # limits that live by the clock of the multiprocessors


class Weight(str, Enum):
    """What a reason does to the verdict.

    One that explains is the card's ordinary state: the figure is held against the clock or link that it had. A fault
    is not: then it is held against the best that the card could do. A doubt is of the limit, and ends the comparison.
    """

    EXPLAINS = "explains"
    FAULT = "fault"
    NOTE = "note"
    DOUBT = "doubt"


@dataclass(frozen=True, slots=True)
class Reason:
    """One thing to say of a figure, with its evidence, and what to do about it."""

    text: str
    weight: Weight
    advice: Advice | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Everything that a verdict on one figure rests on."""

    bench: str
    limit: str
    figures: Spread
    ceiling: Ceiling
    telemetry: Telemetry
    device: Device
    architecture: Architecture | None
    unit: str = ""
    method: Mapping[str, JsonValue] = field(default_factory=dict)
    part: Part | None = None

    @property
    def kind(self) -> str:
        """The family of the limit: pcie, hbm, compute ..."""
        return self.limit.partition(".")[0]

    @property
    def ratio(self) -> float | None:
        """The part of the limit that was reached."""
        return self._part_of(self.ceiling.best)

    @property
    def ratio_held(self) -> float | None:
        """The part of the limit at the clock, or over the link, that was held meanwhile."""
        return self._part_of(self.ceiling.held) if self.ceiling.held else self.ratio

    @property
    def usual(self) -> float:
        """The least part of the limit that a sound card reaches."""
        rows = self.architecture.efficiency if self.architecture else {}
        known = rows.get(self.bench) or rows.get(self.limit)
        return known[0] if known else USUAL.get(self.bench, USUAL.get(self.limit, 0.0))

    @property
    def low(self) -> bool:
        """Whether the figure is clearly under what is usual, whatever the reason."""
        return self.ratio is not None and self.ratio < CLEARLY * self.usual

    @property
    def clock_held_back(self) -> bool:
        """Whether the clock stayed clearly under its highest in a benchmark that lives by the clock."""
        held, best = self.telemetry.clocks.held, self.device.clock_mhz
        return bool(self.kind in CLOCKED and held and best and held < SLOWER * best)

    @property
    def at_clock(self) -> str:
        """The clock that was held, in words."""
        return f"{self.telemetry.clocks.held:.0f} of {self.device.clock_mhz:.0f} MHz held"

    def _part_of(self, limit: float | None) -> float | None:
        """Return the part of a limit; of a time it is the limit that is the smaller."""
        if not limit or not self.figures.median:
            return None
        return limit / self.figures.median if self.unit in TIMES else self.figures.median / limit


CONFIDENCE, NORMAL = 0.95, 0.98  # and half the deviations of a normal distribution that hold so much of it
MANY = 1000  # samples: from there on the binomial distribution is as good as normal, and dear to add up
WIDTH = 0.005  # half the interval over the median: what counts as settled
FINE = 0.0025  # and what sampling goes on for while there is time: two runs of it differ by less than 1 %
DRIFT = 0.01  # first third to last third: what counts as wandering
LEAST = 6  # with fewer samples the interval of the median has less than 95 %, however close they are
AGREE = 0.01  # of the median: runs that are further apart than that are not steady
WORST = (Mark.FAILED, Mark.LOW, Mark.UNSTEADY, Mark.OK, Mark.SKIPPED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Samples in a few numbers. ``interval`` holds the true median with 95 % confidence; ``drift`` is relative.

    ``enough`` tells whether there are so many samples that the interval can mean what it says.
    """

    median: float
    p05: float
    p95: float
    interval: tuple[float, float]
    drift: float
    steady: bool
    enough: bool

    @property
    def told(self) -> dict[str, Any]:
        """The numbers that a result has too, by their names there."""
        return {one: getattr(self, one) for one in ("median", "p05", "p95", "interval", "steady", "drift")}


def spread(samples: Sequence[float]) -> Spread:
    """Return the statistics of samples, of which there must be at least one; they are in the order of their taking."""
    ordered = sorted(samples)
    return Spread(
        median=quantile(ordered, 0.5),
        p05=quantile(ordered, 0.05),
        p95=quantile(ordered, 0.95),
        interval=interval(ordered),
        drift=drift(samples),
        steady=settled(samples) and abs(drift(samples)) <= DRIFT,
        enough=len(samples) >= LEAST,
    )


def settled(samples: Sequence[float], width: float = WIDTH) -> bool:
    """Tell whether the median is known to this part of it, half a percent unless asked otherwise."""
    if len(samples) < LEAST:
        return False
    ordered = sorted(samples)
    low, high = interval(ordered)
    return (high - low) / 2 <= width * abs(quantile(ordered, 0.5))


def quantile(ordered: Sequence[float], part: float) -> float:
    """Return the value below which this part of the ordered samples lies, between two of them by proportion."""
    place = part * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    if ordered[below] == ordered[above]:
        return ordered[below]
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def interval(ordered: Sequence[float]) -> tuple[float, float]:
    """Return the two samples between which the true median lies with 95 % confidence, whatever the distribution.

    Each sample is above the true median with probability one half, so the count of those below it is binomial.
    """
    out = _left_out(len(ordered))
    return ordered[out], ordered[len(ordered) - 1 - out]


def drift(samples: Sequence[float]) -> float:
    """Return the change from the median of the first third to that of the last, relative to the median of all."""
    third = len(samples) // 3
    middle = quantile(sorted(samples), 0.5)
    if not third or not middle:
        return 0.0
    first, last = sorted(samples[:third]), sorted(samples[-third:])
    return (quantile(last, 0.5) - quantile(first, 0.5)) / middle


@cache
def _left_out(count: int) -> int:
    """Return how many samples at each end may be left out and the rest still hold the median with our confidence."""
    if count > MANY:
        return int((count - 1) / 2 - NORMAL * sqrt(count))
    out, ways, tail = 0, 1, 1
    while out < (count - 1) // 2:
        ways = ways * (count - out) // (out + 1)
        tail += ways
        if 2 * tail / 2**count > 1 - CONFIDENCE:
            break
        out += 1
    return out


def merged(results: Sequence[Result]) -> tuple[Result, ...]:
    """Return one result for each benchmark and GPU, in the order in which they came first."""
    groups: dict[tuple[str, int | None, tuple[int, ...]], list[Result]] = {}
    for result in results:
        groups.setdefault((result.id, result.device, result.gpus), []).append(result)
    return tuple(_one(group) if len(group) > 1 else group[0] for group in groups.values())


def _one(group: Sequence[Result]) -> Result:
    """Join the runs of one figure; a run that failed is the answer of all, one that was skipped is none."""
    failed = next((one for one in group if one.verdict is Mark.FAILED), None)
    known = [(one.value, one) for one in group if one.value is not None]
    if failed or not known:
        return failed or group[0]
    values = tuple(value for value, _ in known)
    middle = sorted(known, key=lambda row: row[0])[(len(known) - 1) // 2][1]
    return _joined(middle, [one for _, one in known], values)


def _joined(middle: Result, runs: Sequence[Result], values: tuple[float, ...]) -> Result:
    """Return the run in the middle with the figures of all; its verdict is the worst of theirs."""
    samples = tuple(sample for one in runs for sample in one.samples)
    whole, value = spread(samples), median(values)
    apart = (max(values) - min(values)) / value if value else 0.0
    steady = all(one.steady for one in runs) and apart <= AGREE
    worst = min((one.verdict for one in runs), key=WORST.index)
    mark = Mark.UNSTEADY if worst is Mark.OK and not steady else worst
    differ = (f"not steady: {len(runs)} runs differ by {apart:.1%}",) if apart > AGREE else ()
    first = next((one for one in runs if one.verdict is worst), middle)
    return replace(
        middle,
        verdict=mark,
        why=(*differ, *first.why),
        advice=first.advice,
        value=value,
        samples=samples,
        **{**whole.told, "median": value, "steady": steady},
        runs=values,
        ratio=_scaled(middle, middle.ratio, value),
        ratio_held=_scaled(middle, middle.ratio_held, value),
        seconds=sum(one.seconds for one in runs),
    )


def _scaled(middle: Result, ratio: float | None, value: float) -> float | None:
    """Return the part of the limit for the median of all runs, as that of the one in the middle is known."""
    if ratio is None or not middle.value or not value:
        return None
    return ratio * (middle.value / value if middle.lower_is_better else value / middle.value)
