"""The commands that measure: bench and stress, how their figures are kept, and fleet pairs: plan and decode."""

from __future__ import annotations

import sys
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpustack.cli import options
from gpustack.cli.examining import without_secrets
from gpustack.cli.options import Formats, Output
from gpustack.cli.results import INTERRUPTED, How, counts, deliver, places, rendered, shown, write
from gpustack.cli.terminal import benchmarks
from gpustack.errors import InputError, UsageError
from gpustack.model import record, replace, writing

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpustack.bench import Older
    from gpustack.model.bench import BenchReport

PERCENT = 100
NOTHING = 3  # nothing was loaded or measured, so nothing is known


@record
class Wanted:
    """What to do with a report; all of it is checked before the lengthy measurement."""

    save: Path | None
    older: Older | None
    tolerance: float
    plot: Path | None


def wanted(save: Path | None, compare: Path | None, tolerance: float, plot: Path | None) -> Wanted:
    """Return what to do; raises for a file that cannot be read and for an unknown kind of picture."""
    from gpustack import bench
    from gpustack.report import plot as drawing

    if plot:
        ending = drawing.kind(plot.name)
        if ending is None:
            raise UsageError(f"a plot's file name must end with {', '.join(drawing.KINDS)}; {plot.name} does not")
        try:
            drawing.check(ending)
        except drawing.CannotError as error:
            raise UsageError(str(error)) from error
    older = bench.load(compare) if compare else None
    return Wanted(save=save, older=older, tolerance=tolerance / PERCENT, plot=plot)


def compared(report: BenchReport, asked: Wanted) -> BenchReport:
    """Return the report with its comparison, if one was requested."""
    from gpustack import bench

    if asked.older is None:
        return report
    return replace(report, comparison=bench.compare(report, asked.older, asked.tolerance))


def kept(report: BenchReport, asked: Wanted) -> None:
    """Save the report and draw it; raises OutputError if writing fails."""
    from gpustack.report import plot as drawing

    if asked.save:
        writing.write(asked.save, writing.render(report))
    if asked.plot:
        writing.write(asked.plot, drawing.picture(report, drawing.kind(asked.plot.name) or ".svg"))


def regressed(report: BenchReport) -> bool:
    """Return whether anything is worse than in the older report."""
    from gpustack import bench

    return report.comparison is not None and bench.regressed(report.comparison)


class Data(str, Enum):
    """The data to compute with."""

    RANDOM = "random"
    ZEROS = "zeros"


def bench(
    context: typer.Context,
    *,
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAMES]...", help="Which benchmarks, such as hbm.read or 'gemm.*'.", autocompletion=benchmarks
        ),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Measure for a few seconds only.")] = False,
    gpus: Annotated[
        list[int] | None,
        typer.Option("--gpu", min=0, metavar="N", help="A GPU, by its CUDA index (repeatable).", show_default="all"),
    ] = None,
    sustain: Annotated[
        float,
        typer.Option(
            "--sustain",
            min=0,
            max=3600,
            metavar="SECONDS",
            help="Also run each matrix product for this long without rest.",
            callback=options.finite,
        ),
    ] = 0.0,
    data: Annotated[
        list[Data] | None,
        typer.Option(
            "--data",
            help="Data to compute with (give both to see how much power is the limit: zeros need less).",
            show_default="random",
        ),
    ] = None,
    repeat: Annotated[
        int, typer.Option("--repeat", min=1, max=1000, metavar="N", help="Run the suite N times; medians are shown.")
    ] = 1,
    save: Annotated[
        Path | None,
        typer.Option(
            "--save",
            metavar="FILE",
            help="Also write the report as JSON, to compare with later.",
            callback=options.writable,
        ),
    ] = None,
    compare: Annotated[
        Path | None,
        typer.Option(
            "--compare", metavar="FILE", help="Compare the figures with a saved report; exit with 1 if any is worse."
        ),
    ] = None,
    tolerance: Annotated[
        float,
        typer.Option(
            "--tolerance",
            min=0,
            max=100,
            metavar="PERCENT",
            help="How much worse figures may be.",
            callback=options.finite,
        ),
    ] = 3.0,
    plot: Annotated[
        Path | None,
        typer.Option(
            "--plot",
            metavar="FILE",
            help="Plot the figures under their limits: FILE.svg, .html or .png.",
            callback=options.writable,
        ),
    ] = None,
    pythons: options.Pythons = None,
    written: options.Shapes = None,
    outputs: options.Outputs = None,
    redacted: options.RedactedBy = None,
    fail_on: options.Fail = "error",
    timeout: options.Timeout = None,
    verbose: options.Verbose = False,
) -> None:
    """Measure all GPUs against limits computed from what they report, and say why a figure is low."""
    from gpustack.bench import measure, shown_on

    results, asked = places(context, written, outputs), wanted(save, compare, tolerance, plot)
    for place in results:
        options.writable(place.output)
    measured = measure(
        names or (),
        quick=quick,
        gpus=gpus or None,
        data="both" if len(set(data or ())) > 1 else (data or [Data.RANDOM])[0].value,
        sustain=sustain,
        repeat=repeat,
        pythons=pythons or (),
        timeout=timeout,
        progress=shown_on(sys.stderr),
    )
    report = compared(measured, asked)
    how = How(redacted=redacted, verbose=verbose, fail_on=fail_on)
    try:
        deliver(results, lambda hidden: without_secrets(report, wanted=hidden), how)
    finally:  # minutes were measured: if one place cannot be written, the others still are
        kept(without_secrets(report, wanted=bool(redacted)), asked)
    above = counts(fail_on, None, report.findings) or regressed(report)
    known = any(result.value is not None or result.verdict.value == "failed" for result in report.results)
    raise typer.Exit(INTERRUPTED if report.interrupted else int(above) if known or above else NOTHING)


def stress(
    *,
    seconds: Annotated[
        float,
        typer.Option(
            "--seconds", min=1, max=604800, metavar="N", help="Duration of the load.", callback=options.finite
        ),
    ] = 60.0,
    gpus: Annotated[
        list[int] | None,
        typer.Option(
            "--gpu",
            min=0,
            metavar="N",
            help="A GPU, by its CUDA index (repeatable: all at the same time).",
            show_default="all that no other process uses",
        ),
    ] = None,
    pythons: options.Pythons = None,
    written: options.Formats = "text",
    output: options.Output = None,
    redacted: options.Redacted = False,
    fail_on: options.Fail = "error",
    verbose: options.Verbose = False,
) -> None:
    """Load all GPUs, using most of their free memory, and compare every result bit by bit: a wrong bit is a failure."""
    from gpustack.bench import Ticker
    from gpustack.bench import stress as burn

    report = burn(seconds, gpus=gpus or None, pythons=pythons or (), ticker=Ticker(sys.stderr, seconds))
    write(shown(without_secrets(report, wanted=redacted), written, output, verbose=verbose), output)
    above = counts(fail_on, None, report.findings)
    loaded = any(result.stress or result.verdict.value == "failed" for result in report.results)
    raise typer.Exit(INTERRUPTED if report.interrupted else int(above) if loaded else NOTHING)


pairs = typer.Typer(
    name="pairs",
    help="Find the nodes and uplinks that make pairs slow or hang.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
Labels = Annotated[
    Path | None,
    typer.Option("--labels", metavar="FILE", help='Racks and switches: {"node1": {"rack": "r1", "switch": "s1"}}.'),
]


@pairs.command("plan")
def plan_pairs(
    named: Annotated[str, typer.Argument(metavar="NODES", help="Such as gpu[0001-1000].")],
    *,
    rounds: Annotated[int, typer.Option("--rounds", min=1, max=20, help="Number of rounds.")] = 3,
    seed: Annotated[int, typer.Option("--seed", min=0, help="The same seed gives the same pairs.")] = 0,
    written: Formats = "text",
    output: Output = None,
) -> None:
    """Print which nodes to measure together, one line `ROUND A B` per pair; pairs of a round run at the same time."""
    from gpustack.fleet import nodes
    from gpustack.fleet import pairs as matching
    from gpustack.matrix import Matrix
    from gpustack.model.fleet import Matchings

    made = Matchings(tool=Matrix().tool, seed=seed, rounds=matching.plan(nodes.expand(named), rounds, seed))
    write(rendered(made, written, "fleet-plan", output, verbose=False), output)


@pairs.command("decode")
def decode_pairs(
    measured: Annotated[
        Path, typer.Argument(metavar="FILE", help="Lines `A B VALUE [ROUND]`, a JSON list, or a folder of A+B.txt.")
    ],
    *,
    labels: Labels = None,
    by: Annotated[str, typer.Option("--by", metavar="LABEL", help="The label that groups nodes.")] = "switch",
    written: Formats = "text",
    output: Output = None,
) -> None:
    """Say which nodes and uplinks make pairs slow or hang, and which pairs would confirm it."""
    from gpustack.fleet import nodes
    from gpustack.fleet import pairs as matching
    from gpustack.matrix import Matrix

    groups: Mapping[str, str] = {}
    if labels:
        groups = {node: held[by] for node, held in nodes.labels(labels).items() if by in held}
        if not groups:
            raise InputError(f"{labels} gives no node a label {by!r}: name another with --by")
    found = matching.decode(matching.read(measured), groups, Matrix().date)
    write(rendered(found, written, "fleet-pairs", output, verbose=False), output)
    raise typer.Exit(int(bool(found.suspects)))
