"""The child's measurements become results: statistics, ceilings and ratings, as a pure function of its lines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gpustack.bench import ceilings, readings, suite
from gpustack.bench.case import Case, spread
from gpustack.bench.reasons import explain, judge
from gpustack.collect.probe_results import plain
from gpustack.errors import NothingSeenError, UsageError
from gpustack.model import record, replace
from gpustack.model.bench import Device, Mark, Result, Telemetry
from gpustack.model.command import reread
from gpustack.model.versions import ComputeCapability

if TYPE_CHECKING:
    from gpustack.bench.suite import Bench, Part
    from gpustack.matrix import Matrix
    from gpustack.model.rows import Architecture

SCALES = {"GB/s": 1e9, "TFLOP/s": 1e12}
PARTS = {"µs": 1e6, "ns": 1e9}  # seconds: the figure is the time of one operation, not a rate
MALFORMED = (KeyError, TypeError, ValueError, ZeroDivisionError, OverflowError, AttributeError, IndexError)


@record
class Opened:
    """What the child reported about the GPU it opened."""

    devices: tuple[Device, ...]
    device: Device
    limits: Mapping[str, Any]
    others: tuple[str, ...]
    payload: int | None
    own: frozenset[str] = frozenset()


def opened(said: Mapping[str, Any], gpu: int) -> Opened:
    """Return the opened GPU and all GPUs; raises one of MALFORMED for an invalid line."""
    limits = {str(name): value for name, value in said["limits"].items()}
    more = {"driver": limits.get("driver"), "memory_mib": limits.get("memory_mib")}
    devices = tuple(Device(**{**row, **(more if row["index"] == gpu else {})}) for row in said["devices"])
    return Opened(
        devices=devices,
        device={device.index: device for device in devices}[gpu],
        limits=limits,
        others=tuple(map(str, said["others"])),
        payload=said["payload"],
        own=frozenset(map(str, said.get("own", ()))),
    )


def refusal(what: object, highest: int) -> NothingSeenError | UsageError:
    """Return why no GPU could be opened, given the highest requested one, from the child's message."""
    if not isinstance(what, dict):
        return NothingSeenError(f"the GPU could not be opened: the child {what or 'was ended'}")
    if isinstance(count := what.get("count"), int) and 0 < count <= highest:
        return UsageError(f"there is no GPU {highest}; CUDA shows {count}, from 0 on")
    return NothingSeenError(f"{what.get('reason')}; to fix it: {what.get('remedy')}")


def architecture(matrix: Matrix, device: Device) -> Architecture | None:
    """Return the row of a GPU's architecture, if the matrix has one."""
    capability = ComputeCapability.parse(device.compute_capability)
    return matrix.arch(capability) if capability else None


def listed(said: Mapping[str, Any]) -> list[int]:
    """Return the numbers of the GPUs that CUDA shows."""
    return [int(row["index"]) for row in said["devices"]]


def among_us(said: Mapping[str, Any], ours: frozenset[str]) -> dict[str, Any]:
    """Return a child's measurement without its siblings' processes, which are our own."""
    made = dict(said)
    for end in ("before", "after"):
        held = said.get(end)
        if isinstance(held, Mapping) and isinstance(held.get("others"), list):
            others = [one for one in held["others"] if str(one).partition(" ")[0] not in ours]
            made[end] = {**held, "others": others}
    return made


def measured(said: Mapping[str, Any], bench: Bench, seen: Opened, architecture: Architecture | None) -> Result:
    """Return the result of one benchmark; invalid samples make it a failed one."""
    try:
        return _measured(said, bench, seen, architecture)
    except MALFORMED as error:
        return failed(bench, seen.device.index, f"the child's answer is malformed: {type(error).__name__}: {error}")


def failed(bench: Bench, device: int | None, reason: str) -> Result:
    """Return the result of a failed benchmark."""
    return replace(skipped(bench, device, reason, None), verdict=Mark.FAILED)


def skipped(bench: Bench, device: int | None, reason: str, remedy: str | None) -> Result:
    """Return the result of a benchmark that cannot run here."""
    return Result(
        id=bench.id,
        device=None if bench.scope == "all" and bench.company else device,
        gpus=_gpus(bench, device),
        unit=bench.unit,
        title=bench.title,
        verdict=Mark.SKIPPED,
        why=(reason,),
        remedy=reread(remedy),
    )


def _measured(said: Mapping[str, Any], bench: Bench, seen: Opened, architecture: Architecture | None) -> Result:
    amount = float(said["amount"]) / SCALES.get(bench.unit, 1.0)
    samples = tuple(_figure(bench.unit, amount, float(seconds)) for seconds in said["seconds"])
    figures = spread(samples)
    telemetry = readings.summed(said, seen.limits, seen.others, seen.payload)
    kind, _, dtype = bench.limit.partition(".")
    part = suite.part(dtype, seen.device.name, said.get("probed", {}), architecture) if kind == "compute" else None
    if bench.company:
        limit, ceiling = ceilings.limit(bench.limit, said["method"], telemetry.link, seen.payload)
    else:
        limit, ceiling = bench.limit, _ceiling(bench, seen, telemetry, architecture, part)
    told = plain({**said["method"], "runs": said["runs"], "gated": said["gated"], "tried": said["tried"]})
    case = Case(
        bench=bench.id,
        limit=limit,
        figures=figures,
        ceiling=ceiling,
        telemetry=telemetry,
        device=seen.device,
        architecture=architecture,
        unit=bench.unit,
        method=told if isinstance(told, Mapping) else {},
        part=part,
    )
    verdict = judge(case)
    held = readings.sustained(said, amount, seen.limits, lambda did: _ceiling(bench, seen, did, architecture, part))
    return Result(
        id=bench.id,
        device=None if bench.scope == "all" else seen.device.index,
        gpus=_gpus(bench, seen.device.index),
        unit=bench.unit,
        title=bench.title,
        verdict=verdict.mark,
        why=verdict.why,
        advice=verdict.advice,
        value=figures.median,
        samples=samples,
        **figures.told,
        ceiling=ceiling.best,
        ceiling_from=ceiling.source,
        ratio=case.ratio,
        ceiling_held=ceiling.held,
        ratio_held=case.ratio_held if ceiling.held else None,
        method=case.method,
        telemetry=telemetry,
        seconds=float(said["wall"]),
        sustained=replace(held, why=explain(case, held.telemetry)) if held and held.telemetry else held,
        zeros=readings.zeros(said, amount, figures.median, seen.limits),
    )


def together(parts: Mapping[int, Result]) -> Result:
    """Return one figure for several GPUs that ran concurrently: their sum, with each one's part."""
    known = sorted(parts.items())
    first = known[0][1]
    samples = tuple(map(sum, zip(*(part.samples for _, part in known), strict=False)))
    figures, value = spread(samples), sum(part.value or 0.0 for _, part in known)
    limits = [part.ceiling for _, part in known]
    ceiling = sum(limit for limit in limits if limit) if all(limits) else None
    cards = [{"gpu": gpu, "gb_s": round(part.value or 0.0, 3), "numa": part.method.get("numa")} for gpu, part in known]
    method = plain({**{key: one for key, one in first.method.items() if key != "numa"}, "cards": cards})
    return replace(
        first,
        device=None,
        gpus=tuple(gpu for gpu, _ in known),
        verdict=Mark.OK if figures.steady else Mark.UNSTEADY,
        why=() if figures.steady else first.why[:1],
        advice=(),
        value=value,
        samples=samples,
        **{**figures.told, "median": value},
        ceiling=ceiling,
        ceiling_from=f"the links of {len(known)} GPUs together; the host's memory, which they share, may allow less",
        ratio=value / ceiling if ceiling else None,
        ceiling_held=None,
        ratio_held=None,
        method=method if isinstance(method, Mapping) else {},
        seconds=max(part.seconds for _, part in known),
    )


def _gpus(bench: Bench, device: int | None) -> tuple[int, ...]:
    return (device, *bench.company) if bench.company and device is not None else ()


def _figure(unit: str, amount: float, seconds: float) -> float:
    """Return the rate of this much work in this many seconds, or the time per operation if the unit is a time."""
    return seconds / amount * PARTS[unit] if unit in PARTS else amount / seconds


def _ceiling(
    bench: Bench, seen: Opened, telemetry: Telemetry, architecture: Architecture | None, part: Part | None
) -> ceilings.Ceiling:
    kind, _, which = bench.limit.partition(".")
    if bench.limit in ceilings.DIRECTIONS:
        return ceilings.link(telemetry.link, seen.payload, which)
    if bench.limit in ceilings.WITHOUT:
        return ceilings.Ceiling(best=None, held=None, source=ceilings.WITHOUT[bench.limit])
    if kind == "hbm":
        memory = telemetry.clocks.memory
        return ceilings.memory(seen.device, memory.median if memory else None)
    if kind == "smem":
        return ceilings.shared(seen.device, telemetry.clocks.held)
    if kind == "l2":
        return ceilings.level2(seen.device, architecture.level2 if architecture else None, telemetry.clocks.held)
    rates = architecture.rates_of(seen.device.name) if architecture else {}
    if part:
        rates = {**rates, which: part.rate}
    return ceilings.compute(seen.device, rates, which, telemetry.clocks.held)
