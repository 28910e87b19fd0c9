"""The statistics of samples, compared with what is known about medians."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpustack.bench.case import LEAST, drift, interval, quantile, settled, spread

SAMPLES = st.lists(st.floats(min_value=1e-3, max_value=1e6), min_size=1, max_size=200)


@given(SAMPLES)
def test_the_numbers_lie_in_their_order(samples: list[float]) -> None:
    seen = spread(samples)
    assert min(samples) <= seen.p05 <= seen.median <= seen.p95 <= max(samples)
    assert seen.interval[0] <= seen.median <= seen.interval[1]
    assert set(seen.interval) <= set(samples)
    assert seen.enough == (len(samples) >= LEAST)


@given(SAMPLES, st.randoms())
def test_order_matters_to_the_drift_alone(samples: list[float], chance: object) -> None:
    mixed = list(samples)
    chance.shuffle(mixed)  # type: ignore[attr-defined]  # hypothesis gives a random.Random under a type of its own
    one, other = spread(samples), spread(mixed)
    assert (one.median, one.p05, one.p95, one.interval) == (other.median, other.p05, other.p95, other.interval)


@given(st.floats(min_value=1e-3, max_value=1e6), st.integers(min_value=LEAST, max_value=50))
def test_samples_that_are_all_the_same_are_steady(value: float, count: int) -> None:
    seen = spread([value] * count)
    assert seen.steady
    assert (seen.median, seen.interval, seen.drift) == (value, (value, value), 0.0)


def test_few_samples_are_never_settled_however_close() -> None:
    assert not settled([1.0] * (LEAST - 1))
    assert not spread([1.0] * (LEAST - 1)).steady


# From tables of the sign test: the ranks between which the median lies with 95 % confidence.
@pytest.mark.parametrize(
    ("count", "low", "high"), [(6, 1, 6), (9, 2, 8), (12, 3, 10), (15, 4, 12), (20, 6, 15), (25, 8, 18), (100, 40, 61)]
)
def test_the_interval_of_the_median_is_that_of_the_tables(count: int, low: int, high: int) -> None:
    assert interval(list(map(float, range(1, count + 1)))) == (low, high)


def sides(count: int) -> tuple[float, float]:
    """Return the probability that the true median is outside the interval, and outside one narrower by a sample."""
    low = int(interval(list(map(float, range(count))))[0])
    ways, tail = 1, 1
    for place in range(1, low + 1):
        ways = ways * (count - place + 1) // place
        tail += ways
    more = ways * (count - low) // (low + 1)
    return 2 * tail / 2**count, 2 * (tail + 2 * more) / 2**count


@pytest.mark.parametrize("count", [999, 1000, 1001, 1837, 20_000])
def test_the_interval_of_many_samples_holds_the_median_as_surely_and_is_hardly_wider(count: int) -> None:
    out, less = sides(count)
    assert out <= 0.05 < less


def test_the_interval_of_a_million_samples_is_there_at_once() -> None:
    low, high = interval(range(1_000_001))
    assert (low, high) == (499_019, 500_981)


def test_a_wide_spread_is_not_settled() -> None:
    assert settled([100.0, 100.1, 99.9, 100.0, 100.1, 99.9])
    assert not settled([100.0, 102.0, 98.0, 100.0, 102.0, 98.0])


def test_many_samples_that_fall_by_more_than_a_percent_are_settled_and_not_steady() -> None:
    falling = [101.0 - 0.002 * step for step in range(1000)]
    assert settled(falling)
    assert not spread(falling).steady
    assert spread(falling[::2][:250]).steady


def test_a_slow_fall_is_drift_and_not_steady() -> None:
    falling = [100.0 - 0.1 * step for step in range(300)]
    assert drift(falling) == pytest.approx(-20 / 85.05, rel=1e-3)
    assert not spread(falling).steady
    assert drift([1.0, 2.0]) == 0.0
    assert drift([0.0, 0.0, 0.0]) == 0.0


def test_a_quantile_between_two_samples_is_their_share() -> None:
    assert quantile([1.0, 2.0, 3.0, 4.0], 0.5) == 2.5
    assert quantile([1.0], 0.95) == 1.0
    assert quantile([0.0, 10.0], 0.05) == pytest.approx(0.5)
