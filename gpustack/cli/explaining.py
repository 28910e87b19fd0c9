"""The command that explains: findings, numbers, error lines, systems, layers and terms of the stack."""

from __future__ import annotations

from typing import Annotated

import typer

from gpustack.cli.options import Formats, Output
from gpustack.cli.results import rendered, write


def explain(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="WORDS...",
            help="A finding id, an Xid, an error number or name, a pasted error line, a system, a layer or a term.",
        ),
    ],
    *,
    written: Formats = "text",
    output: Output = None,
) -> None:
    """Say what a finding, an error, a system or a term of the stack means, how to see it here and how to fix it."""
    from gpustack import explain
    from gpustack.matrix import Matrix

    explanation = explain.explain(words, Matrix())
    write(rendered(explanation, written, "explanation", output, verbose=False), output)
    raise typer.Exit(0 if explanation.known else 1)
