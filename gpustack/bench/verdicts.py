"""What to think of a figure: good, low, or not to be trusted, and why; each rule says one thing with its evidence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from gpustack.model.bench import Mark

if TYPE_CHECKING:
    from gpustack.bench.ceilings import Ceiling
    from gpustack.bench.spread import Spread
    from gpustack.model.bench import Device, Telemetry
    from gpustack.model.rows import Architecture

# What is reached of the limit where the architecture has no row: the least of what peers published for sound cards
# (nvbandwidth, gpu-benches, BabelStream, mamf-finder on V100 to B200; read 2026-11-21).
USUAL = {
    "pcie.h2d": 0.88,
    "pcie.d2h": 0.88,
    "hbm.read": 0.85,
    "hbm.write": 0.88,
    "hbm.copy": 0.80,
    "compute.fp32": 0.60,
    "compute.tf32": 0.55,
    "compute.fp16": 0.60,
    "compute.bf16": 0.60,
}
CLEARLY = 0.95  # of what is usual: below that a figure is low
BEYOND = 1.02  # of the limit: above that what the card reports of itself is doubtful
SLOWER = 0.95  # of the highest clock: below that the clock was held back
LOADED = 0.97  # of the power limit: above that the power was the limit
POWER_CAP, APPLICATION, HARDWARE, THERMAL, BRAKE = 0x4, 0x2, 0x8, 0x60, 0x80


class Weight(str, Enum):
    """What a reason does to the verdict: it explains a lower figure, is a fault, or is worth knowing."""

    EXPLAINS = "explains"
    FAULT = "fault"
    NOTE = "note"
    DOUBT = "doubt"


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

    @property
    def ratio(self) -> float | None:
        """The part of the limit that was reached."""
        return self.figures.median / self.ceiling.best if self.ceiling.best else None

    @property
    def ratio_held(self) -> float | None:
        """The part of the limit at the clock, or over the link, that was held meanwhile."""
        return self.figures.median / self.ceiling.held if self.ceiling.held else self.ratio

    @property
    def usual(self) -> float:
        """The least part of the limit that a sound card reaches."""
        known = self.architecture.efficiency.get(self.bench) if self.architecture else None
        return known[0] if known else USUAL.get(self.bench, USUAL.get(self.limit, 0.0))

    @property
    def clock_held_back(self) -> bool:
        """Whether the clock stayed clearly under its highest in a benchmark that lives by the clock."""
        held, best = self.telemetry.clocks.held, self.device.clock_mhz
        return bool(self.limit.startswith("compute") and held and best and held < SLOWER * best)

    @property
    def at_clock(self) -> str:
        """The clock that was held, in words."""
        return f"{self.telemetry.clocks.held:.0f} of {self.device.clock_mhz:.0f} MHz held"


@dataclass(frozen=True, slots=True)
class Reason:
    """One thing to say of a figure."""

    text: str
    weight: Weight


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The mark of a figure, and why."""

    mark: Mark
    why: tuple[str, ...]


def judge(case: Case) -> Verdict:
    """Give the verdict on one figure."""
    reasons = [reason for rule in RULES if (reason := rule(case))]
    weights = {reason.weight for reason in reasons}
    why = tuple(reason.text for reason in reasons)
    if not case.figures.steady:
        return Verdict(mark=Mark.UNSTEADY, why=(_wavering(case), *why))
    # A fault is no excuse: then the figure is held against the best that the card could do.
    reached = case.ratio if Weight.FAULT in weights else case.ratio_held
    low = reached is not None and reached < CLEARLY * case.usual and Weight.DOUBT not in weights
    if low and (Weight.FAULT in weights or Weight.EXPLAINS not in weights):
        return Verdict(mark=Mark.LOW, why=(f"{reached:.0%} of the limit, {case.usual:.0%} is usual at least", *why))
    return Verdict(mark=Mark.OK, why=why)


def _wavering(case: Case) -> str:
    figures = case.figures
    if not figures.enough:
        return "not steady: too few samples in the time that there was"
    low, high = figures.interval
    half = (high - low) / 2 / figures.median if figures.median else 0.0
    return f"not steady: the median is known to {half:.1%}, and moved by {figures.drift:+.1%} from first to last"


def beyond(case: Case) -> Reason | None:
    """More than the limit: then the card's report of its clock, bus or link is wrong, not the physics."""
    if case.ratio is None or case.ratio <= BEYOND:
        return None
    return Reason(f"{case.ratio:.0%} of the limit: what the card reports of itself is doubtful", Weight.DOUBT)


def power(case: Case) -> Reason | None:
    """The power limit holds the clock down: as it should, unless somebody lowered the limit."""
    if not case.clock_held_back or not _capped(case):
        return None
    drawn, limit = case.telemetry.power.watts, case.telemetry.power.limit
    own = case.telemetry.power.default_limit
    watts = f", {drawn.high:.0f} of {limit:.0f} W" if drawn and limit and drawn.high >= LOADED * limit else ""
    lowered = f" (the card's own limit is {own:.0f} W)" if own and limit and limit < SLOWER * own else ""
    return Reason(f"power-bound: {case.at_clock}{watts}{lowered}", Weight.EXPLAINS)


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
    gpu, slowdown = case.telemetry.temperature.gpu, case.telemetry.temperature.slowdown
    heat = f"{gpu.high:.0f} °C" if gpu else "temperature unknown"
    until = f", slows down from {slowdown:.0f} °C" if slowdown else ""
    clock = f", {case.at_clock}" if case.clock_held_back else ""
    return Reason(f"thermal slowdown: {heat}{until}{clock}", Weight.FAULT)


def hardware(case: Case) -> Reason | None:
    """The board asks for a lower clock: its power supply or its cooling."""
    mask = case.telemetry.throttle.mask
    if mask & BRAKE:
        return Reason("power brake: the board or its power supply asks for a lower clock", Weight.FAULT)
    if mask & HARDWARE and not mask & THERMAL:
        return Reason("hardware slowdown: the board asks for a lower clock", Weight.FAULT)
    return None


def locked(case: Case) -> Reason | None:
    """Somebody has set the clocks, or the card gives no reason for a low one."""
    mask = case.telemetry.throttle.mask
    if not case.clock_held_back or _capped(case) or mask & (THERMAL | HARDWARE | BRAKE):
        return None
    if mask & APPLICATION:
        return Reason(f"the clocks were set lower: {case.at_clock}", Weight.EXPLAINS)
    return Reason(f"the card names no reason for its clock, which may be locked: {case.at_clock}", Weight.FAULT)


def memory_clock(case: Case) -> Reason | None:
    """The memory ran slower than it can: a little is the usual state of GeForce cards under CUDA, much is not."""
    loaded, best = case.telemetry.clocks.memory, case.device.memory_clock_mhz
    if not case.limit.startswith("hbm") or not loaded or not best or loaded.median >= 0.99 * best:
        return None
    weight = Weight.NOTE if loaded.median >= SLOWER * best else Weight.FAULT
    return Reason(f"memory clock {loaded.median:.0f} of {best:.0f} MHz under load", weight)


def link(case: Case) -> Reason | None:
    """The link is narrower or slower under load than card and slot allow."""
    seen = case.telemetry.link
    if not case.limit.startswith("pcie"):
        return None
    narrow = seen.width and seen.max_width and seen.width < seen.max_width
    slow = seen.generation and seen.max_generation and seen.generation < seen.max_generation
    if not narrow and not slow:
        return None
    have = f"PCIe {seen.generation}.0 x{seen.width} under load"
    return Reason(f"{have}, {seen.max_generation}.0 x{seen.max_width} is possible", Weight.FAULT)


def replays(case: Case) -> Reason | None:
    """Packets had to be sent again: the slot, the riser or the cable."""
    again = case.telemetry.link.replays
    return Reason(f"{again} PCIe packets had to be sent again", Weight.NOTE) if again else None


def errors(case: Case) -> Reason | None:
    """The memory made errors during the measurement."""
    seen = case.telemetry.ecc
    if seen.uncorrected:
        return Reason(f"{seen.uncorrected} uncorrected memory errors during the measurement", Weight.FAULT)
    return Reason(f"{seen.corrected} corrected memory errors meanwhile", Weight.NOTE) if seen.corrected else None


def shared(case: Case) -> Reason | None:
    """Somebody else computes on the card."""
    names = case.telemetry.processes
    return Reason(f"also on this GPU: {', '.join(names[:3])}", Weight.EXPLAINS) if names else None


RULES: tuple[Callable[[Case], Reason | None], ...] = (
    beyond,
    shared,
    power,
    thermal,
    hardware,
    locked,
    memory_clock,
    link,
    replays,
    errors,
)
