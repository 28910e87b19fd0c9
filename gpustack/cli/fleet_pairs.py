"""Which nodes and uplinks make pairs slow: fleet pairs plan and decode."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpustack.cli.options import Formats, Output
from gpustack.cli.results import rendered, write
from gpustack.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

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
