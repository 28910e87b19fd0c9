"""Many machines: fleet collect, judge, pairs, diff, since and gate."""

from __future__ import annotations

import re
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from gpustack.cli.options import Fail, Formats, Output, Verbose
from gpustack.cli.results import rendered, write
from gpustack.errors import InputError, UsageError
from gpustack.report import renderer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpustack.model.fleet import FleetReport

fleet = typer.Typer(
    name="fleet",
    help="Judge many machines together: who is broken, who drifts, who is slow, who is missing.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
pairs = typer.Typer(
    name="pairs",
    help="Find the nodes and uplinks that make pairs slow or hang.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
fleet.add_typer(pairs)
IMAGE = re.compile(r"[\w][\w./:@-]{0,500}")
Folder = Annotated[Path, typer.Argument(metavar="DIR", help="A folder with NODE.json.gz of each node.")]
Named = Annotated[
    str | None,
    typer.Option("--nodes", metavar="NODES", help="Such as gpu[001-128],login1.", show_default="all that there are"),
]
Store = Annotated[
    Path, typer.Option("--store", metavar="FILE", help="What gpustack fleet judge wrote: DIR/fleet.sqlite.")
]
Labels = Annotated[
    Path | None,
    typer.Option("--labels", metavar="FILE", help='Racks and switches: {"node1": {"rack": "r1", "switch": "s1"}}.'),
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
        str, typer.Option("--program", metavar="COMMAND", help="gpustack, as the nodes call it.")
    ] = "gpustack",
    image: Annotated[str, typer.Option("--image", metavar="IMAGE", help="Of the Jobs, with Kubernetes.")] = "",
    manifest: Annotated[
        Path | None, typer.Option("--manifest", metavar="FILE", help="A Job of your own, instead of ours.")
    ] = None,
    bench: Annotated[bool, typer.Option("--bench", help="Run the quick bench as well.")] = False,
    again: Annotated[bool, typer.Option("--again", help="Ask nodes that have answered before, too.")] = False,
    seconds: Annotated[
        float, typer.Option("--timeout", min=1, max=3600, metavar="SECONDS", help="For one answer of one node.")
    ] = 60.0,
    attempts: Annotated[int, typer.Option("--attempts", min=1, max=9, help="How often a node is asked.")] = 2,
    width: Annotated[int, typer.Option("--width", min=1, max=1024, help="How many nodes at the same time.")] = 64,
) -> None:
    """Record every node with the site's own launcher; one that does not answer costs nobody else anything.

    A second run asks only the nodes that are missing.
    """
    from gpustack.fleet import collecting, nodes
    from gpustack.matrix import Matrix
    from gpustack.matrix.subjects.fleet import engines

    if engine == "kubernetes" and not (manifest or IMAGE.fullmatch(image)):
        raise UsageError("--engine kubernetes needs --image: one that holds gpustack")
    if engine == "ray":
        reach: collecting.Reach = collecting.ray_reach
        wanted = nodes.expand(named) if named else collecting.ray_names()
    else:
        row = collecting.engine(engines(Matrix()), engine)
        reach = collecting.launcher(replace(row, manifest=nodes.text(manifest)) if manifest else row, image)
        wanted = nodes.expand(named) if named else collecting.names(row, seconds)
    plan = collecting.Plan(
        reach=reach,
        folder=folder,
        program=tuple(shlex.split(program)),
        bench=bench,
        seconds=seconds,
        attempts=attempts,
        width=width,
        again=again,
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
    workers: Annotated[
        int | None, typer.Option("--workers", min=1, max=256, help="Processes.", show_default="one a core")
    ] = None,
    written: Annotated[
        Literal["text", "json", "html", "prometheus", "junit", "nodelist"],
        typer.Option("--format", help="How the result is written."),
    ] = "text",
    output: Output = None,
    fail_on: Fail = "error",
    verbose: Verbose = False,
) -> None:
    """Judge all recorded nodes together: classes by cause, drift, low figures, and who is missing."""
    from gpustack.fleet import nodes
    from gpustack.fleet.judging import judge as judge_all

    known = nodes.labels(labels) if labels else {}
    shown = sys.stderr.isatty()

    def told(done: int, of: int) -> None:
        if shown:
            typer.echo(f"\rgpustack: {done} of {of} nodes", err=True, nl=done == of)

    whole = judge_all(folder, labels=known, workers=workers, progress=told)
    report = whole.report
    nodes.add(store or folder / nodes.STORE, folder, report, whole.gathered.seen)
    if written in {"text", "json"}:
        text = rendered(report, "json" if written == "json" else "text", "fleet", output, verbose=verbose)
    else:
        text = renderer(f"fleet-{written}")(report)
    write(text, output)
    raise typer.Exit(int(_counts(report, fail_on)))


def _counts(report: FleetReport, fail_on: str) -> bool:
    """Return whether anything weighs as much as was asked: a missing node is unknown, a low figure a warning."""
    order = ("error", "warning", "unknown")
    wanted = order[: order.index(fail_on) + 1] if fail_on in order else ()
    found = {one.severity.value for held in report.classes for one in held.findings if one.caused_by is None}
    found |= {"warning"} if any(one.outliers for one in report.figures) else set()
    found |= {"unknown"} if report.missing else set()
    return any(one in found for one in wanted)


@fleet.command()
def diff(
    before: Annotated[Path, typer.Argument(metavar="A", help="A folder of nodes as they were.")],
    after: Annotated[Path, typer.Argument(metavar="B", help="The same nodes later.")],
    *,
    written: Formats = "text",
    output: Output = None,
    verbose: Verbose = False,
) -> None:
    """Say which nodes got worse, better or lost between two collections, and what changed on them."""
    from gpustack.fleet import judging

    write(rendered(judging.between(before, after), written, "fleet-diff", output, verbose=verbose), output)


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
    from gpustack import __version__
    from gpustack.fleet import nodes
    from gpustack.matrix import Matrix
    from gpustack.model.fleet import History
    from gpustack.model.report import Tool

    found = nodes.since(store, finding)
    if not found and finding not in nodes.ids(store):
        _known(finding, nodes.ids(store))
    tool = Tool(name="gpustack", version=__version__, matrix_date=Matrix().date)
    history = History(tool=tool, finding=finding, nodes=found)
    write(rendered(history, written, "fleet-since", output, verbose=verbose), output)


def _known(finding: str, had: tuple[str, ...]) -> None:
    """Refuse what is no finding at all; one that no node has had is an answer."""
    from difflib import get_close_matches

    from gpustack.diagnose.rulebook import ids

    if finding not in ids():
        near = ", ".join(get_close_matches(finding, {*ids(), *had}, 3))
        raise UsageError(f"no finding is called {finding!r}{f': did you mean {near}?' if near else ''}")


@fleet.command()
def gate(
    named: Annotated[str | None, typer.Argument(metavar="NODES", help="Such as gpu[001-008].")] = None,
    *,
    store: Store,
    warnings: Annotated[bool, typer.Option("--warnings", help="Hold back nodes with warnings, too.")] = False,
    unknown: Annotated[bool, typer.Option("--unknown", help="Hold back nodes that the store has never seen.")] = False,
    written: Annotated[
        Literal["nodelist", "text", "json"], typer.Option("--format", help="How the nodes to leave out are written.")
    ] = "nodelist",
) -> None:
    """Print the nodes that must take no work, by the last run, and exit with 1 where there are any."""
    from gpustack.fleet import nodes
    from gpustack.model.fleet import fold

    answers = nodes.gate(store, nodes.expand(named) if named else (), warnings=warnings)
    held = {
        one.node: one.why or "the store has never seen it" for one in answers if one.why or (unknown and not one.known)
    }
    if written == "json":
        import json

        typer.echo(json.dumps({"schema": "gpustack.fleet-gate/1", "exclude": held}, indent=1))
    elif written == "text":
        for name, why in held.items():
            typer.echo(f"{name}: {why}")
    elif held:
        typer.echo(fold(held))
    raise typer.Exit(int(bool(held)))


@pairs.command("plan")
def plan_pairs(
    named: Annotated[str, typer.Argument(metavar="NODES", help="Such as gpu[0001-1000].")],
    *,
    rounds: Annotated[int, typer.Option("--rounds", min=1, max=20, help="How many.")] = 3,
    seed: Annotated[int, typer.Option("--seed", min=0, help="The same seed, the same pairs.")] = 0,
    written: Formats = "text",
    output: Output = None,
) -> None:
    """Print who is measured with whom, a line `ROUND A B` for each pair; the pairs of a round run at the same time."""
    from gpustack import __version__
    from gpustack.fleet import nodes
    from gpustack.fleet import pairs as matching
    from gpustack.matrix import Matrix
    from gpustack.model.fleet import Matchings
    from gpustack.model.report import Tool

    tool = Tool(name="gpustack", version=__version__, matrix_date=Matrix().date)
    made = Matchings(tool=tool, seed=seed, rounds=matching.plan(nodes.expand(named), rounds, seed))
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
