"""What the rating of one figure rests on: its samples with median and spread, its case, and the reasons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cache
from math import sqrt
from statistics import median
from typing import TYPE_CHECKING, Any

from gpustack.model import record
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
CLEARLY = 0.95  # of the usual figure: a lower one is low
SLOWER = 0.95  # of the highest clock: a lower one was held back
CLOCKED = {"compute", "smem", "l2"}  # limits that depend on the multiprocessor clock


class Weight(str, Enum):
    """How a reason affects the rating.

    One that explains is the card's normal state: the figure is compared with the limit at its clock or link. A fault is
    not: it is compared with the card's best. A doubt concerns the limit, and ends the comparison.
    """

    EXPLAINS = "explains"
    FAULT = "fault"
    NOTE = "note"
    DOUBT = "doubt"


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason for a figure, with its evidence and remedy."""

    text: str
    weight: Weight
    advice: Advice | None = None


@record
class Case:
    """Everything that the rating of one figure rests on."""

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
        """The share of the limit that was reached."""
        return self._part_of(self.ceiling.best)

    @property
    def ratio_held(self) -> float | None:
        """The share of the limit at the clock or link held meanwhile."""
        return self._part_of(self.ceiling.held) if self.ceiling.held else self.ratio

    @property
    def usual(self) -> float:
        """The minimum share of the limit that a healthy card reaches."""
        rows = self.architecture.efficiency if self.architecture else {}
        known = rows.get(self.bench) or rows.get(self.limit)
        return known[0] if known else USUAL.get(self.bench, USUAL.get(self.limit, 0.0))

    @property
    def low(self) -> bool:
        """Whether the figure is clearly below the usual one, for whatever reason."""
        return self.ratio is not None and self.ratio < CLEARLY * self.usual

    @property
    def clock_held_back(self) -> bool:
        """Whether the clock stayed clearly below its maximum in a benchmark that depends on it."""
        held, best = self.telemetry.clocks.held, self.device.clock_mhz
        return bool(self.kind in CLOCKED and held and best and held < SLOWER * best)

    @property
    def at_clock(self) -> str:
        """The clock held, in words."""
        return f"{self.telemetry.clocks.held:.0f} of {self.device.clock_mhz:.0f} MHz held"

    def _part_of(self, limit: float | None) -> float | None:
        """Return the share of a limit; for a time, the limit is the smaller number."""
        if not limit or not self.figures.median:
            return None
        return limit / self.figures.median if self.unit in TIMES else self.figures.median / limit


CONFIDENCE, NORMAL = 0.95, 0.98  # and half the deviations of a normal distribution that contain this share
MANY = 1000  # samples from which the binomial distribution is close to normal, and costly to add up
WIDTH = 0.005  # half the interval over the median: what counts as settled
FINE = 0.0025  # the target while time remains: two runs of it differ by less than 1 %
DRIFT = 0.01  # first third to last third: what counts as drifting
LEAST = 6  # with fewer samples the median's interval covers less than 95 %, however close they are
AGREE = 0.01  # of the median: runs further apart are not steady
WORST = (Mark.FAILED, Mark.LOW, Mark.UNSTEADY, Mark.OK, Mark.SKIPPED)


@record
class Spread:
    """Statistics of samples. ``interval`` contains the true median with 95 % confidence; ``drift`` is relative.

    ``enough`` says whether there are enough samples for the interval.
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
        """The numbers that are also fields of a result, by name."""
        return {one: getattr(self, one) for one in ("median", "p05", "p95", "interval", "steady", "drift")}


def spread(samples: Sequence[float]) -> Spread:
    """Return the statistics of at least one sample, in measurement order."""
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
    """Return whether the median is known to this precision, half a percent by default."""
    if len(samples) < LEAST:
        return False
    ordered = sorted(samples)
    low, high = interval(ordered)
    return (high - low) / 2 <= width * abs(quantile(ordered, 0.5))


def quantile(ordered: Sequence[float], part: float) -> float:
    """Return the quantile of ordered samples, interpolated linearly."""
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
    """Return the change from the median of the first third to that of the last, relative to the overall median."""
    third = len(samples) // 3
    middle = quantile(sorted(samples), 0.5)
    if not third or not middle:
        return 0.0
    first, last = sorted(samples[:third]), sorted(samples[-third:])
    return (quantile(last, 0.5) - quantile(first, 0.5)) / middle


@cache
def _left_out(count: int) -> int:
    """Return how many samples can be dropped at each end with the rest still covering the median."""
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
    """Return one result for each benchmark and GPU, in order of first occurrence."""
    groups: dict[tuple[str, int | None, tuple[int, ...]], list[Result]] = {}
    for result in results:
        groups.setdefault((result.id, result.device, result.gpus), []).append(result)
    return tuple(_one(group) if len(group) > 1 else group[0] for group in groups.values())


def _one(group: Sequence[Result]) -> Result:
    """Merge the runs of one figure; a failed run decides, a skipped one does not count."""
    failed = next((one for one in group if one.verdict is Mark.FAILED), None)
    known = [(one.value, one) for one in group if one.value is not None]
    if failed or not known:
        return failed or group[0]
    values = tuple(value for value, _ in known)
    middle = sorted(known, key=lambda row: row[0])[(len(known) - 1) // 2][1]
    return _joined(middle, [one for _, one in known], values)


def _joined(middle: Result, runs: Sequence[Result], values: tuple[float, ...]) -> Result:
    """Return the median run with the figures of all; its rating is the worst of theirs."""
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
    """Return the share of the limit for the median of all runs, scaled from the median run's."""
    if ratio is None or not middle.value or not value:
        return None
    return ratio * (middle.value / value if middle.lower_is_better else value / middle.value)
