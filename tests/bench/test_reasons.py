"""Each rule on why a measurement is low: where it applies, with its evidence, and where it does not."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from gpustack.bench import reasons
from gpustack.bench.case import Case, Weight, spread
from gpustack.bench.ceilings import Ceiling
from gpustack.bench.reasons import RULES, judge, links
from gpustack.bench.suite import Part
from gpustack.model.bench import Clocks, Ecc, Hop, Link, NvLink, Power, Telemetry, Temperature, Throttle
from tests.bench.cases import WHOLE, at, copy, hops, memory, pair, product

if TYPE_CHECKING:
    from gpustack.model.facts import JsonValue


@pytest.mark.parametrize("case", [product(990.0), copy(), memory(), pair(NvLink(total=18, active=18, errors=0))])
def test_all_are_silent_on_a_healthy_card(case: Case) -> None:
    assert [rule.__name__ for rule in RULES if rule(case)] == []


def test_more_than_the_limit_is_doubt_of_the_report() -> None:
    seen = reasons.beyond(copy(80.0))
    assert seen
    assert seen.weight is Weight.DOUBT
    assert seen.text.startswith("139% of the limit: what the card reports about its link")
    assert reasons.beyond(copy(57.7)) is None
    assert reasons.beyond(replace(copy(80.0), ceiling=Ceiling(best=None, held=None, source=""))) is None


def test_a_part_that_was_cut_is_named_with_what_the_probe_gave() -> None:
    doubt = (
        "half-rate or fused part: 512 bf16 operations per clock and multiprocessor by mma in the probe, 1024 expected"
    )
    seen = reasons.cut(replace(product(), part=Part(rate=512.0, source="probe", doubt=doubt)))
    assert seen
    assert seen.text == doubt
    assert reasons.cut(replace(product(), part=Part(rate=4096.0, source="probe"))) is None


def test_a_lesser_first_choice_of_the_library_is_reported_with_both() -> None:
    tried: dict[str, JsonValue] = {
        "8448 x 4096 x 8192, heuristic 1": 7.0e14,
        "8448 x 4096 x 8192, heuristic 3": 8.0e14,
    }
    method: dict[str, JsonValue] = {"way": "8448 x 4096 x 8192, heuristic 3", "tried": tried}
    seen = reasons.lesser(replace(product(), method=method))
    assert seen
    assert seen.text == "the library's first choice is 12% slower than its choice 3, taken here"
    close = {**tried, "8448 x 4096 x 8192, heuristic 1": 7.9e14}
    others: tuple[dict[str, JsonValue], ...] = (
        {**method, "tried": close},
        {**method, "way": "8448 x 4096 x 8192, heuristic 1"},
        {**method, "way": "8448 x 8192 x 8192, heuristic 3"},
        {"way": "copy engine"},
        {"way": None, "tried": tried},
    )
    for other in others:
        assert reasons.lesser(replace(product(), method=other)) is None


def test_power_near_the_limit_is_enough_without_the_bit() -> None:
    seen = links.power(product(600.0, held=1300.0, power=Power(watts=at(695.0), limit=700.0, default_limit=700.0)))
    assert seen
    assert (seen.text, seen.advice) == ("power-bound: 1300 of 1980 MHz held, 695 of 700 W", None)


def test_a_lowered_power_limit_is_said_with_the_command_that_gives_it_back() -> None:
    seen = links.power(product(600.0, held=1300.0, power=Power(watts=at(495.0), limit=500.0, default_limit=700.0)))
    assert seen
    assert seen.text == "power-bound: 1300 of 1980 MHz held, 495 of 500 W (the card's own limit is 700 W)"
    assert seen.advice
    assert seen.advice.commands[-1] == "sudo nvidia-smi -pl 700"


def test_the_power_bit_at_full_clock_says_nothing() -> None:
    assert links.power(product(throttle=Throttle(mask=0x4))) is None
    assert links.power(product(held=None, throttle=Throttle(mask=0x4))) is None
    burst = links.power(product(held=1569.0, throttle=Throttle(mask=0x4)))
    assert burst
    assert (burst.text, burst.weight) == ("power-bound: 1569 of 1980 MHz held", Weight.EXPLAINS)


def test_heat_is_reported_as_far_as_it_is_known() -> None:
    hot = Temperature(gpu=at(88.0), memory=at(97.0), slowdown=89.0)
    seen = links.thermal(product(held=1050.0, throttle=Throttle(mask=0x40), temperature=hot))
    assert seen
    assert seen.text == "thermal slowdown: 88 °C, memory 97 °C, slows down from 89 °C, 1050 of 1980 MHz held"
    unknown = links.thermal(product(throttle=Throttle(mask=0x20)))
    assert unknown
    assert unknown.text == "thermal slowdown: temperature unknown"
    assert links.thermal(product(temperature=hot)) is None


@pytest.mark.parametrize(
    ("mask", "says"),
    [(0x80, "power brake"), (0x88, "power brake"), (0x8, "hardware slowdown"), (0x48, None), (0x4, None), (0, None)],
)
def test_the_board_asks_for_less(mask: int, says: str | None) -> None:
    seen = links.hardware(product(throttle=Throttle(mask=mask)))
    assert (seen is None) if says is None else (seen is not None and seen.text.startswith(says))


def test_clocks_set_lower_explain_a_figure_and_can_be_released() -> None:
    seen = links.locked(product(620.0, held=1410.0, throttle=Throttle(mask=0x2)))
    assert seen
    assert (seen.text, seen.weight) == ("the clocks were set lower: 1410 of 1980 MHz held", Weight.EXPLAINS)
    assert seen.advice
    assert "sudo nvidia-smi -rac" in seen.advice.commands


def test_a_low_clock_without_a_reason_may_be_locked() -> None:
    seen = links.locked(product(620.0, held=1410.0, clocks=Clocks(held=1410.0, sm=at(1410.0))))
    assert seen
    assert seen.weight is Weight.FAULT
    assert seen.text.endswith("may be locked: 1410 of 1980 MHz held")
    assert links.locked(product(held=1410.0, clocks=Clocks(held=1410.0))) is not None
    assert links.locked(product(held=1410.0, throttle=Throttle(mask=0x20))) is None


def test_a_clock_that_falls_under_load_alone_is_power_management() -> None:
    """Seen on an H200, 2026-11-21: bursts of tf32 held 1642 MHz, while NVML read 1980 and no throttle reason."""
    case = product(820.0, held=1642.0)
    seen = links.power(case)
    assert seen
    assert seen.text == "power-bound: 1642 of 1980 MHz held"
    assert links.locked(case) is None


def test_copies_and_memory_do_not_live_by_the_clock() -> None:
    slow = Clocks(held=345.0, memory=at(3201.0))
    assert links.locked(memory(clocks=slow)) is None
    assert links.power(memory(clocks=slow, throttle=Throttle(mask=0x4))) is None


def test_a_slow_memory_clock_is_named_and_on_geforce_cards_a_little_is_usual() -> None:
    usual = links.memory_clock(memory(clocks=Clocks(memory=at(3121.0)), performance_state=2))
    assert usual
    assert usual.weight is Weight.NOTE
    assert usual.text.endswith("(-2.5%): state P2, as is usual for CUDA on GeForce cards")
    other = links.memory_clock(memory(clocks=Clocks(memory=at(3121.0)), performance_state=0))
    assert other
    assert "P2" not in other.text
    much = links.memory_clock(memory(clocks=Clocks(memory=at(1600.0)), performance_state=2))
    assert much
    assert (much.text, much.weight) == ("memory clock 1600 of 3201 MHz under load", Weight.FAULT)
    assert links.memory_clock(product(clocks=Clocks(held=1980.0, memory=at(1600.0)))) is None


def test_a_slow_link_is_a_fault_under_load_alone() -> None:
    slow = links.link(copy(link=replace(WHOLE, generation=1)))
    assert slow
    assert slow.text == "PCIe 1.0 x16 under load, 5.0 x16 is possible"
    assert links.link(copy(link=Link())) is None
    idle = Link(generation=1, width=16, max_generation=5, max_width=16)
    assert links.link(memory(link=idle)) is None  # nothing is copied there, so the link idles


def test_the_bridge_at_which_lanes_are_lost_is_named() -> None:
    narrow = replace(WHOLE, width=8, hops=hops((5, 8, 5, 16), (5, 8, 5, 16), (5, 16, 5, 16)))
    seen = links.link(copy(27.5, narrow))
    assert seen
    assert seen.text == "PCIe 5.0 x8 under load, 5.0 x16 is possible, below the bridge 0000:11:00.0"
    assert links.slot(copy(27.5, narrow)) is None


def test_a_link_above_the_gpus_own_is_named_where_it_holds_it_back() -> None:
    uplink = replace(WHOLE, hops=hops((5, 16, 5, 16), (5, 16, 5, 16), (4, 16, 5, 16)))
    seen = links.link(copy(27.5, uplink))
    assert seen
    assert seen.text == "PCIe 4.0 x16 under load at the bridge 0000:12:00.0, 5.0 x16 is possible there"
    whole = replace(WHOLE, hops=hops((5, 16, 5, 16), (5, 16, 5, 16), (5, 16, 5, 16)))
    wider = replace(WHOLE, hops=hops((4, 16, 4, 16), (4, 16, 5, 16)), generation=4, max_generation=4)
    assert links.link(copy(link=whole)) is None
    assert links.link(copy(link=wider)) is None  # an old card in a new slot
    resting = replace(WHOLE, hops=hops((1, 16, 5, 16), (1, 16, 5, 16)))
    assert links.link(copy(link=resting)) is None


def test_a_slot_with_fewer_lanes_than_the_gpu_is_not_a_fault() -> None:
    small = Link(generation=5, width=8, max_generation=5, max_width=8, hops=hops((5, 8, 5, 16), (5, 8, 5, 8)))
    seen = links.slot(copy(27.5, small))
    assert seen
    assert (seen.weight, seen.text) == (Weight.NOTE, "the slot (bridge 0000:11:00.0) has PCIe 5.0 x8, the GPU 5.0 x16")
    assert links.link(copy(27.5, small)) is None
    untold = replace(WHOLE, hops=(*hops((5, 16, 5, 16)), Hop(address="0000:00:02.0")))
    assert links.slot(copy(link=untold)) is links.link(copy(link=untold)) is None  # as in a virtual machine


def test_small_payloads_are_reported_with_what_they_cost() -> None:
    seen = links.payload(copy(link=replace(WHOLE, payload=128)))
    assert seen
    assert seen.text == "payloads of 128 bytes: 84% of the link carries data, with 256 bytes it is 91%"
    for size in (256, 512, None):
        assert links.payload(copy(link=replace(WHOLE, payload=size))) is None


def test_replays_are_worth_a_word() -> None:
    seen = links.replays(copy(link=replace(WHOLE, replays=7)))
    assert seen
    assert (seen.text, seen.weight) == ("7 PCIe packets had to be resent", Weight.NOTE)
    assert links.replays(copy()) is None
    assert links.replays(copy(link=Link())) is None


def test_a_far_processor_is_reported_where_it_makes_a_difference() -> None:
    seen = links.numa(replace(copy(), method={"far_node": 40.0}))
    assert seen
    assert seen.text == "from the far NUMA node 40 GB/s, 72% of the near one"
    assert links.numa(replace(copy(), method={"far_node": 54.0})) is None
    loose = {"numa": "NUMA: not pinned, choosing processors was refused: Operation not permitted"}
    refused = links.numa(replace(copy(30.0), method=loose))
    assert refused
    assert "refused" in refused.text
    assert links.numa(replace(copy(), method=loose)) is None  # the measurement is good anyway
    assert links.numa(replace(copy(30.0), method={"numa": "NUMA: node 0, 8 of 16 processors"})) is None


def test_links_between_gpus_that_are_down_or_err_are_reported() -> None:
    down = links.nvlinks(pair(NvLink(total=18, active=16)))
    assert down
    assert (down.text, down.weight) == ("16 of 18 NVLinks are up", Weight.FAULT)
    errs = links.nvlink_errors(pair(NvLink(total=18, active=18, errors=5)))
    assert errs
    assert errs.text == "5 errors and replays on NVLinks during the measurement"
    assert links.nvlinks(pair(None)) is links.nvlink_errors(pair(None)) is None
    assert links.nvlinks(memory(nvlink=NvLink(total=18, active=16))) is None


def test_memory_errors_are_reported_by_their_kind() -> None:
    corrected = reasons.errors(memory(ecc=Ecc(corrected=3, uncorrected=0)))
    assert corrected
    assert (corrected.text, corrected.weight) == ("3 corrected memory errors during the measurement", Weight.NOTE)
    lost = reasons.errors(memory(ecc=Ecc(corrected=0, uncorrected=2)))
    assert lost
    assert (lost.weight, lost.text[:20]) == (Weight.FAULT, "2 uncorrected memory")
    assert reasons.errors(memory(ecc=Ecc(corrected=0, uncorrected=0))) is None


def test_a_row_that_waits_for_a_reset_is_reported_where_memory_is_measured() -> None:
    seen = reasons.remapped(memory(remap_pending=True))
    assert seen
    assert seen.advice
    assert "sudo nvidia-smi --gpu-reset" in seen.advice.commands
    assert reasons.remapped(memory(remap_pending=False)) is None
    assert reasons.remapped(product(remap_pending=True)) is None


def test_another_process_at_work_is_named_and_an_idle_one_only_where_the_figure_is_bad() -> None:
    at_work = reasons.shared(memory(processes=("4242 python, 3.1 GiB",), others_percent=97.0))
    assert at_work
    assert (at_work.text, at_work.weight) == ("also computing on this GPU: 4242 python, 3.1 GiB", Weight.FAULT)
    unknown = reasons.shared(memory(processes=("4242 python",)))
    assert unknown
    assert unknown.weight is Weight.FAULT
    idle = Telemetry(processes=("812 Xorg, 0.1 GiB",), others_percent=0.0)
    assert reasons.shared(replace(memory(), telemetry=idle)) is None
    low = reasons.shared(replace(memory(3000.0), telemetry=idle))
    assert low
    assert (low.text, low.weight) == ("also on this GPU, and idle: 812 Xorg, 0.1 GiB", Weight.NOTE)
    wavering = replace(memory(), telemetry=idle, figures=spread([4000.0, 4600.0] * 8))
    assert reasons.shared(wavering) is not None


@pytest.mark.parametrize(("percent", "weight"), [(6.0, Weight.FAULT), (4.0, Weight.NOTE)])
def test_a_process_that_takes_a_twentieth_of_the_card_is_at_work(percent: float, weight: Weight) -> None:
    low = replace(memory(3000.0), telemetry=Telemetry(processes=("812 Xorg",), others_percent=percent))
    seen = reasons.shared(low)
    assert seen
    assert seen.weight is weight


def test_many_processes_are_counted_and_a_busy_gpu_without_any_is_reported() -> None:
    many = reasons.shared(memory(processes=("1 a", "2 b", "3 c", "4 d", "5 e"), busy_percent=88.0))
    assert many
    assert many.text == "also computing on this GPU: 1 a, 2 b, 3 c and 2 more; it was 88 % busy before we began"
    nobody = reasons.shared(memory(busy_percent=88.0))
    assert nobody
    assert nobody.text == "the GPU was 88 % busy before we began, and no process is visible"
    assert reasons.shared(memory(busy_percent=3.0)) is None
    assert reasons.shared(memory(busy_percent=88.0, others_percent=0.0)) is None  # it has become idle since


def test_a_slice_of_a_card_has_other_limits() -> None:
    seen = reasons.sliced(memory(mig_slice="18 of 140 GiB"))
    assert seen
    assert (seen.weight, seen.text[:29]) == (Weight.EXPLAINS, "a MIG slice (18 of 140 GiB): ")
    product_ = reasons.sliced(product(mig_slice="18 of 140 GiB"))
    assert product_
    assert product_.weight is Weight.NOTE
    assert reasons.sliced(replace(memory(), telemetry=Telemetry())) is None


def test_a_gate_that_gave_up_is_reported_where_the_figure_is_bad() -> None:
    bad = replace(memory(3000.0), method={"gate": "gave up", "gated": False})
    seen = reasons.ungated(bad)
    assert seen
    assert seen.text.startswith("measured without the gate")
    assert (seen.weight, seen.advice is None) == (Weight.NOTE, False)
    assert seen.text in judge(bad).why
    assert reasons.ungated(replace(bad, figures=memory().figures)) is None
    assert reasons.ungated(replace(bad, method={"gated": False})) is None  # that work has no gate
