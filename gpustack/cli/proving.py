"""The command that proves itself: selftest."""

from __future__ import annotations

import typer

from gpustack.cli.options import Formats, Output, Verbose
from gpustack.cli.results import rendered, write


def selftest(*, written: Formats = "text", output: Output = None, verbose: Verbose = False) -> None:
    """Prove on this machine that each check can fire, and that sick probes are stopped."""
    from gpustack.matrix import Matrix
    from gpustack.selftest import prove

    tested = prove(Matrix())
    write(rendered(tested, written, "selftest", output, verbose=verbose), output)
    raise typer.Exit(0 if tested.held else 1)
