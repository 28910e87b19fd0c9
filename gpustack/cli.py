"""The command line: the only room that knows flags and exit codes."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NoReturn, TypeAlias, TypeVar

import typer

from gpustack.errors import GpustackError, OutputError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gpustack.model.bench import BenchReport
    from gpustack.model.facts import Facts
    from gpustack.model.report import Finding, Report

Thing = TypeVar("Thing", "Facts", "BenchReport")

INTERRUPTED = 130
BROKEN = 3
DOCTOR_SECONDS = 10.0
DEEP_SECONDS = 60.0

app = typer.Typer(
    name="gpustack",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


Format: TypeAlias = Literal["text", "json"]
Threshold: TypeAlias = Literal["error", "warning", "unknown", "never"]
Pythons = Annotated[
    list[Path] | None,
    typer.Option(
        "--python",
        metavar="PATH",
        help="A Python to look at, or its folder (repeatable).",
        show_default="the active one",
    ),
]
Formats = Annotated[Format, typer.Option("--format", help="How the result is written.")]
Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="Where the result goes.", show_default="standard output"),
]
Timeout = Annotated[
    float | None, typer.Option("--timeout", min=1.5, max=86400, metavar="SECONDS", help="Time for the whole command.")
]
Fail = Annotated[Threshold, typer.Option("--fail-on", help="Exit with 1 from this severity on.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Say where each fact comes from and how long it took.")]
Redacted = Annotated[bool, typer.Option("--redact/--no-redact", help="Take names, serials, UUIDs and addresses out.")]
Deep = Annotated[bool, typer.Option("--deep", help="Import the frameworks and run them, in children.")]


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


@app.command()
def doctor(
    *,
    origins: Annotated[
        list[str] | None,
        typer.Option(
            "--from", metavar="PATH", help="Judge what was recorded elsewhere; - is standard input (repeatable)."
        ),
    ] = None,
    deep: Deep = False,
    pythons: Pythons = None,
    purpose: Annotated[
        Literal["train", "infer", "build", "any"], typer.Option("--for", help="What the machine is for.")
    ] = "any",
    written: Formats = "text",
    output: Output = None,
    redacted: Redacted = False,
    fail_on: Fail = "error",
    timeout: Timeout = None,
    verbose: Verbose = False,
) -> None:
    """Say what is wrong with this machine's GPU stack: the root cause first, and the commands that mend it."""
    from gpustack.judging import judge
    from gpustack.matrix import Matrix
    from gpustack.model.report import Purpose

    facts = _taken(origins, pythons, timeout, deep=deep, meanwhile=lambda: _renderer(written, "text"))
    report = judge(_redacted(facts, wanted=redacted), Matrix(), Purpose(purpose))
    write(_shown(report, written, output, verbose=verbose), output)
    raise typer.Exit(int(_counts(fail_on, report.verdict.status.value, report.findings)))


@app.command()
def snapshot(
    *,
    output: Output = None,
    deep: Deep = False,
    pythons: Pythons = None,
    redacted: Redacted = True,
    timeout: Timeout = None,
) -> None:
    """Record the facts of this machine, nothing judged: for a report elsewhere, or to compare with later."""
    from gpustack.render.plain import render

    facts = _taken(None, pythons, timeout, deep=deep)
    write(render(_redacted(facts, wanted=redacted)), output)


@app.command()
def bench(
    *,
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAMES]...", help="Which benchmarks, such as hbm.read or 'gemm.*'.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Measure less long, within a few seconds.")] = False,
    gpus: Annotated[
        list[int] | None,
        typer.Option("--gpu", min=0, metavar="N", help="A GPU by CUDA's number (repeatable).", show_default="0"),
    ] = None,
    data: Annotated[
        Literal["random", "zeros"], typer.Option("--data", help="What is computed with; zeros flatter the power limit.")
    ] = "random",
    pythons: Pythons = None,
    written: Formats = "text",
    output: Output = None,
    redacted: Redacted = False,
    fail_on: Fail = "error",
    timeout: Timeout = None,
    verbose: Verbose = False,
) -> None:
    """Measure the GPU against the limit that follows from what it reports, and say why a figure is low."""
    from gpustack.bench import measure, shown_on

    report = measure(
        names or (),
        quick=quick,
        gpus=gpus or (0,),
        data=data,
        pythons=[str(path) for path in pythons or ()],
        timeout=timeout,
        progress=shown_on(sys.stderr),
    )
    write(_shown(_redacted(report, wanted=redacted), written, output, verbose=verbose), output)
    counts = _counts(fail_on, None, report.findings)
    raise typer.Exit(INTERRUPTED if report.interrupted else int(counts))


def _taken(
    origins: list[str] | None,
    pythons: list[Path] | None,
    timeout: float | None,
    *,
    deep: bool,
    meanwhile: Callable[[], object] | None = None,
) -> Facts:
    """Give the facts: read from where they were recorded, or taken here and now."""
    if origins:
        from gpustack.imports import load

        return load(origins, sys.stdin.buffer)
    from gpustack.probing import look

    seconds = timeout or (DEEP_SECONDS if deep else DOCTOR_SECONDS)
    if deep and sys.stderr.isatty():
        typer.echo(f"gpustack: importing and running the frameworks, {seconds:.0f} s at most …", err=True)
    return look(pythons=[str(path) for path in pythons or ()], deep=deep, timeout=seconds, meanwhile=meanwhile)


def _redacted(thing: Thing, *, wanted: bool) -> Thing:
    """Give facts or figures without names, serials, UUIDs and addresses, where that is wanted."""
    if not wanted:
        return thing
    from gpustack.redaction import redact

    return redact(thing)


def _shown(report: Report | BenchReport, written: Format, output: Path | None, *, verbose: bool) -> str:
    measured = hasattr(report, "results")
    render = _renderer(written, "bench_text" if measured else "text")
    if written == "json":
        return render(report)
    more = {} if measured else {"example": _example()}
    return render(report, verbose=verbose, **_look(output), **more)


def _example() -> str:
    """Give a recorded broken machine, by the path that can be typed here."""
    from gpustack.assets import EXAMPLES

    near = Path("examples", "driver-too-old.json")
    return str(near if near.is_file() else EXAMPLES / near.name)


def _renderer(written: Format, text: str) -> Callable[..., str]:
    """Give the function that writes such a report; importing it is most of the work, and can be done early."""
    from importlib import import_module

    render: Callable[..., str] = import_module(f"gpustack.render.{'plain' if written == 'json' else text}").render
    return render


def _look(output: Path | None) -> dict[str, int | bool]:
    """Give how wide, with which letters and whether in colour text may be written."""
    import shutil

    terminal = output is None and sys.stdout.isatty()
    encoding = "utf-8" if output else (sys.stdout.encoding or "ascii")
    return {
        "width": shutil.get_terminal_size((80, 24)).columns if terminal or "COLUMNS" in os.environ else 80,
        "colour": terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb",
        "ascii": not encoding.lower().startswith("utf"),
    }


def _counts(fail_on: Threshold, verdict: str | None, findings: Sequence[Finding]) -> bool:
    """Tell whether anything stands at or above the threshold; info never counts."""
    order = ("error", "warning", "unknown")
    counted = order[: order.index(fail_on) + 1] if fail_on in order else ()
    return verdict in counted or any(finding.severity.value in counted for finding in findings)


def write(text: str, output: Path | None) -> None:
    """Write the result where it was asked for; a reader that has gone away is no error, a full disk is."""
    try:
        if output is not None:
            output.write_text(text, "utf-8")
        else:
            sys.stdout.write(text)
            sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        if output is None:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        message = f"{output or 'standard output'} cannot be written: {error.strerror}"
        raise OutputError(message) from error


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
    sys.exit(code if isinstance(code, int) else 0)


def _leave(says: str, code: int) -> NoReturn:
    print(f"gpustack: {' '.join(says.split())}", file=sys.stderr)  # noqa: T201 - a command's one line of error
    sys.exit(code)
