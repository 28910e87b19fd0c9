"""A report beside an older one: each median with its 95 % interval, and what else is not the same about the two."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from gpustack.bench.case import interval
from gpustack.errors import InputError
from gpustack.model import plain
from gpustack.model.bench import BenchReport, Mark
from gpustack.model.difference import Change, Comparison, Outcome

if TYPE_CHECKING:
    from gpustack.model.bench import Result

SCHEMA = "gpustack.bench/1"
MALFORMED = (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError, ZeroDivisionError)
Place: TypeAlias = tuple[str, tuple[int | None, ...]]
UUIDS = ("GPU-", "MIG-")  # what begins otherwise was redacted, and is not to be compared


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One figure of an older report. ``place`` is its benchmark, and its GPU or pair by their ranks."""

    id: str
    place: Place
    device: int | None
    unit: str
    value: float
    interval: tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Older:
    """An older report, as far as it is compared. ``traits`` are by GPU and name, such as the driver of the first."""

    path: str
    taken: str
    figures: tuple[Figure, ...]
    traits: Mapping[str, str]


def load(path: Path) -> Older:
    """Return the older report; raises InputError for a file that cannot be read or is none of ours."""
    try:
        said = json.loads(plain.json_text(path))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is no report of gpustack bench: it is not JSON") from error
    schema = said.get("schema") if isinstance(said, dict) else None
    if schema != SCHEMA:
        raise InputError(f"{path} is no report of gpustack bench: its schema is {schema or 'missing'}, not {SCHEMA}")
    try:
        return _older(path, said)
    except MALFORMED as error:
        raise InputError(f"{path} is damaged: {type(error).__name__}: {error}") from error


def compare(now: BenchReport, older: Older, tolerance: float) -> Comparison:
    """Hold a report against an older one; within ``tolerance`` (0.03 is 3 %) figures are the same."""
    then = {figure.place: figure for figure in older.figures}
    ranks = _ranks([(result.device, result.gpus) for result in now.results])
    said: Any = plain.plain(now)
    changes = []
    for result in now.results:
        before = then.pop(_place(result.id, result.device, result.gpus, ranks), None)
        change = _change(result, before, tolerance)
        changes += [change] if change else []
    gone = [
        Change(
            id=one.id,
            device=one.device,
            unit=one.unit,
            outcome=Outcome.GONE,
            before=one.value,
            before_interval=one.interval,
        )
        for one in then.values()
    ]
    return Comparison(
        path=older.path,
        taken=older.taken,
        tolerance=tolerance,
        differences=tuple(_differences(older.traits, _traits(said, ranks))),
        changes=(*changes, *gone),
    )


def regressed(comparison: Comparison) -> bool:
    """Tell whether anything is worse than the tolerance allows."""
    return any(change.outcome is Outcome.WORSE for change in comparison.changes)


def _change(result: Result, before: Figure | None, tolerance: float) -> Change | None:
    """Return what became of one figure; None where there is none now and there was none then."""
    if result.value is None:
        return _lost(result, before) if before else None
    now = interval(sorted(result.samples)) if result.samples else (result.value, result.value)
    if before is None or not before.value:
        return Change(
            id=result.name(),
            device=result.device,
            unit=result.unit,
            outcome=Outcome.NEW,
            after=result.value,
            after_interval=now,
        )
    grown = before.value / result.value - 1 if result.lower_is_better else result.value / before.value - 1
    apart = now[0] > before.interval[1] or now[1] < before.interval[0]
    outcome = Outcome.SAME
    if abs(grown) > tolerance and apart:
        outcome = Outcome.BETTER if grown > 0 else Outcome.WORSE
    note = "the intervals overlap" if abs(grown) > tolerance and not apart else None
    return Change(
        id=result.name(),
        device=result.device,
        unit=result.unit,
        outcome=outcome,
        before=before.value,
        after=result.value,
        before_interval=before.interval,
        after_interval=now,
        change=grown,
        note=note,
    )


def _lost(result: Result, before: Figure) -> Change:
    """Return a figure that there is no more: what fails now is worse, what is skipped is gone."""
    return Change(
        id=result.name(),
        device=result.device,
        unit=result.unit,
        outcome=Outcome.WORSE if result.verdict is Mark.FAILED else Outcome.GONE,
        before=before.value,
        before_interval=before.interval,
        note="; ".join([result.verdict.value, *result.why[:1]]),
    )


def _ranks(places: Sequence[tuple[int | None, Sequence[int]]]) -> dict[int | None, int | None]:
    """Return the place of each GPU among those of the report, alone or in pairs: another number is no other place."""
    known = sorted({gpu for device, gpus in places if device is not None for gpu in (device, *gpus)})
    return {None: None, **{device: place for place, device in enumerate(known)}}


def _place(identity: str, device: int | None, gpus: Sequence[int], ranks: Mapping[int | None, int | None]) -> Place:
    """Return what a figure is held against: that of the same benchmark on the same GPU, or pair, by rank."""
    return identity, tuple(ranks[gpu] for gpu in (gpus if gpus and device is not None else (device,)))


def _older(path: Path, said: Mapping[str, Any]) -> Older:
    rows = [row for row in said["results"] if row["value"] is not None]
    ranks = _ranks([(row["device"], row.get("gpus") or ()) for row in said["results"]])
    return Older(
        path=str(path),
        taken=str(said["taken"]),
        figures=tuple(_figure(row, ranks) for row in rows),
        traits=_traits(said, ranks),
    )


def _figure(row: Mapping[str, Any], ranks: Mapping[int | None, int | None]) -> Figure:
    samples = sorted(float(sample) for sample in row["samples"])
    value = float(row["value"])
    return Figure(
        id=str(row["id"]) + _pair(row),
        place=_place(str(row["id"]), row["device"], row.get("gpus") or (), ranks),
        device=ranks[row["device"]],
        unit=str(row["unit"]),
        value=value,
        interval=interval(samples) if samples else (value, value),
    )


def _pair(row: Mapping[str, Any]) -> str:
    """Return the pair of a figure of one, as its name has it."""
    gpus = row.get("gpus")
    return f" {int(gpus[0])}>{int(gpus[1])}" if gpus and row["device"] is not None else ""


def _traits(said: Mapping[str, Any], ranks: Mapping[int | None, int | None]) -> dict[str, str]:
    """Return what must be the same for figures to mean the same."""
    told = {"gpustack": said["tool"]["version"], "data": said["data"], "suite": _suite(quick=bool(said["quick"]))}
    for device in said["devices"]:
        if device["index"] in ranks:
            where = f"GPU {ranks[device['index']]}"
            told[f"{where} is"] = device["name"]
            told[f"{where} has the UUID"] = device["uuid"] if str(device["uuid"]).startswith(UUIDS) else None
            told[f"{where} has the driver"] = device["driver"]
    for row in said["results"]:
        limit = ((row.get("telemetry") or {}).get("power") or {}).get("limit")
        library = (row.get("method") or {}).get("library_version")
        told.update({f"GPU {ranks.get(row['device'])} has the power limit": limit} if limit else {})
        told.update({"cuBLASLt is": library} if library else {})
    return {name: str(value) for name, value in told.items() if value is not None}


def _suite(*, quick: bool) -> str:
    return "quick" if quick else "whole"


def _differences(then: Mapping[str, str], now: Mapping[str, str]) -> Iterator[str]:
    """Say what both tell and tell otherwise."""
    for name, value in then.items():
        if name in now and now[name] != value:
            yield f"{name} {now[name]} now, {value} then"
