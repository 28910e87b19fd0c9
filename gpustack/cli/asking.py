"""The commands that ask and explain: matrix, explain, selftest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpustack.cli.examining import read, taken
from gpustack.cli.options import Format, Formats, Origins, Output, Plugins, Tables, Timeout, Verbose
from gpustack.cli.results import rendered, write
from gpustack.cli.terminal import systems, words

if TYPE_CHECKING:
    from gpustack.ask.given import Given
    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts
    from gpustack.model.matrix_answer import MatrixAnswer, MatrixTables, MatrixUpdate

matrix = typer.Typer(
    name="matrix",
    help="Ask the compatibility matrix: what works with what, why, and what would work instead.",
    rich_markup_mode=None,
)
Subjects = Annotated[
    list[str],
    typer.Argument(
        metavar="SUBJECT...",
        help="Such as torch==2.7.1+cu128; further ones count as installed.",
        autocompletion=systems,
    ),
]
Driver = Annotated[str | None, typer.Option("--driver", metavar="RELEASE", help="Such as 550.54.15.")]
Gpu = Annotated[str | None, typer.Option("--gpu", metavar="GPU", help="sm_90, 9.0, gfx1100 or a name, such as L40S.")]
Python = Annotated[str | None, typer.Option("--python", metavar="VERSION", help="Such as 3.12; 3.14t has no GIL.")]
Glibc = Annotated[str | None, typer.Option("--glibc", metavar="VERSION", help="Such as 2.35.")]
Cudnn = Annotated[str | None, typer.Option("--cudnn", metavar="VERSION", help="Such as 9.10.2, or 9.")]
Gcc = Annotated[str | None, typer.Option("--gcc", metavar="VERSION", help="Such as 13.")]
Clang = Annotated[str | None, typer.Option("--clang", metavar="VERSION", help="Such as 18.")]
Kernel = Annotated[
    str | None, typer.Option("--kernel", metavar="RELEASE", help="The Linux kernel, such as 6.8.0-50-generic.")
]
Module = Annotated[str | None, typer.Option("--kernel-module", metavar="FLAVOUR", help="open or proprietary.")]
System = Annotated[
    str | None,
    typer.Option("--os", metavar="SYSTEM", help="linux, windows, wsl, macos, or a distribution: ubuntu-24.04."),
]
Machine = Annotated[
    str | None,
    typer.Option("--machine", metavar="PROCESSOR", help="x86_64 or aarch64; GH200, GB200, GB300 and Jetsons imply it."),
]
Here = Annotated[bool, typer.Option("--here", help="On this machine; other options override what is found.")]


@matrix.command()
def show(
    subject: Annotated[
        str,
        typer.Argument(metavar="SUBJECT", help="A component or distribution, such as torch.", autocompletion=systems),
    ],
    *,
    everything: Annotated[bool, typer.Option("--all", help="Show every row, not one screen of the newest.")] = False,
    written: Tables = "text",
    output: Output = None,
    verbose: Verbose = False,
) -> None:
    """Show what the matrix states about a component, newest first; --all shows every row, -v its source."""
    from gpustack.ask.answering import brief
    from gpustack.ask.answering import show as tables
    from gpustack.matrix import Matrix

    found = tables(subject, Matrix())
    if written == "csv":
        from gpustack.report import renderer

        write(renderer("matrix-csv")(found), output)
        return
    whole = everything or verbose or written != "text"
    _leave(found if whole else brief(found), written, output, verbose=verbose)


def _question(name: str) -> Callable[..., None]:
    """Return the command with this name (a function of ``gpustack.ask.answering``) with all its options."""

    def command(
        subjects: Subjects,
        *,
        driver: Driver = None,
        gpu: Gpu = None,
        python: Python = None,
        glibc: Glibc = None,
        cudnn: Cudnn = None,
        gcc: Gcc = None,
        clang: Clang = None,
        kernel: Kernel = None,
        kernel_module: Module = None,
        system: System = None,
        machine: Machine = None,
        here: Here = False,
        origins: Origins = None,
        written: Formats = "text",
        output: Output = None,
        timeout: Timeout = None,
        verbose: Verbose = False,
    ) -> None:
        from gpustack.ask import answering
        from gpustack.ask.given import Given
        from gpustack.ask.words import understood
        from gpustack.matrix import Matrix

        rows = Matrix()
        asked = understood(subjects, rows)
        given = Given(
            driver=driver,
            gpu=gpu,
            python=python,
            glibc=glibc,
            cudnn=cudnn,
            gcc=gcc,
            clang=clang,
            kernel=kernel,
            kernel_module=kernel_module,
            os=system or asked.os,
            machine=machine or asked.machine,
        )
        here = here or (asked.here and not origins)
        several = (*asked.subjects, *asked.strange)
        facts = _machine(several, given, rows, origins, timeout, here=here)
        answer: MatrixAnswer = getattr(answering, name)(subjects, given, facts, rows)
        _leave(answer, written, output, verbose=verbose)
        raise typer.Exit(int(name == "why" and answer.verdict.value == "incompatible"))

    return command


for _name, _help in (
    ("why", "Say whether something works with what is given (or on this machine), why, and what would work instead."),
    ("plan", "Find what satisfies a requirement such as 'torch>=2.6', the smallest change first, with the commands."),
):
    matrix.command(_name, help=_help)(_question(_name))


@matrix.command()
def update(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAMES]...", help="Which components.", show_default="all")
    ] = None,
    *,
    folder: Annotated[
        Path | None, typer.Option("--write", metavar="FOLDER", help="Write the rows that differ to files in FOLDER.")
    ] = None,
    bundle: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="FILE", help="Use the tables of this data bundle from now on: a file, or https://…"
        ),
    ] = None,
    sha256: Annotated[
        str | None,
        typer.Option(
            "--sha256", metavar="HASH", help="The bundle's hash, as its release states it; required with https."
        ),
    ] = None,
    back: Annotated[bool, typer.Option("--back", help="Go back to the data used before the last bundle.")] = False,
    written: Formats = "text",
    output: Output = None,
    timeout: Timeout = None,
    verbose: Verbose = False,
) -> None:
    """Compare rows derived from wheels with the package index that pip uses, or install a data bundle."""
    from gpustack.collect.updates import compare, save
    from gpustack.errors import UsageError
    from gpustack.matrix import Matrix, bundles
    from gpustack.model.matrix_answer import MatrixUpdate

    if ((bundle or back) and (names or folder)) or (bundle and back) or (sha256 and not bundle):
        raise UsageError("--from FILE, with --sha256 HASH, and --back are each used alone: they compare no rows")
    if bundle or back:
        if bundle:
            bundles.install(bundle, _bundle(bundle, sha256, timeout), sha256, Matrix())
        else:
            bundles.back()
        now = Matrix()
        _leave(
            MatrixUpdate(asked=(), same=len(now.distributions), changes=(), data=now.date),
            written,
            output,
            verbose=verbose,
        )
        return
    found = compare(names or (), Matrix(), timeout)
    if folder is not None:
        save(found, folder)
    _leave(found, written, output, verbose=verbose)


def _bundle(origin: str, sha256: str | None, timeout: float | None) -> bytes:
    """Return a data bundle from a file, or from an address, which must be pinned."""
    from gpustack.errors import UsageError
    from gpustack.matrix import bundles

    if "://" not in origin:
        return bundles.read(Path(origin))
    from gpustack.collect import fetching

    if sha256 is None:
        raise UsageError("a download must be pinned: add --sha256 with the hash that the release states")
    return fetching.fetch(origin, bundles.MOST_FILE, timeout)


def _machine(
    subjects: Sequence[str], given: Given, rows: Matrix, origins: list[str] | None, timeout: float | None, *, here: bool
) -> Facts | None:
    """Return the facts of the machine in question: recorded, this one, or None if everything relevant is given."""
    from gpustack.ask.given import checked
    from gpustack.ask.subjects import parse
    from gpustack.errors import UsageError

    checked(given)
    for one in subjects[:1]:
        parse(one, rows)
    if here and origins:
        raise UsageError("--here and --from are two machines: give only one of them")
    if origins:
        return read(origins, rows, timeout)
    return taken(None, timeout, deep=False) if here or not (given.words or len(subjects) > 1) else None


def _leave(
    answer: MatrixAnswer | MatrixTables | MatrixUpdate, written: Format, output: Path | None, *, verbose: bool
) -> None:
    write(rendered(answer, written, "matrix", output, verbose=verbose), output)


def explain(
    asked: Annotated[
        list[str],
        typer.Argument(
            metavar="WORDS...",
            help="A finding id, an Xid, an error number or name, a pasted error line, a component, a layer or a term.",
            autocompletion=words,
        ),
    ],
    *,
    _plugins: Plugins = None,
    written: Formats = "text",
    output: Output = None,
) -> None:
    """Explain a finding, an error, a component or a term of the stack, how to see it here and how to fix it."""
    from gpustack import explain
    from gpustack.matrix import Matrix

    explanation = explain.explain(asked, Matrix())
    write(rendered(explanation, written, "explanation", output, verbose=False), output)
    raise typer.Exit(0 if explanation.known else 1)


def mcp() -> None:
    """Serve AI assistants over the Model Context Protocol on standard input and output, read-only.

    The tools are doctor, explain, matrix_why and matrix_plan; what they answer is redacted. Needs the extra "mcp".
    """
    from gpustack.errors import NothingSeenError

    try:
        from gpustack.library.assistants import server
    except ModuleNotFoundError as error:
        raise NothingSeenError(
            f"gpustack mcp needs the package {error.name}: install gpustack with its extra, as in pip install '.[mcp]'"
        ) from error
    server().run("stdio")


def selftest(
    *, _plugins: Plugins = None, written: Formats = "text", output: Output = None, verbose: Verbose = False
) -> None:
    """Prove on this machine that each check can fire, and that probes that hang or crash are stopped."""
    from gpustack.matrix import Matrix
    from gpustack.selftest import prove

    tested = prove(Matrix())
    write(rendered(tested, written, "selftest", output, verbose=verbose), output)
    raise typer.Exit(0 if tested.held else 1)
