"""The commands that look at a machine: doctor and snapshot."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

import typer

from gpustack.cli.options import (
    Deep,
    Drawings,
    Fail,
    Formats,
    Origins,
    Output,
    Pythons,
    Redacted,
    RedactedBy,
    Timeout,
    Verbose,
)
from gpustack.cli.results import counts, look, renderer, shown, write

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpustack.matrix import Matrix
    from gpustack.model.bench import BenchReport
    from gpustack.model.facts import Facts

Thing = TypeVar("Thing", "Facts", "BenchReport")

DOCTOR_SECONDS = 10.0
DEEP_SECONDS = 60.0


def doctor(
    *,
    origins: Origins = None,
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

    matrix = Matrix()
    if origins:
        facts = read(origins, matrix)
    else:
        facts = taken(pythons, timeout, deep=deep, meanwhile=lambda: renderer(written, "text"))
    report = judge(without_secrets(facts, wanted=redacted), matrix, Purpose(purpose))
    write(shown(report, written, output, verbose=verbose), output)
    raise typer.Exit(int(counts(fail_on, report.verdict.status.value, report.findings)))


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

    facts = taken(pythons, timeout, deep=deep)
    write(render(without_secrets(facts, wanted=redacted)), output)


def stack(
    *,
    origins: Origins = None,
    pythons: Pythons = None,
    written: Drawings = "text",
    output: Output = None,
    redacted: RedactedBy = None,
    timeout: Timeout = None,
    verbose: Verbose = False,
) -> None:
    """Draw the whole GPU stack, layer by layer, with what is here, which version, and what needs what."""
    from gpustack.charting import chart
    from gpustack.matrix import Matrix

    matrix = Matrix()
    facts = read(origins, matrix) if origins else taken(pythons, timeout, deep=False)
    render = renderer(written, f"map_{written}")
    hide = written == "html" if redacted is None else redacted
    drawn = chart(without_secrets(facts, wanted=hide), matrix)
    write(render(drawn, **({**look(output), "verbose": verbose} if written == "text" else {})), output)


def read(origins: list[str], matrix: Matrix) -> Facts:
    """Give the facts of the machine that these files speak of."""
    from gpustack.imports import load

    return load(origins, sys.stdin.buffer, matrix)


def taken(
    pythons: list[Path] | None,
    timeout: float | None,
    *,
    deep: bool,
    meanwhile: Callable[[], object] | None = None,
) -> Facts:
    """Give the facts of this machine, taken here and now."""
    from gpustack.probing import look

    seconds = timeout or (DEEP_SECONDS if deep else DOCTOR_SECONDS)
    if deep and sys.stderr.isatty():
        typer.echo(f"gpustack: importing and running the frameworks, {seconds:.0f} s at most …", err=True)
    return look(pythons=[str(path) for path in pythons or ()], deep=deep, timeout=seconds, meanwhile=meanwhile)


def without_secrets(thing: Thing, *, wanted: bool) -> Thing:
    """Give facts or figures without names, serials, UUIDs and addresses, where that is wanted."""
    if not wanted:
        return thing
    from gpustack.redaction import redact

    return redact(thing)
