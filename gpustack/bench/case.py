"""Everything that a verdict on one figure rests on, and what a reason is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from gpustack.model.bench import TIMES

if TYPE_CHECKING:
    from gpustack.bench.ceilings import Ceiling
    from gpustack.bench.spread import Spread
    from gpustack.bench.suite import Part
    from gpustack.model.bench import Advice, Device, Telemetry
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
CLEARLY = 0.95  # of what is usual: below that a figure is low
SLOWER = 0.95  # of the highest clock: below that the clock was held back
CLOCKED = {"compute", "smem", "l2"}  # limits that live by the clock of the multiprocessors


class Weight(str, Enum):
    """What a reason does to the verdict.

    One that explains is the card's ordinary state: the figure is held against the clock or link that it had. A fault
    is not: then it is held against the best that the card could do. A doubt is of the limit, and ends the comparison.
    """

    EXPLAINS = "explains"
    FAULT = "fault"
    NOTE = "note"
    DOUBT = "doubt"


@dataclass(frozen=True, slots=True)
class Reason:
    """One thing to say of a figure, with its evidence, and what to do about it."""

    text: str
    weight: Weight
    advice: Advice | None = None


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
    unit: str = ""
    method: Mapping[str, JsonValue] = field(default_factory=dict)
    part: Part | None = None

    @property
    def kind(self) -> str:
        """The family of the limit: pcie, hbm, compute ..."""
        return self.limit.partition(".")[0]

    @property
    def ratio(self) -> float | None:
        """The part of the limit that was reached."""
        return self._part_of(self.ceiling.best)

    @property
    def ratio_held(self) -> float | None:
        """The part of the limit at the clock, or over the link, that was held meanwhile."""
        return self._part_of(self.ceiling.held) if self.ceiling.held else self.ratio

    @property
    def usual(self) -> float:
        """The least part of the limit that a sound card reaches."""
        rows = self.architecture.efficiency if self.architecture else {}
        known = rows.get(self.bench) or rows.get(self.limit)
        return known[0] if known else USUAL.get(self.bench, USUAL.get(self.limit, 0.0))

    @property
    def low(self) -> bool:
        """Whether the figure is clearly under what is usual, whatever the reason."""
        return self.ratio is not None and self.ratio < CLEARLY * self.usual

    @property
    def clock_held_back(self) -> bool:
        """Whether the clock stayed clearly under its highest in a benchmark that lives by the clock."""
        held, best = self.telemetry.clocks.held, self.device.clock_mhz
        return bool(self.kind in CLOCKED and held and best and held < SLOWER * best)

    @property
    def at_clock(self) -> str:
        """The clock that was held, in words."""
        return f"{self.telemetry.clocks.held:.0f} of {self.device.clock_mhz:.0f} MHz held"

    def _part_of(self, limit: float | None) -> float | None:
        """Return the part of a limit; of a time it is the limit that is the smaller."""
        if not limit or not self.figures.median:
            return None
        return limit / self.figures.median if self.unit in TIMES else self.figures.median / limit
