"""Why a clock was lower than it can be: power, heat, the board, or somebody who set it."""

from __future__ import annotations

from gpustack.bench.case import SLOWER, Case, Reason, Weight
from gpustack.model.bench import Advice
from gpustack.model.command import NUMBER, sh

LOADED = 0.97  # of the power limit: above that the power was the limit
LOWERED = 0.99  # of the card's own power limit: below that somebody has lowered it
P2 = 2
POWER_CAP, APPLICATION, HARDWARE, THERMAL, BRAKE = 0x4, 0x2, 0x8, 0x60, 0x80

COOL = Advice(
    "Look after its fans, airflow and neighbours; the card lowers its clock to stay within its temperature.",
    (sh("nvidia-smi -q -d TEMPERATURE,PERFORMANCE"),),
)
BOARD = Advice(
    "Look after the power supply and the cables of the card, and at the log of the machine's management controller.",
    (sh("nvidia-smi -q -d PERFORMANCE,POWER"),),
)
RELEASE = Advice(
    "See which clocks were set, and release them.",
    (sh("nvidia-smi -q -d CLOCK,PERFORMANCE"), sh("sudo nvidia-smi -rac"), sh("sudo nvidia-smi -rgc")),
)
MEMORY = Advice(
    "See which memory clock was set, and release it.", (sh("nvidia-smi -q -d CLOCK"), sh("sudo nvidia-smi -rmc"))
)


def power(case: Case) -> Reason | None:
    """The power limit holds the clock down: as it should, unless somebody lowered the limit."""
    if not case.clock_held_back or not _capped(case):
        return None
    drawn, limit, own = case.telemetry.power.watts, case.telemetry.power.limit, case.telemetry.power.default_limit
    watts = f", {drawn.high:.0f} of {limit:.0f} W" if drawn and limit and drawn.high >= LOADED * limit else ""
    if not own or not limit or limit >= LOWERED * own:
        return Reason(f"power-bound: {case.at_clock}{watts}", Weight.EXPLAINS)
    advice = Advice(
        f"The power limit was lowered to {limit:.0f} W; where that is not meant, give the card its own back.",
        (sh("nvidia-smi -q -d POWER"), sh("sudo nvidia-smi -pl {watts}", watts=NUMBER(round(own)))),
    )
    return Reason(f"power-bound: {case.at_clock}{watts} (the card's own limit is {own:.0f} W)", Weight.EXPLAINS, advice)


def _capped(case: Case) -> bool:
    """Tell whether power is what held the clock.

    A short burst is over before NVML sees the cap. But a clock that NVML reads as high between the bursts, and that no
    other reason holds, is not locked: it fell with the load.
    """
    mask, read = case.telemetry.throttle.mask, case.telemetry.clocks.sm
    drawn, limit = case.telemetry.power.watts, case.telemetry.power.limit
    if mask & POWER_CAP or (drawn and limit and drawn.high >= LOADED * limit):
        return True
    high = bool(read and case.device.clock_mhz and read.high >= SLOWER * case.device.clock_mhz)
    return high and not mask & (APPLICATION | THERMAL | HARDWARE | BRAKE)


def thermal(case: Case) -> Reason | None:
    """The card is too hot for its clock."""
    if not case.telemetry.throttle.mask & THERMAL:
        return None
    seen = case.telemetry.temperature
    heat = f"{seen.gpu.high:.0f} °C" if seen.gpu else "temperature unknown"
    memory = f", memory {seen.memory.high:.0f} °C" if seen.memory else ""
    until = f", slows down from {seen.slowdown:.0f} °C" if seen.slowdown else ""
    clock = f", {case.at_clock}" if case.clock_held_back else ""
    return Reason(f"thermal slowdown: {heat}{memory}{until}{clock}", Weight.FAULT, COOL)


def hardware(case: Case) -> Reason | None:
    """The board asks for a lower clock: its power supply or its cooling."""
    mask, clock = case.telemetry.throttle.mask, f" ({case.at_clock})" if case.clock_held_back else ""
    if mask & BRAKE:
        return Reason(f"power brake: the board or its supply asks for a lower clock{clock}", Weight.FAULT, BOARD)
    if mask & HARDWARE and not mask & THERMAL:
        return Reason(f"hardware slowdown: the board asks for a lower clock{clock}", Weight.FAULT, BOARD)
    return None


def locked(case: Case) -> Reason | None:
    """Somebody has set the clocks, or the card gives no reason for a low one."""
    mask = case.telemetry.throttle.mask
    if not case.clock_held_back or _capped(case) or mask & (THERMAL | HARDWARE | BRAKE):
        return None
    if mask & APPLICATION:
        return Reason(f"the clocks were set lower: {case.at_clock}", Weight.EXPLAINS, RELEASE)
    text = f"the card names no reason for its clock, which may be locked: {case.at_clock}"
    return Reason(text, Weight.FAULT, RELEASE)


def memory_clock(case: Case) -> Reason | None:
    """The memory ran slower than it can: a little is the usual state of GeForce cards under CUDA, much is not."""
    loaded, best = case.telemetry.clocks.memory, case.device.memory_clock_mhz
    if case.kind != "hbm" or not loaded or not best or loaded.median >= 0.99 * best:
        return None
    text, part = f"memory clock {loaded.median:.0f} of {best:.0f} MHz under load", loaded.median / best - 1
    if loaded.median < SLOWER * best:
        return Reason(text, Weight.FAULT, MEMORY)
    state = case.telemetry.performance_state
    usual = f" ({part:+.1%}): state P2, as is usual for CUDA on GeForce cards" if state == P2 else f" ({part:+.1%})"
    return Reason(f"{text}{usual}", Weight.NOTE)
