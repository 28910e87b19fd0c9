"""Readings of NVML, summed up over the window of one measurement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import or_
from statistics import median
from typing import Any

from gpustack.model.bench import Clocks, Ecc, Link, Power, Span, Telemetry, Temperature, Throttle

# NVML's bits of clock event reasons; new ones may come, so the mask is kept beside the names. Source: nvml.h.
REASONS = {
    0x1: "idle",
    0x2: "application clocks",
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "power brake",
    0x100: "display clocks",
}


def summed(said: Mapping[str, Any], limits: Mapping[str, Any], others: tuple[str, ...]) -> Telemetry:
    """Give what the card did during one measurement; raises KeyError, TypeError or ValueError for what is malformed."""
    readings = said["readings"]
    masks = [int(reading["mask"]) for reading in readings if reading["mask"] is not None]
    mask = reduce(or_, [*masks, *_events(said["before"]["events"], said["after"]["events"])], 0)
    told = any(value is not None for reading in readings for name, value in reading.items() if name != "at")
    clocks = [float(clock) for clock in said["clocks"]]
    return Telemetry(
        readings=len(readings),
        clocks=Clocks(
            held=median(clocks) if clocks else None,
            sm=_span(readings, "sm"),
            memory=_span(readings, "memory"),
            max_sm=limits.get("max_sm"),
            max_memory=limits.get("max_memory"),
        ),
        power=Power(
            watts=_span(readings, "watts"), limit=limits.get("limit"), default_limit=limits.get("default_limit")
        ),
        temperature=Temperature(
            gpu=_span(readings, "gpu_c"), memory=_span(readings, "memory_c"), slowdown=limits.get("slowdown")
        ),
        throttle=Throttle(mask=mask, reasons=tuple(name for bit, name in REASONS.items() if mask & bit)),
        link=Link(
            generation=_most(readings, "generation"),
            width=_most(readings, "width"),
            max_generation=limits.get("max_generation"),
            max_width=limits.get("max_width"),
            replays=_grown(said, "replays"),
        ),
        ecc=Ecc(corrected=_grown(said, "corrected"), uncorrected=_grown(said, "uncorrected")),
        processes=others,
        unavailable=None if told else "NVML told nothing of this GPU",
    )


def _events(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[int]:
    """Give the bits of the reasons whose time grew: most are over before they are read."""
    known = [bit for bit, spent in before.items() if spent is not None and after.get(bit) is not None]
    return [int(bit) for bit in known if after[bit] > before[bit]]


def _values(readings: Sequence[Mapping[str, Any]], name: str) -> list[float]:
    return [float(reading[name]) for reading in readings if reading[name] is not None]


def _span(readings: Sequence[Mapping[str, Any]], name: str) -> Span | None:
    values = _values(readings, name)
    return Span(low=min(values), median=float(median(values)), high=max(values)) if values else None


def _most(readings: Sequence[Mapping[str, Any]], name: str) -> int | None:
    """Give the greatest reading: a link that rests between trains is not slow."""
    values = _values(readings, name)
    return int(max(values)) if values else None


def _grown(said: Mapping[str, Any], name: str) -> int | None:
    before, after = said["before"][name], said["after"][name]
    return int(after) - int(before) if before is not None and after is not None else None
