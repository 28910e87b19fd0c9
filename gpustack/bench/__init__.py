"""Measure GPUs against their physical limits, in a child process, explain low figures, compare with older ones."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import TypeAlias

from gpustack.bench import case, setting, siblings, suite
from gpustack.bench.case import interval
from gpustack.bench.progress import Progress, Ticker, shown_on
from gpustack.bench.session import Session
from gpustack.bench.siblings import found
from gpustack.bench.stress import stress
from gpustack.collect.subprocesses import Door
from gpustack.errors import InputError, UsageError
from gpustack.matrix import Matrix
from gpustack.model import record, replace, writing
from gpustack.model.bench import BenchReport, Mark, Result
from gpustack.model.difference import Change, Comparison, Outcome
from gpustack.model.reading import made

__all__ = ["DATA", "Progress", "Ticker", "compare", "listed", "load", "measure", "read", "shown_on", "stress"]

TIMEOUT = 60.0  # for each GPU
DATA = ("random", "zeros", "both")


def listed() -> tuple[str, ...]:
    """Return the id of every benchmark, in execution order."""
    return tuple(bench.id for bench in suite.listed())


def measure(
    names: Sequence[str] = (),
    *,
    quick: bool = False,
    gpus: Sequence[int] | None = None,
    spare: bool = False,
    each: bool = False,
    data: str = "random",
    sustain: float = 0.0,
    repeat: int = 1,
    pythons: Sequence[str] = (),
    cublaslt: str | None = None,
    nccl: str | None = None,
    timeout: float | None = None,
    progress: Progress | None = None,
    environ: Mapping[str, str] | None = None,
    door: Door | None = None,
    matrix: Matrix | None = None,
) -> BenchReport:
    """Return the results of the benchmarks with these names and patterns (none: all) on these GPUs (CUDA's numbers).

    Without GPUs it uses all that CUDA shows, concurrently if they do not disturb each other. Products use the cuBLASLt
    of the first of ``pythons``, chosen as by the doctor, or the one at ``cublaslt``; sums over GPUs use the NCCL found
    likewise, or at ``nccl``. With both data, products use random numbers and then zeros; after their burst they
    continue for ``sustain`` seconds. The suite runs ``repeat`` times. ``timeout`` is in seconds, for everything;
    results until then are kept, also after Ctrl-C. ``spare`` skips GPUs in use by others, and ``each`` makes the short
    suite measure every card's link alone, not only an outlier's. Raises UsageError for an unknown name, GPU or Python,
    and NothingSeenError if no GPU can be opened.
    """
    if data not in DATA:
        raise UsageError(f"data is {' or '.join(DATA)}, not {data}")
    if gpus is not None and not gpus:
        raise UsageError("no GPU was named")
    environ = os.environ if environ is None else environ
    door, matrix = door or Door(), matrix or Matrix()
    benches = [bench for bench in suite.chosen(names) if names or not quick or bench.quick]
    allowed = TIMEOUT + sum(sustain for bench in benches if bench.limit.startswith("compute"))
    begun = door.now()
    session = Session(
        door=door,
        environ=setting.variables(environ),
        deadline=begun + (timeout or allowed * repeat),
        more=0.0 if timeout else TIMEOUT,
        asked={
            "quick": quick,
            "data": data,
            "sustain": sustain,
            "library": cublaslt or setting.library(pythons, environ),
            "nccl": nccl or setting.collective(pythons, environ),
            "highest": max(gpus) if gpus else None,
            "spare": spare,
        },
        matrix=matrix,
        progress=progress or Progress(),
        each=each or not quick or bool(names),
    )
    session.run(benches, gpus, repeat)
    order = {bench.id: number for number, bench in enumerate(suite.listed())}
    known = sorted(session.results, key=lambda one: (order[one.id], one.gpus or (one.device or 0,)))
    results = siblings.compared(case.merged(known), session.devices)
    return BenchReport(
        tool=matrix.tool,
        devices=session.devices,
        results=results,
        findings=found(results),
        taken=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        seconds=round(door.now() - begun, 3),
        quick=quick,
        data="random and zeros" if data == "both" else data,
        repeat=repeat,
        interrupted=session.interrupted,
    )


SCHEMA = "gpustack.bench/1"
UUIDS = ("GPU-", "MIG-")  # anything else was redacted, and cannot be compared
Ranks: TypeAlias = "dict[int | None, int | None]"
Place: TypeAlias = "tuple[str, tuple[int | None, ...]]"  # a benchmark, and its GPU or pair by rank


@record
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
