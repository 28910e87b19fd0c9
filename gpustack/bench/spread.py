"""Statistics of samples: the median, how sure it is, and whether the samples wander."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import sqrt

CONFIDENCE, NORMAL = 0.95, 0.98  # and half the deviations of a normal distribution that hold so much of it
MANY = 1000  # samples: from there on the binomial distribution is as good as normal, and dear to add up
WIDTH = 0.005  # half the interval over the median: what counts as settled
FINE = 0.0025  # and what sampling goes on for while there is time: two runs of it differ by less than 1 %
DRIFT = 0.01  # first third to last third: what counts as wandering
LEAST = 6  # with fewer samples the interval of the median has less than 95 %, however close they are


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


def spread(samples: Sequence[float]) -> Spread:
    """Give the statistics of samples, of which there must be at least one; they are in the order of their taking."""
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
    """Give the value below which this part of the ordered samples lies, between two of them by proportion."""
    place = part * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    if ordered[below] == ordered[above]:
        return ordered[below]
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def interval(ordered: Sequence[float]) -> tuple[float, float]:
    """Give the two samples between which the true median lies with 95 % confidence, whatever the distribution.

    Each sample is above the true median with probability one half, so the count of those below it is binomial.
    """
    out = _left_out(len(ordered))
    return ordered[out], ordered[len(ordered) - 1 - out]


def drift(samples: Sequence[float]) -> float:
    """Give the change from the median of the first third to that of the last, relative to the median of all."""
    third = len(samples) // 3
    middle = quantile(sorted(samples), 0.5)
    if not third or not middle:
        return 0.0
    first, last = sorted(samples[:third]), sorted(samples[-third:])
    return (quantile(last, 0.5) - quantile(first, 0.5)) / middle


@cache
def _left_out(count: int) -> int:
    """Give how many samples at each end may be left out and the rest still hold the median with our confidence."""
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
