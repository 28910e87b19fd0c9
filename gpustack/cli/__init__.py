"""The command line: the only room that knows flags and exit codes."""

from __future__ import annotations

import sys
from typing import Annotated, NoReturn

import typer

from gpustack.cli import asking, checking, examining, explaining, measuring, proving
from gpustack.cli.outputs import Ordered
from gpustack.cli.results import INTERRUPTED
from gpustack.errors import GpustackError
from gpustack.interrupting import heard

BROKEN = 3

app = typer.Typer(
    name="gpustack",
    add_completion=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _say_version(*, wanted: bool) -> None:
    if wanted:
        from gpustack import __version__
        from gpustack.matrix import Matrix

        typer.echo(f"gpustack {__version__} (compatibility matrix of {Matrix().date})")
        raise typer.Exit


@app.callback()
def gpustack(
    *,
    _version: Annotated[
        bool, typer.Option("--version", callback=_say_version, is_eager=True, help="Say which version this is.")
    ] = False,
) -> None:
    """Say what is wrong with a GPU stack and what to type to mend it; measure the GPU against its physical limit."""


for command in (
    examining.doctor,
    examining.stack,
    examining.snapshot,
    checking.diff,
    checking.check,
    measuring.bench,
    measuring.stress,
    explaining.explain,
    proving.selftest,
):
    app.command(cls=Ordered)(command)
app.add_typer(asking.matrix)


def main() -> NoReturn:
    """Run the command line; what goes wrong is one line on standard error, and the exit code that goes with it."""
    arguments = sys.argv[1:] or ["--help"]
    for stream in (sys.stdout, sys.stderr):
        if reconfigure := getattr(stream, "reconfigure", None):
            reconfigure(errors="replace")
    try:
        code = app(arguments, standalone_mode=False, prog_name="gpustack")
    except GpustackError as error:
        _leave(str(error), error.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        _leave("interrupted", INTERRUPTED)
    except Exception as error:  # noqa: BLE001 - the last door: a bug of ours is one line, not a traceback
        if says := getattr(error, "format_message", None):  # typer's own usage errors
            _leave(f"{says()} (gpustack --help lists what there is)", 2)
        if "-v" in arguments or "--verbose" in arguments:
            import traceback

            traceback.print_exc()
        _leave(f"internal error, please report it: {type(error).__name__}: {error} (-v shows more)", BROKEN)
    if heard():
        _leave("interrupted: the report says what was known by then", INTERRUPTED)
    sys.exit(code if isinstance(code, int) else 0)


def _leave(says: str, code: int) -> NoReturn:
    print(f"gpustack: {' '.join(says.split())}", file=sys.stderr)  # noqa: T201 - a command's one line of error
    sys.exit(code)
