"""The health check for CI and schedulers."""

from __future__ import annotations

import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import typer

from gpustack.cli import options
from gpustack.cli.examining import read, taken, without_secrets
from gpustack.cli.results import INTERRUPTED, OTHERS_UNKNOWN, How, deliver, places
from gpustack.errors import UsageError
from gpustack.model import writing

if TYPE_CHECKING:
    from gpustack.bench.progress import Progress
    from gpustack.library.checking import Asked
    from gpustack.model.policy import CheckReport

Style: TypeAlias = Literal["gpustack", "nagios", "npd"]
CHECK_SECONDS = 60.0
NAGIOS = {"ok": 0, "degraded": 1, "bad-host": 2, "bad-environment": 2, "unknown": 3}
ORDER = ("error", "warning", "unknown")


def check(
    context: typer.Context,
    *,
    policy: Annotated[
        Path | None,
        typer.Option("--policy", metavar="FILE", help="The policy.", show_default="gpustack.toml, from here upwards"),
    ] = None,
    init: Annotated[bool, typer.Option("--init", help="Write a policy from this machine, and stop.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Let --init overwrite an existing policy.")] = False,
    golden: Annotated[
        Path | None, typer.Option("--golden", metavar="FILE", help="A snapshot that the machine must match.")
    ] = None,
    no_bench: Annotated[bool, typer.Option("--no-bench", help="Measure nothing.")] = False,
    saved: Annotated[
        Path | None, typer.Option("--bench", metavar="FILE", help="Use a saved bench report; measure nothing.")
    ] = None,
    gpus: Annotated[
        list[int] | None,
        typer.Option(
            "--gpu",
            min=0,
            metavar="N",
            help="A GPU to measure, even if another process uses it (repeatable).",
            show_default="all that are free",
        ),
    ] = None,
    count: Annotated[
        int | None,
        typer.Option(
            "--gpus",
            min=0,
            metavar="N",
            help="The required number of GPUs: fewer are a fault of the host, more a warning, 0 for none.",
            show_default="what the policy says, else one or more",
        ),
    ] = None,
    origins: options.Origins = None,
    deep: options.Deep = False,
    pythons: options.Pythons = None,
    _plugins: options.Plugins = None,
    purpose: Annotated[
        Literal["train", "infer", "build", "any"] | None,
        typer.Option("--for", help="What the machine is for.", show_default="what the policy says, else any"),
    ] = None,
    written: options.Shapes = None,
    outputs: options.Outputs = None,
    redacted: options.RedactedBy = None,
    fail_on: options.Fail = "error",
    exit_style: Annotated[
        Style, typer.Option("--exit-style", help="Exit codes of Nagios, node-problem-detector, or gpustack.")
    ] = "gpustack",
    timeout: options.Timeout = None,
    verbose: options.Detail = 0,
    quiet: options.Quiet = False,
) -> None:
    """Say whether this machine may be used and, if not, whose fault it is: doctor and quick bench against a policy."""
    from gpustack.library.checking import REPORT_SECONDS, Asked, checked

    asked = Asked(
        recorded=partial(read, origins) if origins else None,
        taken=partial(taken, pythons, deep=deep),
        pythons=pythons or (),
        gpus=gpus or (),
        count=count,
        deep=deep,
        bench=not no_bench and not origins and not saved,
        saved=saved,
        golden=golden,
        purpose=purpose,
        until=time.monotonic() + (timeout or CHECK_SECONDS) - REPORT_SECONDS,
        progress=_shown,
    )
    if origins and (deep or pythons or gpus):
        raise UsageError("--from cannot be combined with --deep, --python or --gpu: a recording is judged as it is")
    if saved and no_bench:
        raise UsageError("--bench and --no-bench contradict each other")
    if init:
        _draft(policy or Path("gpustack.toml"), asked, force=force)
        return
    wanted = places(context, written, outputs)
    report = checked(asked, policy)
    how = How(redacted=redacted, verbose=verbose, quiet=quiet, fail_on=fail_on, origins=origins or ())
    deliver(wanted, lambda hidden: without_secrets(report, wanted=hidden, here=not origins), how)
    raise typer.Exit(_code(report, fail_on, exit_style))


def _shown() -> Progress:
    from gpustack.bench import shown_on

    return shown_on(sys.stderr)


def _code(report: CheckReport, fail_on: str, style: Style) -> int:
    """Return the exit code: ours, Nagios' by the class, or node-problem-detector's."""
    from gpustack.policy.checking import failed

    if report.bench and report.bench.interrupted == "Ctrl-C":
        return INTERRUPTED
    wrong = failed(report, ORDER[: ORDER.index(fail_on) + 1] if fail_on in ORDER else ())
    if style == "nagios":
        return NAGIOS[report.class_.value]
    return OTHERS_UNKNOWN["npd"] if style == "npd" and not wrong and report.class_.value == "unknown" else int(wrong)


def _draft(path: Path, asked: Asked, *, force: bool) -> None:
    """Write a policy from this machine; an existing one is not overwritten."""
    from gpustack.library.checking import judged, measured
    from gpustack.matrix import Matrix
    from gpustack.policy.generate import draft

    if path.name == "pyproject.toml":
        raise UsageError("--init writes a file of its own, such as gpustack.toml; its tables may be moved by hand")
    if path.exists() and not force:
        raise UsageError(f"{path} already exists: --force overwrites it")
    options.writable(path)
    matrix = Matrix()
    report = judged(asked, matrix, asked.purpose or "any")
    bench, _ = measured(asked, report, matrix)
    writing.write(path, draft(report, bench, asked.purpose))
    typer.echo(f"gpustack: {path} was written; review it and adjust it", err=True)
