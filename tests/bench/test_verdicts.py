"""How reasons affect a verdict: which measurements are low, which are explained, and which are not judged."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from gpustack.bench.case import spread
from gpustack.bench.ceilings import Ceiling
from gpustack.bench.reasons import Verdict, explain, judge
from gpustack.model.bench import Clocks, Link, Mark, Power, Telemetry, Temperature, Throttle
from tests.bench.cases import at, copy, memory, product, steady

if TYPE_CHECKING:
    from gpustack.bench.case import Case


@pytest.mark.parametrize("case", [product(990.0), copy(), memory()])
def test_a_healthy_card_is_ok_and_needs_no_words(case: Case) -> None:
    assert judge(case) == Verdict(mark=Mark.OK, why=())


def test_a_low_figure_that_nothing_explains_is_low() -> None:
    seen = judge(memory(3000.0))
    assert seen == Verdict(mark=Mark.LOW, why=("62% of the limit, 87% is the usual minimum",))


def test_a_figure_a_little_below_the_usual_is_not_clearly_low() -> None:
    assert judge(memory(0.84 * 4814.3)).mark is Mark.OK


def test_samples_that_waver_fail_nobody() -> None:
    seen = judge(replace(copy(20.0), figures=spread([10.0, 30.0, 20.0] * 5)))
    assert seen.mark is Mark.UNSTEADY
    assert seen.why[0] == "not steady: the median is known to 50.0% with 95 % confidence"
    few = judge(replace(copy(20.0), figures=spread([20.0, 20.0])))
    assert few.mark is Mark.UNSTEADY
    assert "too few samples" in few.why[0]


def test_samples_that_drift_are_not_steady_however_close_they_are() -> None:
    falling = spread([100.0 - 0.2 * step for step in range(30)])
    seen = judge(replace(copy(), figures=falling))
    assert seen.mark is Mark.UNSTEADY
    assert seen.why[0].startswith("not steady: drifting, by -4")
    slight = spread([100.0 - 0.01 * step for step in range(30)])
    assert slight.steady


def test_a_figure_above_its_limit_is_not_judged() -> None:
    seen = judge(copy(80.0))
    assert seen.mark is Mark.OK
    assert "doubtful" in seen.why[0]


def test_a_power_bound_product_is_ok_with_clock_and_watts() -> None:
    case = product(
        740.0,
        held=1605.0,
        power=Power(watts=at(698.0), limit=700.0, default_limit=700.0),
        throttle=Throttle(mask=0x4, reasons=("power cap",)),
    )
    assert judge(case) == Verdict(mark=Mark.OK, why=("power-bound: 1605 of 1980 MHz held, 698 of 700 W",))


def test_the_same_work_without_rest_has_reasons_of_its_own() -> None:
    burst = product(990.0)
    held = Telemetry(
        readings=80,
        clocks=Clocks(held=1410.0, sm=at(1410.0)),
        power=Power(watts=at(699.0), limit=700.0, default_limit=700.0),
        throttle=Throttle(mask=0x4),
    )
    assert judge(burst).why == ()
    assert explain(burst, held) == ("power-bound: 1410 of 1980 MHz held, 699 of 700 W",)


def test_a_fault_is_not_an_excuse_and_brings_what_to_do() -> None:
    hot = Temperature(gpu=at(88.0), slowdown=89.0)
    seen = judge(product(500.0, held=1050.0, throttle=Throttle(mask=0x40), temperature=hot))
    assert seen.mark is Mark.LOW
    assert seen.why[1] == "thermal slowdown: 88 °C, slows down from 89 °C, 1050 of 1980 MHz held"
    (advice,) = seen.advice
    assert "airflow" in advice.text
    assert advice.commands[0].startswith("nvidia-smi -q -d TEMPERATURE")


def test_a_narrow_link_is_low_with_its_reason() -> None:
    seen = judge(copy(27.5, Link(generation=5, width=8, max_generation=5, max_width=16)))
    assert seen.mark is Mark.LOW
    assert seen.why == ("48% of the limit, 88% is the usual minimum", "PCIe 5.0 x8 under load, 5.0 x16 is possible")


def test_two_reasons_with_one_advice_give_it_once() -> None:
    seen = judge(product(500.0, held=1050.0, throttle=Throttle(mask=0x88)))
    assert len(seen.advice) == 1


def test_another_process_at_work_makes_a_figure_low_and_is_named_as_the_cause() -> None:
    seen = judge(memory(2300.0, processes=("4242 python, 3.1 GiB",), others_percent=97.0))
    assert seen.mark is Mark.LOW
    assert seen.why[1] == "also computing on this GPU: 4242 python, 3.1 GiB"


def test_without_a_limit_nothing_is_low() -> None:
    case = replace(copy(1.0), ceiling=Ceiling(best=None, held=None, source="unknown"))
    assert judge(case).mark is Mark.OK


def test_of_a_time_less_is_better() -> None:
    limit = Ceiling(best=2.0, held=None, source="")
    slow = replace(copy(8.0), unit="µs", bench="launch.kernel", limit="launch", ceiling=limit, figures=steady(8.0))
    assert slow.ratio == pytest.approx(0.25)
    fast = replace(slow, figures=steady(2.0))
    assert fast.ratio == pytest.approx(1.0)


def test_an_unknown_architecture_is_held_to_what_is_usual_everywhere() -> None:
    assert judge(copy(0.80 * 57.6)).mark is Mark.LOW
    assert judge(replace(product(400.0), architecture=None)).mark is Mark.LOW
    assert replace(memory(), bench="hbm.new", limit="new", architecture=None).usual == 0.0
