"""The figures beside a burst: what the same work gives without rest, and with zeros; pure functions of the lines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from gpustack.bench import readings
from gpustack.bench.spread import spread
from gpustack.model.bench import Sustained, Zeros

if TYPE_CHECKING:
    from gpustack.bench.ceilings import Ceiling
    from gpustack.bench.spread import Spread
    from gpustack.model.bench import Telemetry


def sustained(
    said: Mapping[str, Any], amount: float, limits: Mapping[str, Any], limit: Callable[[Telemetry], Ceiling]
) -> Sustained | None:
    """Give the figure of the work without rest, where there is one; ``amount`` is that of one run in the unit."""
    if "sustained" not in said:
        return None
    line = said["sustained"]
    figures, telemetry = _figures(line, amount), readings.summed(line, limits, ())
    ceiling = limit(telemetry)
    return Sustained(
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


def zeros(said: Mapping[str, Any], amount: float, burst: float, limits: Mapping[str, Any]) -> Zeros | None:
    """Give the figure of the burst with zeros, where there is one, beside that of random data."""
    if "zeros" not in said:
        return None
    line = said["zeros"]
    figures = _figures(line, amount)
    return Zeros(
        value=figures.median,
        interval=figures.interval,
        samples=tuple(amount / float(each) for each in line["seconds"]),
        sensitivity=figures.median / burst - 1,
        telemetry=readings.summed(line, limits, ()),
    )


def _figures(line: Mapping[str, Any], amount: float) -> Spread:
    return spread([amount / float(each) for each in line["seconds"]])
