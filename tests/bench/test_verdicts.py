"""Each rule of the verdict, where it speaks and where it is silent."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpustack.bench import verdicts
from gpustack.bench.ceilings import Ceiling
from gpustack.bench.spread import Spread, spread
from gpustack.bench.verdicts import Case, Verdict, judge
from gpustack.matrix import Matrix
from gpustack.model.bench import Clocks, Ecc, Link, Mark, Power, Span, Telemetry, Temperature, Throttle
from gpustack.model.versions import ComputeCapability
from tests.bench.test_ceilings import H200


def steady(value: float) -> Spread:
    return spread([value] * 12)


def at(value: float) -> Span:
    return Span(low=value, median=value, high=value)


def product(value: float = 800.0, held: float | None = 1980.0, **telemetry: object) -> Case:
    """Give a matrix product in bf16 on an H200 that held this clock, its other readings being those of a sound card."""
    known: dict[str, object] = {
        "clocks": Clocks(held=held, sm=at(1980.0)),
        "power": Power(watts=at(450.0), limit=700.0, default_limit=700.0),
        **telemetry,
    }
    best = 132 * 4096 * 1980e6 / 1e12
    return Case(
        bench="gemm.bf16",
        limit="compute.bf16",
        figures=steady(value),
        ceiling=Ceiling(best=best, held=best * held / 1980 if held else None, source=""),
        telemetry=replace(Telemetry(readings=12), **known),  # type: ignore[arg-type]  # each test names real fields
        device=H200,
        architecture=Matrix().arch(ComputeCapability(9, 0)),
    )


def copy(value: float = 55.5, link: Link | None = None, **more: object) -> Case:
    """Give a copy over a link of generation 5 with 16 lanes."""
    seen = link or Link(generation=5, width=16, max_generation=5, max_width=16, replays=0)
    part = (seen.width or 16) / 16
    known = Case(
        bench="pcie.d2h.pinned",
        limit="pcie.d2h",
        figures=steady(value),
        ceiling=Ceiling(best=57.6, held=57.6 * part, source=""),
        telemetry=Telemetry(readings=12, link=seen),
        device=H200,
        architecture=None,
    )
    return replace(known, **more)  # type: ignore[arg-type]  # each test names real fields


def memory(value: float = 4610.0, **telemetry: object) -> Case:
    known = replace(Telemetry(readings=12, clocks=Clocks(memory=at(3201.0))), **telemetry)  # type: ignore[arg-type]  # each test names real fields
    loaded = known.clocks.memory.median if known.clocks.memory else 3201.0
    return Case(
        bench="hbm.read",
        limit="hbm",
        figures=steady(value),
        ceiling=Ceiling(best=4814.3, held=4814.3 * loaded / 3201, source=""),
        telemetry=known,
        device=H200,
        architecture=Matrix().arch(ComputeCapability(9, 0)),
    )


@pytest.mark.parametrize("case", [product(990.0), copy(), memory()])
def test_a_sound_card_is_ok_and_needs_no_words(case: Case) -> None:
    assert judge(case) == Verdict(mark=Mark.OK, why=())


def test_a_low_figure_that_nothing_explains_is_low() -> None:
    seen = judge(memory(3000.0))
    assert seen.mark is Mark.LOW
    assert seen.why == ("62% of the limit, 87% is usual at least",)


def test_a_figure_a_little_below_the_usual_is_not_clearly_low() -> None:
    assert judge(memory(0.84 * 4814.3)).mark is Mark.OK


def test_samples_that_waver_fail_nobody() -> None:
    case = replace(copy(20.0), figures=spread([10.0, 30.0, 20.0] * 5))
    seen = judge(case)
    assert seen.mark is Mark.UNSTEADY
    assert seen.why[0].startswith("not steady: the median is known to")
    few = judge(replace(copy(20.0), figures=spread([20.0, 20.0])))
    assert few.mark is Mark.UNSTEADY
    assert "too few samples" in few.why[0]


def test_more_than_the_limit_is_doubt_of_the_report() -> None:
    seen = judge(copy(80.0))
    assert seen.mark is Mark.OK
    assert "doubtful" in seen.why[0]
    assert verdicts.beyond(copy(57.7)) is None
    assert verdicts.beyond(replace(copy(80.0), ceiling=Ceiling(best=None, held=None, source=""))) is None


def test_a_power_bound_product_is_ok_with_clock_and_watts() -> None:
    case = product(
        740.0,
        held=1605.0,
        power=Power(watts=at(698.0), limit=700.0, default_limit=700.0),
        throttle=Throttle(mask=0x4, reasons=("power cap",)),
    )
    assert judge(case) == Verdict(mark=Mark.OK, why=("power-bound: 1605 of 1980 MHz held, 698 of 700 W",))


def test_power_near_the_limit_is_enough_without_the_bit_and_a_lowered_limit_is_said() -> None:
    case = product(600.0, held=1300.0, power=Power(watts=at(495.0), limit=500.0, default_limit=700.0))
    (why,) = judge(case).why
    assert why == "power-bound: 1300 of 1980 MHz held, 495 of 500 W (the card's own limit is 700 W)"


def test_the_power_bit_at_full_clock_says_nothing() -> None:
    assert verdicts.power(product(throttle=Throttle(mask=0x4))) is None
    assert verdicts.power(product(held=None, throttle=Throttle(mask=0x4))) is None
    burst = verdicts.power(product(held=1569.0, throttle=Throttle(mask=0x4)))
    assert burst == verdicts.Reason("power-bound: 1569 of 1980 MHz held", verdicts.Weight.EXPLAINS)


def test_heat_is_a_fault_and_the_figure_is_held_against_the_best() -> None:
    hot = Temperature(gpu=at(88.0), slowdown=89.0)
    seen = judge(product(500.0, held=1050.0, throttle=Throttle(mask=0x40), temperature=hot))
    assert seen.mark is Mark.LOW
    assert seen.why[1] == "thermal slowdown: 88 °C, slows down from 89 °C, 1050 of 1980 MHz held"
    unknown = verdicts.thermal(product(throttle=Throttle(mask=0x20)))
    assert unknown
    assert unknown.text == "thermal slowdown: temperature unknown"
    assert verdicts.thermal(product(temperature=hot)) is None


@pytest.mark.parametrize(
    ("mask", "says"),
    [(0x80, "power brake"), (0x88, "power brake"), (0x8, "hardware slowdown"), (0x48, None), (0, None)],
)
def test_the_board_asks_for_less(mask: int, says: str | None) -> None:
    seen = verdicts.hardware(product(throttle=Throttle(mask=mask)))
    assert (seen is None) if says is None else (seen is not None and seen.text.startswith(says))


def test_clocks_set_lower_explain_a_figure() -> None:
    case = product(620.0, held=1410.0, throttle=Throttle(mask=0x2))
    assert judge(case) == Verdict(mark=Mark.OK, why=("the clocks were set lower: 1410 of 1980 MHz held",))


def test_a_low_clock_without_a_reason_may_be_locked() -> None:
    seen = judge(product(620.0, held=1410.0, clocks=Clocks(held=1410.0, sm=at(1410.0))))
    assert seen.mark is Mark.LOW
    assert "may be locked: 1410 of 1980 MHz held" in seen.why[1]
    assert verdicts.locked(product(held=1410.0, clocks=Clocks(held=1410.0))) is not None


def test_a_clock_that_falls_under_load_alone_is_power_management() -> None:
    """Seen on an H200, 2026-11-21: bursts of tf32 held 1642 MHz, NVML read 1980 and no reason."""
    seen = judge(product(820.0, held=1642.0))
    assert seen == Verdict(mark=Mark.OK, why=("power-bound: 1642 of 1980 MHz held",))


def test_copies_and_memory_do_not_live_by_the_clock() -> None:
    assert verdicts.locked(memory(clocks=Clocks(held=345.0, memory=at(3201.0)))) is None


@pytest.mark.parametrize(
    ("loaded", "mark", "says"), [(3121.0, Mark.OK, 1), (1600.0, Mark.LOW, 2), (3201.0, Mark.OK, 0)]
)
def test_a_slow_memory_clock_is_named(loaded: float, mark: Mark, says: int) -> None:
    value = 4610.0 * loaded / 3201
    seen = judge(memory(value, clocks=Clocks(memory=at(loaded))))
    assert (seen.mark, len(seen.why)) == (mark, says)
    assert not says or seen.why[-1] == f"memory clock {loaded:.0f} of 3201 MHz under load"


def test_a_narrow_link_is_low_with_its_reason() -> None:
    seen = judge(copy(27.5, Link(generation=5, width=8, max_generation=5, max_width=16)))
    assert seen.mark is Mark.LOW
    assert seen.why[1] == "PCIe 5.0 x8 under load, 5.0 x16 is possible"
    slow = verdicts.link(copy(link=Link(generation=1, width=16, max_generation=5, max_width=16)))
    assert slow
    assert "PCIe 1.0 x16" in slow.text
    assert verdicts.link(copy(link=Link())) is None
    assert verdicts.link(memory(link=Link(generation=1, width=1, max_generation=5, max_width=16))) is None


def test_replays_and_memory_errors_are_worth_a_word() -> None:
    again = judge(copy(link=Link(generation=5, width=16, max_generation=5, max_width=16, replays=7)))
    assert again == Verdict(mark=Mark.OK, why=("7 PCIe packets had to be sent again",))
    corrected = judge(memory(ecc=Ecc(corrected=3, uncorrected=0)))
    assert corrected == Verdict(mark=Mark.OK, why=("3 corrected memory errors meanwhile",))
    lost = verdicts.errors(memory(ecc=Ecc(corrected=0, uncorrected=2)))
    assert lost
    assert (lost.weight, lost.text[:20]) == (verdicts.Weight.FAULT, "2 uncorrected memory")


def test_another_process_explains_a_low_figure() -> None:
    seen = judge(memory(2300.0, processes=("4242 python",)))
    assert seen == Verdict(mark=Mark.OK, why=("also on this GPU: 4242 python",))


def test_without_a_limit_nothing_is_low() -> None:
    case = replace(copy(1.0), ceiling=Ceiling(best=None, held=None, source="unknown"))
    assert judge(case).mark is Mark.OK


def test_an_unknown_architecture_is_held_to_what_is_usual_everywhere() -> None:
    assert judge(copy(0.80 * 57.6)).mark is Mark.LOW
    assert judge(replace(product(400.0), architecture=None)).mark is Mark.LOW
    assert replace(memory(), bench="hbm.new", limit="new", architecture=None).usual == 0.0
