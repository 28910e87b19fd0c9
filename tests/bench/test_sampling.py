"""How long sampling goes on: until the median is known finely, or the time is out."""

from __future__ import annotations

from itertools import count, cycle, islice

import pytest

from gpustack.bench.spread import settled
from gpustack.bench.timing import Plan, Train, gather


def taken(seconds: list[float], plan: Plan) -> list[float]:
    """Give the samples that are taken of work whose trains take these seconds, over and over."""
    trains = cycle(seconds)
    return gather(lambda: Train(next(trains), None), 1, plan, lambda _: None).seconds


def test_what_agrees_at_once_is_sampled_no_oftener_than_asked() -> None:
    assert len(taken([1.0, 1.0001, 0.9999], Plan(budget=60.0, least=12))) == 12


def test_a_median_that_is_known_to_half_a_percent_only_is_sampled_on_while_there_is_time() -> None:
    wavering = [1.0] * 5 + [1.004, 0.996] * 4
    few = list(islice(cycle(wavering), 13))
    assert settled(few)
    more = taken(wavering, Plan(budget=60.0, least=13))
    assert len(more) > len(few)
    assert settled(more, 0.0025)


@pytest.mark.parametrize("budget", [0.005, 0.02])
def test_what_never_agrees_ends_with_its_time(budget: float) -> None:
    wild = (1.0 + number % 7 for number in count())
    samples = gather(lambda: Train(next(wild), None), 1, Plan(budget=budget, rest=0.001), lambda _: None)
    assert 1 <= len(samples.trains) <= 100


def test_what_drifts_is_sampled_until_the_most() -> None:
    rising = iter([1.0 + 0.003 * number for number in range(50)])
    assert len(gather(lambda: Train(next(rising), None), 1, Plan(budget=60.0, most=50), lambda _: None).trains) == 50
