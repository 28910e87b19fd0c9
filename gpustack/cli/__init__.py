"""The command line: the only room that knows flags and exit codes."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator, Sequence
from copy import copy
from itertools import pairwise
from pathlib import Path
from typing import Annotated, NoReturn, TextIO

import typer

from gpustack.cli import asking, bundling, checking, examining, fleet, measuring, tracing
from gpustack.cli.options import Plugins
from gpustack.cli.results import INTERRUPTED, OTHERS_UNKNOWN, give_up_output
from gpustack.cli.terminal import PROGRAM, called, helped, meant
from gpustack.errors import GpustackError, OutputError
from gpustack.interrupting import heard

BROKEN = 3
COMPLETE = "_GPUSTACK_COMPLETE"  # set by the shell that requests completions
LOUD = frozenset({"-v", "-vv", "--verbose"})
NO_MORE = frozenset({errno.EMFILE, errno.ENFILE})
FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO})

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
        if LOUD & set(sys.argv):
            from gpustack import plugins

            plugins.load()
            typer.echo("".join(f"{line}\n" for line in plugins.listed()) or "no plugins\n", nl=False)
        raise typer.Exit


@app.callback()
def gpustack(
    *,
    _version: Annotated[
        bool, typer.Option("--version", "-V", callback=_say_version, is_eager=True, help="Show the version.")
    ] = False,
    _verbose: Annotated[bool, typer.Option("--verbose", "-v", help="With --version: name the plugins too.")] = False,
    _plugins: Plugins = None,
) -> None:
    """Find what is wrong with a GPU stack and how to fix it, and measure the GPU against its physical limits.

    Start with "doctor". "help COMMAND" shows the options of a command, with examples.
    """


for command in (
    examining.doctor,
    examining.stack,
    examining.snapshot,
    bundling.diff,
    bundling.report,
    checking.check,
    measuring.bench,
    measuring.stress,
    tracing.trace,
    asking.explain,
    asking.selftest,
    asking.mcp,
):
    app.command()(command)
app.add_typer(asking.matrix)
app.add_typer(fleet.fleet)
GROUPS = helped(app)


def main() -> NoReturn:
    """Run the command line; an error is one line on standard error and its exit code."""
    arguments = meant(sys.argv[1:], GROUPS)
    completing = COMPLETE in os.environ or any(one.endswith("-completion") for one in arguments)
    sys.stdout, sys.stderr = sys.stdout or _nowhere(), sys.stderr or _nowhere()
    for stream in (sys.stdout, sys.stderr):
        if reconfigure := getattr(stream, "reconfigure", None):
            reconfigure(errors="replace")
    try:
        run = app if completing else _narrowed(arguments)
        code = run(arguments, standalone_mode=False, prog_name=PROGRAM if completing else called())
    except GpustackError as error:
        _fail(str(error), error.exit_code, arguments)
    except (KeyboardInterrupt, typer.Abort):
        _leave("interrupted", INTERRUPTED)
    except Exception as error:  # noqa: BLE001 - the last door: a bug of ours is one line, not a traceback
        if says := getattr(error, "format_message", None):  # typer's own usage errors
            asked = getattr(getattr(error, "ctx", None), "command_path", "gpustack")
            _fail(f"{says()} (see {asked} --help)", 2, arguments)
        if isinstance(error, OSError) and error.errno in FULL:  # typer's own help and version
            give_up_output()
            _leave(f"standard output cannot be written: {error.strerror}", OutputError.exit_code)
        if LOUD & set(arguments):
            import traceback

            traceback.print_exc()
        _fail(_unforeseen(error), BROKEN, arguments)
    if heard() or code == INTERRUPTED:  # typer makes that of a Ctrl-C that nobody heeded, without a word
        _leave(f"interrupted{': the report says what was known by then' if heard() else ''}", INTERRUPTED)
    sys.exit(code if isinstance(code, int) else 0)


def _narrowed(arguments: Sequence[str]) -> typer.Typer:
    """Return the command line with the options of the named command alone: to build all takes as long as a start."""
    name = arguments[0] if arguments else ""
    command = [one for one in app.registered_commands if one.callback and one.callback.__name__ == name]
    group = [one for one in app.registered_groups if one.typer_instance and one.typer_instance.info.name == name]
    if len(arguments) != 1 and not command and not group:  # options before the command
        return app
    one = copy(app)
    one.registered_commands, one.registered_groups = command, group
    if not command and not group:  # the list of commands, or an unknown one: names are enough
        listed = [(each.callback.__name__, each.callback.__doc__) for each in app.registered_commands if each.callback]
        groups = [each.typer_instance.info for each in app.registered_groups if each.typer_instance]
        for name, says in (*listed, *((str(each.name), each.help) for each in groups)):
            one.command(name, help=says)(lambda: None)
        helped(one)
    return one


def _unforeseen(error: Exception) -> str:
    """Return the one line for an unforeseen error: a limit of this process, or a bug in gpustack."""
    if isinstance(error, OSError) and error.errno in NO_MORE:
        return f"nothing could be examined: {error.strerror} (ulimit -n shows the limit)"
    return f"internal error, please report it: {type(error).__name__}: {error} (-v shows more)"


def _nowhere() -> TextIO:
    """Return a stream that discards everything, in place of one that was closed before the start."""
    return Path(os.devnull).open("w", encoding="utf-8")


def _fail(says: str, code: int, arguments: Sequence[str]) -> NoReturn:
    """Exit with this code, or with another protocol's code for unknown if its exit codes were requested."""
    named = [*(one.partition("=")[2] for one in arguments if one.startswith("--exit-style=")), *_after(arguments)]
    style = next((one for one in named if one in OTHERS_UNKNOWN), None)
    if style is None:
        _leave(says, code)
    print(f"GPUSTACK UNKNOWN - {' '.join(says.split())}")  # noqa: T201 - what the protocol reads
    sys.exit(OTHERS_UNKNOWN[style])


def _after(arguments: Sequence[str]) -> Iterator[str]:
    return (value for name, value in pairwise(arguments) if name == "--exit-style")


def _leave(says: str, code: int) -> NoReturn:
    print(f"gpustack: {' '.join(says.split())}", file=sys.stderr)  # noqa: T201 - a command's one line of error
    sys.exit(code)
