"""The child's messages parsed: measurements, and the figures beside a burst."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import or_
from statistics import median
from typing import TYPE_CHECKING, Any

from gpustack.bench.case import Spread, spread
from gpustack.model import bench as model

if TYPE_CHECKING:
    from gpustack.bench.ceilings import Ceiling

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
OURS = frozenset({"at", "hops"})  # parts of a reading that do not come from NVML


def summed(
    said: Mapping[str, Any], limits: Mapping[str, Any], others: tuple[str, ...], payload: int | None = None
) -> model.Telemetry:
    """Return what the card did during one measurement; raises KeyError, TypeError or ValueError if malformed.

    ``others`` are the processes on the card before the run, if the line itself does not say.
    """
    readings = said["readings"]
    masks = [int(reading["mask"]) for reading in readings if reading["mask"] is not None]
    mask = reduce(or_, [*masks, *_events(said["before"]["events"], said["after"]["events"])], 0)
    told = any(value is not None for reading in readings for name, value in reading.items() if name not in OURS)
    clocks = [float(clock) for clock in said["clocks"]]
    return model.Telemetry(
        readings=len(readings),
        clocks=model.Clocks(
            held=median(clocks) if clocks else None,
            sm=_span(readings, "sm"),
            memory=_span(readings, "memory"),
            max_sm=limits.get("max_sm"),
            max_memory=limits.get("max_memory"),
        ),
        power=model.Power(
            watts=_span(readings, "watts"), limit=limits.get("limit"), default_limit=limits.get("default_limit")
        ),
        temperature=model.Temperature(
            gpu=_span(readings, "gpu_c"), memory=_span(readings, "memory_c"), slowdown=limits.get("slowdown")
        ),
        throttle=model.Throttle(mask=mask, reasons=tuple(name for bit, name in REASONS.items() if mask & bit)),
        link=model.Link(
            generation=_most(readings, "generation"),
            width=_most(readings, "width"),
            max_generation=limits.get("max_generation"),
            max_width=limits.get("max_width"),
            replays=_grown(said, "replays"),
            payload=payload,
            hops=_hops(readings),
        ),
        ecc=model.Ecc(corrected=_grown(said, "corrected"), uncorrected=_grown(said, "uncorrected")),
        nvlink=_nvlink(said, limits),
        performance_state=_most(readings, "state"),
        remap_pending=limits.get("remap_pending"),
        mig_slice=limits.get("slice"),
        processes=_others(said, others),
        others_percent=said["after"].get("used"),
        busy_percent=limits.get("busy"),
        unavailable=None if told else "NVML reported nothing about this GPU",
    )


def _events(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[int]:
    """Return the bits of the reasons whose time grew: most are over before they are read."""
    known = [bit for bit, spent in before.items() if spent is not None and after.get(bit) is not None]
    return [int(bit) for bit in known if after[bit] > before[bit]]


def _values(readings: Sequence[Mapping[str, Any]], name: str) -> list[float]:
    return [float(reading[name]) for reading in readings if reading.get(name) is not None]


def _span(readings: Sequence[Mapping[str, Any]], name: str) -> model.Span | None:
    values = _values(readings, name)
    return model.Span(low=min(values), median=float(median(values)), high=max(values)) if values else None


def _most(readings: Sequence[Mapping[str, Any]], name: str) -> int | None:
    """Return the maximum reading: a link that idles between trains is not slow."""
    values = _values(readings, name)
    return int(max(values)) if values else None


def _hops(readings: Sequence[Mapping[str, Any]]) -> tuple[model.Hop, ...]:
    """Return each link up to the root at its best under load, since a link that idles between trains is not slow."""
    best: dict[str, model.Hop] = {}
    for address, generation, width, most, lanes in (hop for one in readings for hop in one.get("hops") or ()):
        now = model.Hop(
            address=str(address),
            generation=_number(generation),
            width=_number(width),
            max_generation=_number(most),
            max_width=_number(lanes),
        )
        if address not in best or _rate(now) > _rate(best[address]):
            best[address] = now
    return tuple(best.values())


def _rate(hop: model.Hop) -> tuple[int, int]:
    return hop.generation or 0, hop.width or 0


def _number(told: object) -> int | None:
    return told if isinstance(told, int) else None


def _nvlink(said: Mapping[str, Any], limits: Mapping[str, Any]) -> model.NvLink | None:
    links = limits.get("nvlinks")
    if not isinstance(links, Mapping):
        return None
    errors = _grown(said, "nvlink_errors") if "nvlink_errors" in said["before"] else None
    return model.NvLink(total=int(links["total"]), active=int(links["active"]), errors=errors)


def _others(said: Mapping[str, Any], before: tuple[str, ...]) -> tuple[str, ...]:
    """Return the other processes at the beginning or end of the window, each once, in its latest state."""
    if "others" not in said["after"]:
        return before
    named = {str(one).partition(",")[0]: str(one) for end in ("before", "after") for one in said[end]["others"]}
    return tuple(named.values())


def _grown(said: Mapping[str, Any], name: str) -> int | None:
    before, after = said["before"][name], said["after"][name]
    return int(after) - int(before) if before is not None and after is not None else None


def sustained(
    said: Mapping[str, Any], amount: float, limits: Mapping[str, Any], limit: Callable[[model.Telemetry], Ceiling]
) -> model.Sustained | None:
    """Return the sustained figure, if there is one; ``amount`` is that of one run in the unit."""
    if "sustained" not in said:
        return None
    line = said["sustained"]
    figures, telemetry = _figures(line, amount), summed(line, limits, ())
    ceiling = limit(telemetry)
    return model.Sustained(
        value=figures.median,
        interval=figures.interval,
        steady=figures.steady,
        samples=tuple(amount / float(each) for each in line["seconds"]),
        seconds=float(line["asked"]),
        ratio=figures.median / ceiling.best if ceiling.best else None,
        ceiling_held=ceiling.held,
        ratio_held=figures.median / ceiling.held if ceiling.held else None,
        telemetry=telemetry,
    )


def zeros(said: Mapping[str, Any], amount: float, burst: float, limits: Mapping[str, Any]) -> model.Zeros | None:
    """Return the figure of the burst with zeros, if there is one, compared with random data."""
    if "zeros" not in said:
        return None
    line = said["zeros"]
    figures = _figures(line, amount)
    return model.Zeros(
        value=figures.median,
        interval=figures.interval,
        samples=tuple(amount / float(each) for each in line["seconds"]),
        sensitivity=figures.median / burst - 1,
        telemetry=summed(line, limits, ()),
    )


def _figures(line: Mapping[str, Any], amount: float) -> Spread:
    return spread([amount / float(each) for each in line["seconds"]])
