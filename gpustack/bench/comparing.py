"""Comparing a report with an older one: each median with its 95 % interval, and what else differs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from gpustack.bench.case import interval
from gpustack.errors import InputError
from gpustack.model import writing
from gpustack.model.bench import BenchReport, Mark, Result
from gpustack.model.difference import Change, Comparison, Outcome
from gpustack.model.reading import made

SCHEMA = "gpustack.bench/1"
UUIDS = ("GPU-", "MIG-")  # anything else was redacted, and cannot be compared
Ranks: TypeAlias = "dict[int | None, int | None]"
Place: TypeAlias = "tuple[str, tuple[int | None, ...]]"  # a benchmark, and its GPU or pair by rank


@dataclass(frozen=True, slots=True, kw_only=True)
class Older:
    """An older report and its file."""

    path: str
    report: BenchReport


def load(path: Path) -> Older:
    """Return the older report; raises InputError for a file that is unreadable or not one of ours."""
    return Older(path=str(path), report=read(path))


def read(path: Path) -> BenchReport:
    """Return the report in a file from ``gpustack bench --save``; raises InputError for anything else.

    Unknown keys are ignored, and keys that an older gpustack did not write have their defaults.
    """
    try:
        said = json.loads(writing.json_text(path))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not a gpustack bench report: it is not JSON") from error
    schema = said.get("schema") if isinstance(said, dict) else None
    if schema != SCHEMA:
        raise InputError(f"{path} is not a gpustack bench report: its schema is {schema or 'missing'}, not {SCHEMA}")
    try:
        report = made(said, BenchReport)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is damaged: {error}") from error
    for one in report.results:
        if one.device is not None and len(one.gpus) == 1:
            raise InputError(f"{path} is damaged: {one.id} is for a pair, but names one GPU")
    return report


def compare(now: BenchReport, older: Older, tolerance: float) -> Comparison:
    """Compare a report with an older one; within ``tolerance`` (0.03 is 3 %) figures are equal."""
    before, ranks, ranked = older.report, _ranks(now), _ranks(older.report)
    then = {_place(result, ranked): result for result in before.results if result.value is not None}
    changes = [
        change
        for result in now.results
        if (change := _change(result, then.pop(_place(result, ranks), None), tolerance))
    ]
    gone = [
        Change(
            id=one.name(),
            device=ranked[one.device],
            unit=one.unit,
            outcome=Outcome.GONE,
            before=one.value,
            before_interval=_interval(one),
        )
        for one in then.values()
    ]
    return Comparison(
        path=older.path,
        taken=before.taken,
        tolerance=tolerance,
        differences=tuple(_differences(_traits(before, ranked), _traits(now, ranks))),
        changes=(*changes, *gone),
    )


def regressed(comparison: Comparison) -> bool:
    """Return whether anything is worse than the tolerance allows."""
    return any(change.outcome is Outcome.WORSE for change in comparison.changes)


def _change(result: Result, before: Result | None, tolerance: float) -> Change | None:
    """Return the outcome for one figure; None if it exists neither now nor then.

    A figure that fails now is worse, and a skipped one is gone.
    """
    change = Change(id=result.name(), device=result.device, unit=result.unit, outcome=Outcome.NEW)
    if before:
        change = replace(change, before=before.value, before_interval=_interval(before))
    if result.value is None:
        lost = Outcome.WORSE if result.verdict is Mark.FAILED else Outcome.GONE
        return (
            replace(change, outcome=lost, note="; ".join([result.verdict.value, *result.why[:1]])) if before else None
        )
    now = _interval(result)
    if before is None or not before.value:
        return replace(change, before=None, before_interval=None, after=result.value, after_interval=now)
    then = _interval(before)
    grown = before.value / result.value - 1 if result.lower_is_better else result.value / before.value - 1
    apart = now[0] > then[1] or now[1] < then[0]
    outcome, note = Outcome.SAME, None
    if abs(grown) > tolerance:
        outcome = Outcome.SAME if not apart else Outcome.BETTER if grown > 0 else Outcome.WORSE
        note = None if apart else "the intervals overlap"
    return replace(change, outcome=outcome, after=result.value, after_interval=now, change=grown, note=note)


def _interval(result: Result) -> tuple[float, float]:
    value = result.value or 0.0
    return interval(sorted(result.samples)) if result.samples else (value, value)


def _ranks(report: BenchReport) -> Ranks:
    """Return the rank of each GPU in the report, alone or in pairs; a new number is not a new place."""
    measured = [one for one in report.results if one.device is not None]
    known = sorted({gpu for one in measured for gpu in (one.device, *one.gpus) if gpu is not None})
    return {None: None, **{device: place for place, device in enumerate(known)}}


def _place(result: Result, ranks: Ranks) -> Place:
    """Return the key for comparing a figure: the same benchmark on the same GPU or pair, by rank."""
    gpus = result.gpus if result.gpus and result.device is not None else (result.device,)
    return result.id, tuple(ranks[gpu] for gpu in gpus)


def _traits(report: BenchReport, ranks: Ranks) -> dict[str, str]:
    """Return what must be equal for figures to be comparable."""
    suite = "quick" if report.quick else "whole"
    told: dict[str, object] = {"gpustack": report.tool.version, "data": report.data, "suite": suite}
    for device in report.devices:
        if device.index in ranks:
            where = f"GPU {ranks[device.index]}"
            told[f"{where} is"] = device.name
            told[f"{where} has the UUID"] = device.uuid if device.uuid.startswith(UUIDS) else None
            told[f"{where} has the driver"] = device.driver
    for result in report.results:
        limit = result.telemetry.power.limit if result.telemetry else None
        library = result.method.get("library_version")
        told.update({f"GPU {ranks[result.device]} has the power limit": limit} if limit else {})
        told.update({"cuBLASLt is": library} if library else {})
    return {name: str(value) for name, value in told.items() if value is not None}


def _differences(then: Mapping[str, str], now: Mapping[str, str]) -> Iterator[str]:
    """Return the traits that both reports state and that differ."""
    for name, value in then.items():
        if name in now and now[name] != value:
            yield f"{name} {now[name]} now, {value} then"
