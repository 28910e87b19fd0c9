"""The rate of the tensor cores as the probe measured it, beside the one that the architecture's row states.

Some parts are made with half the rate of their architecture, or less, and no attribute tells. What the probe gives in
operations a clock and multiprocessor knows no clock, power or library: where it is far from the row, the part is
another than the row speaks of, and the probe is believed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from gpustack.bench.suite import loaded
from gpustack.errors import BrokenError

if TYPE_CHECKING:
    from gpustack.bench.lab import Lab
    from gpustack.model.rows import Architecture

SLOWER, FASTER = 0.75, 1.25  # of what the row lets expect: parts are cut by half or more, and no probe errs so much
ALL = {"wgmma"}  # instructions that reach the whole rate: measured on an H200, 2026-11-21, 4078 of 4096 (bf16)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The rate that the part at hand has, and in words how it is known; ``doubt`` says where it is not the row's."""

    rate: float
    source: str
    doubt: str | None = None


@cache
def rates(lab: Lab) -> Mapping[str, Mapping[str, object]]:
    """Give what the probe measures on this card by data type; nothing where it cannot run."""
    try:
        found: Mapping[str, Mapping[str, object]] = loaded("probe").rates(lab)
    except BrokenError:
        raise
    except Exception:  # noqa: BLE001 - whatever CUDA raises, the benchmark that asked goes on without
        return {}
    return found


def part(dtype: str, product: str, said: Mapping[str, Any], architecture: Architecture | None) -> Part | None:
    """Give the rate of this part in one data type; None where no row states one, or the probe says what it says."""
    row = architecture.rates_of(product).get(dtype) if architecture else None
    probed = said.get(dtype)
    if not architecture or not row or not probed:
        return None
    rate, instruction = float(probed["rate"]), str(probed["instruction"])
    share = 1.0 if instruction in ALL else architecture.mma.get(dtype)
    if not share:
        return None
    reached = rate / (row * share)
    how = f"{rate:.0f} {dtype} operations a clock and multiprocessor by {instruction} in the probe"
    if SLOWER <= reached <= FASTER:
        return Part(rate=row, source=how)
    kind = "half-rate or fused part" if reached < 1 else "faster part than its row says"
    return Part(rate=rate / share, source=how, doubt=f"{kind}: {how}, {row * share:g} is what the row lets expect")
