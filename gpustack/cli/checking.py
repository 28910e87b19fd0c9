"""The health check for CI and schedulers."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import typer

from gpustack.cli import options
from gpustack.cli.examining import DOCTOR_SECONDS, read, taken, without_secrets
from gpustack.cli.results import INTERRUPTED, OTHERS_UNKNOWN, How, deliver, places
from gpustack.collect import isolation
from gpustack.errors import InputError, NothingSeenError, UsageError
from gpustack.model import writing

if TYPE_CHECKING:
    from gpustack.matrix import Matrix
    from gpustack.model.bench import BenchReport
    from gpustack.model.policy import CheckReport
    from gpustack.model.report import Report
    from gpustack.policy import Written
    from gpustack.policy.checking import Unmeasured

Style: TypeAlias = Literal["gpustack", "nagios", "npd"]
CHECK_SECONDS, BENCH_SECONDS, LEAST_SECONDS, REPORT_SECONDS = 60.0, 12.0, 3.0, 1.0
TOLERANCE = 0.03
NAGIOS = {"ok": 0, "degraded": 1, "bad-host": 2, "bad-environment": 2, "unknown": 3}
ORDER = ("error", "warning", "unknown")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the check is to look at, and with what."""

    origins: list[str] | None
    pythons: list[str] | None
    gpus: list[int] | None
    count: int | None
    deep: bool
    bench: bool
    saved: Path | None
    golden: Path | None
    purpose: str | None
    until: float

    def left(self) -> float:
        """Return the seconds that are left for looking and measuring."""
        return self.until - time.monotonic()


def check(
    context: typer.Context,
    *,
    policy: Annotated[
        Path | None,
        typer.Option("--policy", metavar="FILE", help="The policy.", show_default="gpustack.toml, from here upwards"),
    ] = None,
    init: Annotated[bool, typer.Option("--init", help="Write a policy from this machine, and stop.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Let --init write over a policy that is there.")] = False,
    golden: Annotated[
        Path | None, typer.Option("--golden", metavar="FILE", help="A snapshot that the machine must be like.")
    ] = None,
    no_bench: Annotated[bool, typer.Option("--no-bench", help="Measure nothing.")] = False,
    saved: Annotated[
        Path | None, typer.Option("--bench", metavar="FILE", help="Take a saved report of the bench; measure nothing.")
    ] = None,
    gpus: Annotated[
        list[int] | None,
        typer.Option(
            "--gpu",
            min=0,
            metavar="N",
            help="A GPU to measure, also where another process is on it (repeatable).",
            show_default="all that are free",
        ),
    ] = None,
    count: Annotated[
        int | None,
        typer.Option(
            "--gpus",
            min=0,
            metavar="N",
            help="How many GPUs there must be: fewer are a fault of the host, more a warning, 0 for none.",
            show_default="what the policy says, else one or more",
        ),
    ] = None,
    origins: options.Origins = None,
    deep: options.Deep = False,
    pythons: options.Pythons = None,
    purpose: Annotated[
        Literal["train", "infer", "build", "any"] | None,
        typer.Option("--for", help="What the machine is for.", show_default="what the policy says, else any"),
    ] = None,
    written: options.Shapes = None,
    outputs: options.Outputs = None,
    redacted: options.RedactedBy = None,
    fail_on: options.Fail = "error",
    exit_style: Annotated[
        Style, typer.Option("--exit-style", help="Whose exit codes: Nagios, the node problem detector, or ours.")
    ] = "gpustack",
    timeout: options.Timeout = None,
    verbose: options.Detail = 0,
    quiet: options.Quiet = False,
) -> None:
    """Say whether this machine may be used, and if not, whose fault it is: doctor and quick bench against a policy."""
    asked = Asked(
        origins=origins,
        pythons=pythons,
        gpus=gpus,
        count=count,
        deep=deep,
        bench=not no_bench and not origins and not saved,
        saved=saved,
        golden=golden,
        purpose=purpose,
        until=time.monotonic() + (timeout or CHECK_SECONDS) - REPORT_SECONDS,
    )
    if origins and (deep or pythons or gpus):
        raise UsageError("--from does not go with --deep, --python or --gpu: what is recorded is judged as it is")
    if saved and no_bench:
        raise UsageError("--bench and --no-bench contradict one another")
    if init:
        _draft(policy or Path("gpustack.toml"), asked, force=force)
        return
    wanted = places(context, written, outputs)
    report = _checked(asked, policy)
    how = How(redacted=redacted, verbose=verbose, quiet=quiet, fail_on=fail_on, origins=origins or ())
    deliver(wanted, lambda hidden: without_secrets(report, wanted=hidden, here=not origins), how)
    raise typer.Exit(_code(report, fail_on, exit_style))


def _checked(asked: Asked, named: Path | None) -> CheckReport:
    """Look, measure, and hold all of it against the policy."""
    from datetime import datetime, timezone

    from gpustack.matrix import Matrix
    from gpustack.policy.checking import check as hold
    from gpustack.redaction import ourselves, redact

    matrix, written = Matrix(), _policy(named)
    golden, origin = _golden(asked, written, matrix)
    report = _judged(asked, matrix, asked.purpose or (written.policy.for_.value if written else "any"))
    bench, unmeasured = _measured(asked, report, matrix, written)
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
    """Return the policy that is named, else the nearest; its path as it is seen from here."""
    from gpustack.policy import find, load

    here = isolation.here()
    path = named or (find(Path(here)) if here else None)
    if path is None:
        return None
    return load(path.relative_to(here) if here and path.is_relative_to(here) else path)


def _judged(asked: Asked, matrix: Matrix, purpose: str) -> Report:
    from gpustack.diagnose.engine import judge
    from gpustack.imports.deadline import judged as in_time
    from gpustack.model.report import Purpose

    if asked.origins:
        facts = read(asked.origins, matrix, max(asked.left(), REPORT_SECONDS))
    else:
        later = BENCH_SECONDS if asked.bench else 0.0
        seconds = max(asked.left() - later, LEAST_SECONDS) if asked.deep else min(asked.left(), DOCTOR_SECONDS)
        facts = taken(asked.pythons, seconds + REPORT_SECONDS, deep=asked.deep)
    return in_time(lambda known: judge(known, matrix, Purpose(purpose)), facts, asked.until if asked.origins else None)


def _measured(
    asked: Asked, report: Report, matrix: Matrix, written: Written | None = None
) -> tuple[BenchReport | None, Unmeasured | None]:
    """Return the quick bench, or why there is none."""
    from gpustack.policy.checking import Unmeasured, asks_of_each_link, unmeasurable

    if asked.saved:
        from gpustack.bench.comparing import read as read_bench

        return read_bench(asked.saved), None
    if not asked.bench:
        return None, Unmeasured(
            why="the machine is recorded (--bench FILE gives its figures)" if asked.origins else "--no-bench was given"
        )
    if why := unmeasurable(report):
        return None, why
    if asked.left() < LEAST_SECONDS:
        return None, Unmeasured(why="no time was left for it", blind=True)
    from gpustack.bench import measure, shown_on

    try:
        return measure(
            quick=True,
            gpus=asked.gpus or None,
            spare=not asked.gpus,
            each=written is not None and asks_of_each_link(written.policy),
            pythons=asked.pythons or (),
            timeout=asked.left(),
            progress=shown_on(sys.stderr),
            matrix=matrix,
        ), None
    except NothingSeenError as error:
        return None, Unmeasured(why=str(error), blind=True)


def _beside(bench: BenchReport | None, written: Written | None) -> BenchReport | None:
    """Return the bench with its comparison, where the policy names a baseline."""
    if bench is None or written is None or not (name := written.policy.bench.baseline):
        return bench
    from gpustack.bench import comparing

    try:
        older = comparing.load(written.beside(name))
    except InputError as error:
        raise InputError(f"{written.place('bench', 'baseline')}: bench.baseline: {error}") from error
    return replace(bench, comparison=comparing.compare(bench, older, TOLERANCE))


def _golden(asked: Asked, written: Written | None, matrix: Matrix) -> tuple[Report | None, str]:
    """Return the golden machine, judged, and where it was read."""
    from gpustack.diagnose.engine import judge

    named = written.policy.golden.snapshot if written else None
    path = asked.golden or (written.beside(named) if written and named else None)
    if path is None:
        return None, ""
    try:
        return judge(read([str(path)], matrix), matrix), str(path)
    except InputError as error:
        if asked.golden or written is None:
            raise
        raise InputError(f"{written.place('golden', 'snapshot')}: golden.snapshot: {error}") from error


def _code(report: CheckReport, fail_on: str, style: Style) -> int:
    """Return the exit code: ours, Nagios' by the class, or that of the node problem detector."""
    from gpustack.policy.checking import failed

    if report.bench and report.bench.interrupted == "Ctrl-C":
        return INTERRUPTED
    wrong = failed(report, ORDER[: ORDER.index(fail_on) + 1] if fail_on in ORDER else ())
    if style == "nagios":
        return NAGIOS[report.class_.value]
    return OTHERS_UNKNOWN["npd"] if style == "npd" and not wrong and report.class_.value == "unknown" else int(wrong)


def _draft(path: Path, asked: Asked, *, force: bool) -> None:
    """Write a policy from this machine; one that is there is left alone."""
    from gpustack.matrix import Matrix
    from gpustack.policy.generate import draft

    if path.name == "pyproject.toml":
        raise UsageError("--init writes a file of its own, such as gpustack.toml; its tables may be moved by hand")
    if path.exists() and not force:
        raise UsageError(f"{path} is there already: --force writes over it")
    options.writable(path)
    matrix = Matrix()
    report = _judged(asked, matrix, asked.purpose or "any")
    bench, _ = _measured(asked, report, matrix)
    writing.write(path, draft(report, bench, asked.purpose))
    typer.echo(f"gpustack: {path} was written; read it, and change what you want otherwise", err=True)
