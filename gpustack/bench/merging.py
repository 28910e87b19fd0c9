"""Several runs of the suite become one result for each figure: the median of the runs, and the samples of all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import median

from gpustack.bench.spread import spread
from gpustack.model.bench import Mark, Result

AGREE = 0.01  # of the median: runs that are further apart than that are not steady
WORST = (Mark.FAILED, Mark.LOW, Mark.UNSTEADY, Mark.OK, Mark.SKIPPED)


def merged(results: Sequence[Result]) -> tuple[Result, ...]:
    """Give one result for each benchmark and GPU, in the order in which they came first."""
    groups: dict[tuple[str, int | None, tuple[int, ...]], list[Result]] = {}
    for result in results:
        groups.setdefault((result.id, result.device, result.gpus), []).append(result)
    return tuple(_one(group) if len(group) > 1 else group[0] for group in groups.values())


def _one(group: Sequence[Result]) -> Result:
    """Join the runs of one figure; a run that failed is the answer of all, one that was skipped is none."""
    failed = next((one for one in group if one.verdict is Mark.FAILED), None)
    known = [(one.value, one) for one in group if one.value is not None]
    if failed or not known:
        return failed or group[0]
    values = tuple(value for value, _ in known)
    middle = sorted(known, key=lambda row: row[0])[(len(known) - 1) // 2][1]
    return _joined(middle, [one for _, one in known], values)


def _joined(middle: Result, runs: Sequence[Result], values: tuple[float, ...]) -> Result:
    """Give the run in the middle with the figures of all; its verdict is the worst of theirs."""
    samples = tuple(sample for one in runs for sample in one.samples)
    whole, value = spread(samples), median(values)
    apart = (max(values) - min(values)) / value if value else 0.0
    steady = all(one.steady for one in runs) and apart <= AGREE
    worst = min((one.verdict for one in runs), key=WORST.index)
    mark = Mark.UNSTEADY if worst is Mark.OK and not steady else worst
    differ = (f"not steady: {len(runs)} runs differ by {apart:.1%}",) if apart > AGREE else ()
    first = next((one for one in runs if one.verdict is worst), middle)
    return replace(
        middle,
        verdict=mark,
        why=(*differ, *first.why),
        advice=first.advice,
        value=value,
        median=value,
        p05=whole.p05,
        p95=whole.p95,
        interval=whole.interval,
        samples=samples,
        steady=steady,
        drift=whole.drift,
        runs=values,
        ratio=_scaled(middle, middle.ratio, value),
        ratio_held=_scaled(middle, middle.ratio_held, value),
        seconds=sum(one.seconds for one in runs),
    )


def _scaled(middle: Result, ratio: float | None, value: float) -> float | None:
    """Give the part of the limit for the median of all runs, as that of the one in the middle is known."""
    if ratio is None or not middle.value or not value:
        return None
    return ratio * (middle.value / value if middle.lower_is_better else value / middle.value)
