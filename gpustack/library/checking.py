"""What ``check`` does, for the command line and the library: examine, measure, and compare both with a policy."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from gpustack import bench, plugins
from gpustack.collect import isolation
from gpustack.diagnose.engine import judge
from gpustack.errors import InputError, NothingSeenError
from gpustack.imports import load
from gpustack.imports.deadline import judged as in_time
from gpustack.imports.deadline import to_read
from gpustack.matrix import Matrix
from gpustack.model import record, replace
from gpustack.model.report import Purpose, Report
from gpustack.policy import Written, find
from gpustack.policy import load as load_policy
from gpustack.policy.checking import Unmeasured, asks_of_each_link, unmeasurable
from gpustack.policy.checking import check as hold
from gpustack.redaction import ourselves, redact

if TYPE_CHECKING:
    from gpustack.bench.progress import Progress
    from gpustack.model.bench import BenchReport
    from gpustack.model.facts import Facts
    from gpustack.model.policy import CheckReport

BENCH_SECONDS, LEAST_SECONDS, REPORT_SECONDS = 12.0, 3.0, 1.0
DOCTOR_SECONDS = 10.0
GOLDEN_SECONDS = 60.0  # to read a recorded machine
TOLERANCE = 0.03


@record
class Asked:
    """What the check examines, and with what.

    ``recorded`` reads a recorded machine and ``taken`` examines this one, each within a number of seconds.
    """

    recorded: Callable[[Matrix, float], Facts] | None
    taken: Callable[[float], Facts]
    pythons: Sequence[str]
    gpus: Sequence[int]
    count: int | None
    deep: bool
    bench: bool
    saved: Path | None
    golden: Path | None
    purpose: str | None
    until: float
    progress: Callable[[], Progress] | None = None

    def left(self) -> float:
        """Return the seconds left for examining and measuring."""
        return self.until - time.monotonic()


def checked(asked: Asked, named: Path | None) -> CheckReport:
    """Return the machine, examined and measured, compared with the policy."""
    matrix, written = Matrix(), _policy(named)
    golden, origin = _golden(asked, written, matrix)
    report = judged(asked, matrix, asked.purpose or (written.policy.for_.value if written else "any"))
    bench, unmeasured = measured(asked, report, matrix, written)
    return hold(
        report,
        _beside(bench, written),
        written,
        today=datetime.now(timezone.utc).date(),
        golden=golden,
        origin=origin,
        unmeasured=unmeasured,
        gpus=asked.count,
        hide=partial(redact, mine=ourselves(os.environ)),
    )


def _policy(named: Path | None) -> Written | None:
    """Return the named policy, otherwise the nearest one; its path is relative to the working folder."""
    here = isolation.here()
    path = plugins.policy(named) if named else find(Path(here)) if here else None
    if path is None:
        return None
    return load_policy(path.relative_to(here) if here and path.is_relative_to(here) else path)


def judged(asked: Asked, matrix: Matrix, purpose: str) -> Report:
    """Return the doctor's report, within the time that the bench leaves."""
    if asked.recorded:
        facts = asked.recorded(matrix, max(asked.left(), REPORT_SECONDS))
    else:
        later = BENCH_SECONDS if asked.bench else 0.0
        seconds = max(asked.left() - later, LEAST_SECONDS) if asked.deep else min(asked.left(), DOCTOR_SECONDS)
        facts = asked.taken(seconds + REPORT_SECONDS)
    return in_time(lambda known: judge(known, matrix, Purpose(purpose)), facts, asked.until if asked.recorded else None)


def measured(
    asked: Asked, report: Report, matrix: Matrix, written: Written | None = None
) -> tuple[BenchReport | None, Unmeasured | None]:
    """Return the quick bench, or why there is none."""
    if asked.saved:
        return bench.read(asked.saved), None
    if not asked.bench:
        return None, Unmeasured(
            why="the machine is recorded (--bench FILE gives its figures)" if asked.recorded else "--no-bench was given"
        )
    if why := unmeasurable(report):
        return None, why
    if asked.left() < LEAST_SECONDS:
        return None, Unmeasured(why="no time was left for it", blind=True)

    try:
        return bench.measure(
            quick=True,
            gpus=asked.gpus or None,
            spare=not asked.gpus,
            each=written is not None and asks_of_each_link(written.policy),
            pythons=asked.pythons,
            timeout=asked.left(),
            progress=asked.progress() if asked.progress else None,
            matrix=matrix,
        ), None
    except NothingSeenError as error:
        return None, Unmeasured(why=str(error), blind=True)


def _beside(measured: BenchReport | None, written: Written | None) -> BenchReport | None:
    """Return the bench with its comparison, if the policy names a baseline."""
    if measured is None or written is None or not (name := written.policy.bench.baseline):
        return measured
    try:
        older = bench.load(written.beside(name))
    except InputError as error:
        raise InputError(f"{written.place('bench', 'baseline')}: bench.baseline: {error}") from error
    return replace(measured, comparison=bench.compare(measured, older, TOLERANCE))


def _golden(asked: Asked, written: Written | None, matrix: Matrix) -> tuple[Report | None, str]:
    """Return the judged golden machine, and where it was read."""
    named = written.policy.golden.snapshot if written else None
    path = asked.golden or (written.beside(named) if written and named else None)
    if path is None:
        return None, ""
    try:
        stdin = sys.stdin.buffer if sys.stdin else BytesIO()
        return judge(load([str(path)], stdin, matrix, to_read(GOLDEN_SECONDS)), matrix), str(path)
    except InputError as error:
        if asked.golden or written is None:
            raise
        raise InputError(f"{written.place('golden', 'snapshot')}: golden.snapshot: {error}") from error
