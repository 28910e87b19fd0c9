"""How long sampling continues: until the median is precise enough, or the time is up."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count, cycle, islice
from typing import TYPE_CHECKING, cast

import pytest

from gpustack.bench import timing
from gpustack.bench.case import settled
from gpustack.bench.timing import Plan, Train, gather

if TYPE_CHECKING:
    from gpustack.bench.lab import Job
    from gpustack.bench.telemetry import Telemetry
    from gpustack.bench.timing import Timer


def taken(seconds: list[float], plan: Plan) -> list[float]:
    """Return the samples taken of work whose trains take these seconds, repeatedly."""
    trains = cycle(seconds)
    return gather(lambda: Train(next(trains), None), 1, plan, lambda _: None).seconds


def test_what_agrees_at_once_is_sampled_no_more_often_than_requested() -> None:
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


@dataclass
class Hall:
    """A card that slows down as it works, and its clock: time passes only while the card works."""

    now: float = 100.0

    def monotonic(self) -> float:
        return self.now

    def run(self) -> None:
        raise AssertionError("the timer runs the work")

    def train(self, _run: object, runs: int) -> Train:
        each = 0.010 if self.now < 101.0 else 0.0125
        self.now += runs * each
        return Train(each, 1980.0)

    def window(self, begun: float, ended: float) -> list[dict[str, float]]:
        return [{"begun": begun, "ended": ended}]

    def counters(self) -> dict[str, float]:
        return {"at": self.now}


def test_work_without_rest_never_sleeps_and_tells_of_its_last_half(monkeypatch: pytest.MonkeyPatch) -> None:
    hall = Hall()
    monkeypatch.setattr(timing, "time", hall)  # it never sleeps
    parts: list[float] = []
    said = timing.hold(cast("Job", hall), 4.0, cast("Timer", hall), cast("Telemetry", hall), parts.append)
    assert set(said["seconds"]) == {0.0125}
    assert sum(said["seconds"]) * 20 == pytest.approx(2.0, abs=0.3)  # 20 products make a train of 0.2 s
    (window,) = said["readings"]
    assert (window["begun"], window["ended"]) == (said["before"]["at"], said["after"]["at"])
    assert window["begun"] == pytest.approx(102.0, abs=0.3)
    assert said["asked"] == 4.0
    assert parts[-1] == pytest.approx(1.0, abs=0.1)
