"""What the child measured becomes results: statistics, ceilings and verdicts, as a pure function of its lines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpustack.answers import plain
from gpustack.bench import ceilings, readings
from gpustack.bench.spread import spread
from gpustack.bench.verdicts import Case, judge
from gpustack.model.bench import Device, Mark, Result

if TYPE_CHECKING:
    from gpustack.bench.suite import Bench
    from gpustack.model.bench import Telemetry
    from gpustack.model.rows import Architecture

SCALES = {"GB/s": 1e9, "TFLOP/s": 1e12}
MALFORMED = (KeyError, TypeError, ValueError, ZeroDivisionError, OverflowError, AttributeError, IndexError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """What the child told of the GPU that it opened."""

    devices: tuple[Device, ...]
    device: Device
    limits: Mapping[str, Any]
    others: tuple[str, ...]
    payload: int | None


def opened(said: Mapping[str, Any], gpu: int) -> Opened:
    """Give the GPU that was opened, and all; raises one of MALFORMED where the line is not what it must be."""
    limits = {str(name): value for name, value in said["limits"].items()}
    more = {"driver": limits.get("driver"), "memory_mib": limits.get("memory_mib")}
    devices = tuple(Device(**{**row, **(more if row["index"] == gpu else {})}) for row in said["devices"])
    return Opened(
        devices=devices,
        device={device.index: device for device in devices}[gpu],
        limits=limits,
        others=tuple(map(str, said["others"])),
        payload=said["payload"],
    )


def measured(said: Mapping[str, Any], bench: Bench, seen: Opened, architecture: Architecture | None) -> Result:
    """Give the result of one benchmark; samples that are none make it a failed one."""
    try:
        return _measured(said, bench, seen, architecture)
    except MALFORMED as error:
        return failed(bench, seen.device.index, f"the child's answer is malformed: {type(error).__name__}: {error}")


def failed(bench: Bench, device: int | None, reason: str) -> Result:
    """Give the result of a benchmark that went wrong."""
    return Result(id=bench.id, device=device, unit=bench.unit, title=bench.title, verdict=Mark.FAILED, why=(reason,))


def skipped(bench: Bench, device: int | None, reason: str, remedy: str | None) -> Result:
    """Give the result of a benchmark that cannot be run here."""
    return Result(
        id=bench.id,
        device=device,
        unit=bench.unit,
        title=bench.title,
        verdict=Mark.SKIPPED,
        why=(reason,),
        remedy=remedy,
    )


def _measured(said: Mapping[str, Any], bench: Bench, seen: Opened, architecture: Architecture | None) -> Result:
    scale = SCALES[bench.unit]
    samples = tuple(float(said["amount"]) / float(seconds) / scale for seconds in said["seconds"])
    figures = spread(samples)
    telemetry = readings.summed(said, seen.limits, seen.others)
    ceiling = _ceiling(bench, seen, telemetry, architecture)
    verdict = judge(
        Case(
            bench=bench.id,
            limit=bench.limit,
            figures=figures,
            ceiling=ceiling,
            telemetry=telemetry,
            device=seen.device,
            architecture=architecture,
        )
    )
    method = plain({**said["method"], "runs": said["runs"], "gated": said["gated"], "tried": said["tried"]})
    return Result(
        id=bench.id,
        device=seen.device.index,
        unit=bench.unit,
        title=bench.title,
        verdict=verdict.mark,
        why=verdict.why,
        value=figures.median,
        median=figures.median,
        p05=figures.p05,
        p95=figures.p95,
        interval=figures.interval,
        samples=samples,
        steady=figures.steady,
        drift=figures.drift,
        ceiling=ceiling.best,
        ceiling_from=ceiling.source,
        ratio=figures.median / ceiling.best if ceiling.best else None,
        ceiling_held=ceiling.held,
        ratio_held=figures.median / ceiling.held if ceiling.held else None,
        method=method if isinstance(method, Mapping) else {},
        telemetry=telemetry,
        seconds=float(said["wall"]),
    )


def _ceiling(bench: Bench, seen: Opened, telemetry: Telemetry, architecture: Architecture | None) -> ceilings.Ceiling:
    kind, _, which = bench.limit.partition(".")
    if kind == "pcie":
        overhead = ceilings.COMPLETION_OVERHEAD if which == "h2d" else ceilings.WRITE_OVERHEAD
        return ceilings.pcie(telemetry.link, seen.payload, overhead=overhead)
    if kind == "hbm":
        memory = telemetry.clocks.memory
        return ceilings.memory(seen.device, memory.median if memory else None)
    rates = architecture.rates_of(seen.device.name) if architecture else {}
    return ceilings.compute(seen.device, rates, which, telemetry.clocks.held)
