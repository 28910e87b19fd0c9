"""Many machines: fleet collect, judge, pairs, diff, since and gate."""

from __future__ import annotations

import json
import re
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from gpustack.cli.measuring import Labels, pairs
from gpustack.cli.options import Fail, Formats, Hidden, Output, Plugins, Pseudonyms, Verbose
from gpustack.cli.results import rendered, write
from gpustack.errors import UsageError
from gpustack.plugins import LOADED
from gpustack.report import renderer

if TYPE_CHECKING:
    from gpustack.model.fleet import FleetReport

fleet = typer.Typer(
    name="fleet",
    help="Judge many machines together: which are broken, differ, are slow or are missing.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
fleet.add_typer(pairs)
IMAGE = re.compile(r"[\w][\w./:@-]{0,500}")
Folder = Annotated[Path, typer.Argument(metavar="DIR", help="A folder with NODE.json.gz of each node.")]
Named = Annotated[
    str | None, typer.Option("--nodes", metavar="NODES", help="Such as gpu[001-128],login1.", show_default="all")
]
Store = Annotated[
    Path, typer.Option("--store", metavar="FILE", help="The store that gpustack fleet judge wrote: DIR/fleet.sqlite.")
]


@fleet.command()
def collect(
    folder: Folder,
    *,
    engine: Annotated[
        Literal["slurm", "kubernetes", "ray", "mpi", "ssh"], typer.Option("--engine", help="How nodes are reached.")
    ],
    named: Named = None,
    program: Annotated[
        str, typer.Option("--program", metavar="COMMAND", help="The gpustack command on the nodes.")
    ] = "gpustack",
    image: Annotated[str, typer.Option("--image", metavar="IMAGE", help="Image for the Jobs (Kubernetes).")] = "",
    manifest: Annotated[
        Path | None, typer.Option("--manifest", metavar="FILE", help="Your own Job instead of the built-in one.")
    ] = None,
    bench: Annotated[bool, typer.Option("--bench", help="Also run the quick bench.")] = False,
    again: Annotated[
        bool, typer.Option("--again", help="Also ask nodes that have answered before; a bench is added.")
    ] = False,
    pseudonyms: Pseudonyms = None,
    seconds: Annotated[
        float,
        typer.Option("--timeout", min=1, max=3600, metavar="SECONDS", help="Time limit for one answer of one node."),
    ] = 60.0,
    attempts: Annotated[int, typer.Option("--attempts", min=1, max=9, help="How many times to ask a node.")] = 2,
    width: Annotated[
        int, typer.Option("--width", min=1, max=1024, help="How many nodes to ask at the same time.")
    ] = 64,
) -> None:
    """Record every node with the site's own launcher; one that does not answer does not affect the others.

    A second run asks only the nodes that are missing.
    """
    from gpustack.fleet import collecting, launching, nodes
    from gpustack.matrix import Matrix

    hidden = Hidden(pseudonyms) if pseudonyms else None
    if engine == "kubernetes" and not (manifest or IMAGE.fullmatch(image)):
        raise UsageError("--engine kubernetes needs --image: one that holds gpustack")
    if engine == "ray":
        reach: launching.Reach = launching.ray_reach
        wanted = nodes.expand(named) if named else launching.ray_names()
    else:
        row = launching.engine(launching.engines(Matrix()), engine)
        reach = launching.launcher(replace(row, manifest=nodes.text(manifest)) if manifest else row, image)
        wanted = nodes.expand(named) if named else launching.names(row, seconds)
    if hidden:
        hidden.hosts += wanted
    plan = collecting.Plan(
        reach=reach,
        folder=folder,
        program=tuple(shlex.split(program)),
        bench=bench,
        seconds=seconds,
        attempts=attempts,
        width=width,
        again=again,
        called=hidden.called if hidden else str,
        hide=hidden.out_of if hidden else None,
    )
    shown = sys.stderr.isatty()

    def told(done: int, of: int, name: str) -> None:
        if shown:
            typer.echo(f"\rgpustack: {done} of {of} nodes, last {name:40.40}", err=True, nl=done == of)

    done = collecting.collect(plan, wanted, told)
    typer.echo(f"{len(done.answered)} answered, {len(done.kept)} had answered before, {len(done.missing)} are missing")
    for name, why in sorted(done.missing.items()):
        typer.echo(f"  {name}: {why}")
    raise typer.Exit(1 if done.missing else 0)


@fleet.command()
def judge(
    folder: Folder,
    *,
    store: Annotated[
        Path | None,
        typer.Option("--store", metavar="FILE", help="Where runs are kept.", show_default="DIR/fleet.sqlite"),
    ] = None,
    labels: Labels = None,
    pseudonyms: Pseudonyms = None,
    _plugins: Plugins = None,
    workers: Annotated[
        int | None, typer.Option("--workers", min=1, max=256, help="Number of processes.", show_default="one per core")
    ] = None,
    ray: Annotated[bool, typer.Option("--ray", help="Judge on the Ray cluster, whose nodes must see DIR.")] = False,
    written: Annotated[
        Literal["text", "json", "html", "prometheus", "junit", "nodelist"],
        typer.Option("--format", help="Format of the result."),
    ] = "text",
    output: Output = None,
    fail_on: Fail = "error",
    verbose: Verbose = False,
) -> None:
    """Judge all recorded nodes together: classes by cause, drift, low figures, and missing nodes.

    DIR may also be a file that gpustack fleet pack wrote: SQLite, DuckDB or Parquet.
    """
    from gpustack.fleet import nodes, runs
    from gpustack.fleet.judging import judge as judge_all

    for fault in LOADED.faults:
        typer.echo(f"gpustack: {fault.what} is left out: {fault.why}", err=True)
    if pseudonyms and written == "nodelist":
        raise UsageError("--pseudonyms and --format nodelist contradict each other: a scheduler needs the names")
    known = nodes.labels(labels) if labels else {}
    hidden = Hidden(pseudonyms) if pseudonyms else None
    shown = sys.stderr.isatty()

    def told(done: int, of: int) -> None:
        if shown:
            typer.echo(f"\rgpustack: {done} of {of} nodes", err=True, nl=done == of)

    called = hidden.called if hidden else str
    with nodes.unpacked(folder) as files:
        whole = judge_all(files, labels=known, workers=workers, progress=told, called=called, ray=ray)
        report = whole.report
        if hidden:
            hidden.know(files)
            report = hidden.out_of(report)
    if kept := store or (folder / runs.STORE if folder.is_dir() and not hidden else None):
        runs.add(kept, folder, report, whole.gathered.seen)
    if written in {"text", "json"}:
        text = rendered(report, "json" if written == "json" else "text", "fleet", output, verbose=verbose)
    else:
        text = renderer(f"fleet-{written}")(report)
    write(text, output)
    raise typer.Exit(int(_counts(report, fail_on)))


def _counts(report: FleetReport, fail_on: str) -> bool:
    """Return whether anything reaches the threshold: a missing node is unknown, a low figure a warning."""
    order = ("error", "warning", "unknown")
    wanted = order[: order.index(fail_on) + 1] if fail_on in order else ()
    found = {one.severity.value for held in report.classes for one in held.findings if one.caused_by is None}
    found |= {"warning"} if any(one.outliers for one in report.figures) else set()
    found |= {"unknown"} if report.missing else set()
    return any(one in found for one in wanted)


@fleet.command()
def diff(
    before: Annotated[Path, typer.Argument(metavar="A", help="A folder of nodes, earlier.")],
    after: Annotated[Path, typer.Argument(metavar="B", help="The same nodes, later.")],
    *,
    pseudonyms: Pseudonyms = None,
    _plugins: Plugins = None,
    written: Formats = "text",
    output: Output = None,
    verbose: Verbose = False,
) -> None:
    """Say which nodes got worse, got better or were lost between two collections, and what changed on them."""
    from gpustack.fleet import judging

    hidden = Hidden(pseudonyms) if pseudonyms else None
    found = judging.between(before, after, hidden.called if hidden else str)
    if hidden:
        hidden.know(before, after)
        found = hidden.out_of(found)
    write(rendered(found, written, "fleet-diff", output, verbose=verbose), output)


@fleet.command()
def pack(
    folder: Folder,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Such as nodes.sqlite, nodes.duckdb or nodes.parquet.")],
) -> None:
    """Write a folder of nodes into one file, which gpustack fleet judge reads too; two of the formats need DuckDB."""
    from gpustack.fleet import nodes

    typer.echo(f"{nodes.pack(folder, file)} recordings written")


@fleet.command()
def since(
    finding: Annotated[str, typer.Argument(metavar="FINDING", help="The id of a finding, such as gpu-xid.")],
    *,
    store: Store,
    written: Formats = "text",
    output: Output = None,
    verbose: Verbose = False,
) -> None:
    """Say which nodes have had a finding, since when, how often, and across how many boots."""
    from gpustack.fleet import runs
    from gpustack.matrix import Matrix
    from gpustack.model.fleet import History

    found = runs.since(store, finding)
    if not found and finding not in runs.ids(store):
        _known(finding, runs.ids(store))
    history = History(tool=Matrix().tool, finding=finding, nodes=found)
    write(rendered(history, written, "fleet-since", output, verbose=verbose), output)


def _known(finding: str, had: tuple[str, ...]) -> None:
    """Raise UsageError for an unknown finding; a known one that no node has had is an answer."""
    from difflib import get_close_matches

    from gpustack.diagnose.rule import ids

    if finding not in ids():
        near = ", ".join(get_close_matches(finding, {*ids(), *had}, 3))
        raise UsageError(f"there is no finding {finding!r}{f': did you mean {near}?' if near else ''}")


@fleet.command()
def gate(
    named: Annotated[str | None, typer.Argument(metavar="NODES", help="Such as gpu[001-008].")] = None,
    *,
    store: Store,
    warnings: Annotated[bool, typer.Option("--warnings", help="Also hold back nodes with warnings.")] = False,
    unknown: Annotated[
        bool, typer.Option("--unknown", help="Also hold back nodes that the store has never seen.")
    ] = False,
    written: Annotated[
        Literal["nodelist", "text", "json"], typer.Option("--format", help="Format of the list of nodes.")
    ] = "nodelist",
) -> None:
    """Print the nodes that must take no work after the last run, and exit with 1 if there are any."""
    from gpustack.fleet import nodes, runs
    from gpustack.model.fleet import fold

    answers = runs.gate(store, nodes.expand(named) if named else (), warnings=warnings)
    held = {
        one.node: one.why or "the store has never seen it" for one in answers if one.why or (unknown and not one.known)
    }
    if written == "json":
        typer.echo(json.dumps({"schema": "gpustack.fleet-gate/1", "exclude": held}, indent=1))
    elif written == "text":
        for name, why in held.items():
            typer.echo(f"{name}: {why}")
    elif held:
        typer.echo(fold(held))
    raise typer.Exit(int(bool(held)))
