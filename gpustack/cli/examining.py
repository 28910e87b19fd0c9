"""The commands that examine a machine: doctor, snapshot and stack."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

import typer

from gpustack.cli import options
from gpustack.cli.results import How, counts, deliver, places, prepare, rendered, write
from gpustack.cli.terminal import Counted, findings, known, sentence, standard_input
from gpustack.errors import GpustackError, UsageError
from gpustack.interrupting import heard
from gpustack.plugins import noted
from gpustack.report import renderer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from gpustack.matrix import Matrix
    from gpustack.model.bench import BenchReport
    from gpustack.model.facts import Facts, JsonValue
    from gpustack.model.policy import CheckReport
    from gpustack.model.report import Report

WORDS = {"--from": "recorded", "--container": "unpacked"}

Thing = TypeVar("Thing", "Facts", "BenchReport", "CheckReport", "tuple[Facts, JsonValue]")

DOCTOR_SECONDS = 10.0
RECORDED_SECONDS = 60.0  # a busy machine must not read less of a file than an idle one
DEEP_SECONDS = EVERYWHERE_SECONDS = 60.0


def _list_checks() -> None:
    """Print each check with the first sentence of what it means; those of the plugins that are loaded too."""
    from gpustack.diagnose.rule import explain

    write("".join(f"{one}: {sentence(explain(one) or '')}\n" for one in findings()), None)


def doctor(
    context: typer.Context,
    *,
    origins: options.Origins = None,
    deep: options.Deep = False,
    pythons: options.Pythons = None,
    everywhere: options.Everywhere = False,
    _plugins: options.Plugins = None,
    image: options.Image = None,
    variables: options.Variables = None,
    purpose: Annotated[
        Literal["train", "infer", "build", "any"], typer.Option("--for", help="What the machine is for.")
    ] = "any",
    only: Annotated[
        list[str] | None,
        typer.Option("--only", metavar="ID", help="Report only this check (repeatable).", autocompletion=findings),
    ] = None,
    checks: Annotated[bool, typer.Option("--list-checks", help="List all checks and exit.")] = False,
    written: options.Shapes = None,
    outputs: options.Outputs = None,
    redacted: options.RedactedBy = None,
    fail_on: options.Fail = "error",
    timeout: options.Timeout = None,
    verbose: options.Detail = 0,
    quiet: options.Quiet = False,
) -> None:
    """Say what is wrong with this machine's GPU stack and how to fix it, the root cause first."""
    if checks:
        return _list_checks()
    wanted = places(context, written, outputs)
    wanted_ids = [known(one, findings(), "check") for one in only or ()]

    @cache
    def matrix() -> Matrix:
        from gpustack.matrix import Matrix

        return Matrix()

    def early() -> None:
        """Load the modules that judge and render while the probes run, by judging an example."""
        from gpustack import assets, snapshots
        from gpustack.diagnose.engine import judge

        prepare(wanted)
        if heard():
            return
        with suppress(OSError, GpustackError):  # any damage is reported when this machine is judged
            judge(snapshots.read((assets.EXAMPLES / "driver-too-old.json").read_text("utf-8")), matrix())

    given = {"--from": origins, "--container": image, "--python": pythons, "--deep": deep, "--all-envs": everywhere}
    alone({**given, "--container-env": variables})
    until: float | None = None
    if origins:
        from gpustack.imports.deadline import to_judge

        until = to_judge(timeout or RECORDED_SECONDS)
        facts = read(origins, matrix(), timeout)
    elif image:
        facts = unpacked(image, variables, timeout)
    else:
        facts = taken(pythons, timeout, deep=deep, everywhere=everywhere, meanwhile=early)

    def judged(hidden: bool) -> Report:  # noqa: FBT001 - one question, which deliver asks
        from gpustack.diagnose.engine import judge, restricted
        from gpustack.model.report import Purpose

        def of(seen: Facts) -> Report:
            told = without_secrets(seen, wanted=hidden, here=not origins)
            report = judge(told, matrix(), Purpose(purpose))
            return restricted(report, told, wanted_ids) if wanted_ids else report

        if until is None:
            return of(facts)
        from gpustack.imports.deadline import judged as in_time

        return in_time(of, facts, until)

    how = How(redacted=redacted, verbose=verbose, quiet=quiet, fail_on=fail_on, origins=origins or ())
    report = deliver(wanted, judged, how)
    raise typer.Exit(int(counts(fail_on, report.verdict.status.value, report.findings)))


def snapshot(
    *,
    origins: options.Origins = None,
    output: options.Output = None,
    deep: options.Deep = False,
    pythons: options.Pythons = None,
    everywhere: options.Everywhere = False,
    _plugins: options.Plugins = None,
    redacted: options.Redacted = True,
    pseudonyms: options.Pseudonyms = None,
    timeout: options.Timeout = None,
) -> None:
    """Record the facts of this machine without judging them, to examine elsewhere or to compare later.

    With --from, what was recorded elsewhere is written again, redacted and in today's schema.
    """
    from gpustack.model.writing import render

    alone({"--from": origins, "--python": pythons, "--deep": deep, "--all-envs": everywhere})
    if pseudonyms and not redacted:
        raise UsageError("--pseudonyms and --no-redact contradict each other")
    key = options.read_key(pseudonyms) if pseudonyms else b""
    if origins:
        write(again(origins, timeout, redacted=redacted, key=key), output)
        return
    facts = taken(pythons, timeout, deep=deep, everywhere=everywhere)
    write(render(without_secrets(facts, wanted=redacted, key=key)), output)


def stack(
    *,
    origins: options.Origins = None,
    pythons: options.Pythons = None,
    everywhere: options.Everywhere = False,
    _plugins: options.Plugins = None,
    written: options.Drawings = "text",
    output: options.Output = None,
    redacted: options.RedactedBy = None,
    timeout: options.Timeout = None,
    verbose: options.Verbose = False,
) -> None:
    """Show the whole GPU stack, layer by layer: what is present, which version, and what requires what."""
    from gpustack.diagnose.engine import chart
    from gpustack.matrix import Matrix

    matrix = Matrix()
    alone({"--from": origins, "--all-envs": everywhere})
    facts = read(origins, matrix, timeout) if origins else taken(pythons, timeout, deep=False, everywhere=everywhere)
    hide = written == "html" if redacted is None else redacted
    drawn = chart(without_secrets(facts, wanted=hide, here=not origins), matrix)
    text = (
        renderer("map-html")(drawn) if written == "html" else rendered(drawn, written, "map", output, verbose=verbose)
    )
    write(text, output)


def read(origins: list[str], matrix: Matrix, timeout: float | None = None) -> Facts:
    """Return the facts of the machine that these files describe, as far as time allows."""
    from gpustack.imports import load
    from gpustack.imports.deadline import to_read

    return noted(load(origins, standard_input(origins), matrix, to_read(timeout or RECORDED_SECONDS)))


def again(origins: list[str], timeout: float | None, *, redacted: bool, key: bytes = b"") -> str:
    """Return a snapshot of what these files contain, keeping keys that a newer gpustack wrote."""
    from gpustack import snapshots
    from gpustack.imports import whole
    from gpustack.imports.deadline import to_read
    from gpustack.matrix import Matrix

    facts, said = whole(origins, standard_input(origins), Matrix(), to_read(timeout or RECORDED_SECONDS))
    more = snapshots.unknown(said, facts)
    return snapshots.render(*without_secrets((facts, more), wanted=redacted, here=False, key=key))


def taken(
    pythons: list[str] | None,
    timeout: float | None,
    *,
    deep: bool,
    everywhere: bool = False,
    meanwhile: Callable[[], object] | None = None,
) -> Facts:
    """Return the facts of this machine, collected now."""
    from gpustack.collect.probing import look

    seconds = timeout or (DEEP_SECONDS if deep else EVERYWHERE_SECONDS if everywhere else DOCTOR_SECONDS)
    if deep and sys.stderr.isatty():
        typer.echo(f"gpustack: importing and running the frameworks, at most {seconds:.0f} s …", err=True)
    counted = Counted() if everywhere and sys.stderr.isatty() else None
    try:
        facts = look(
            pythons=pythons or (),
            deep=deep,
            all_envs=everywhere,
            timeout=seconds,
            meanwhile=meanwhile,
            progress=counted,
        )
    finally:
        if counted:
            counted.clear()
    return noted(facts)


def unpacked(image: Path, variables: list[str] | None, timeout: float | None) -> Facts:
    """Return the facts of an unpacked image on this machine."""
    from gpustack.collect.images import look

    return look(image, variables or (), timeout=timeout or DOCTOR_SECONDS)


def alone(given: Mapping[str, object]) -> None:
    """Raise UsageError for options that describe different machines."""
    machines = [name for name in ("--from", "--container") if given.get(name)]
    others = [name for name in ("--python", "--deep", "--all-envs") if given.get(name)]
    if len(machines) > 1 or (machines == ["--container"] and others) or (machines and "--all-envs" in others):
        named = " and ".join([*machines, *others][:2])
        raise UsageError(f"{named} cannot be combined: what is {WORDS[machines[0]]} is judged as it is")
    if given.get("--container-env") and not given.get("--container"):
        raise UsageError("--container-env describes an image: name it with --container DIR")


def without_secrets(thing: Thing, *, wanted: bool, here: bool = True, key: bytes = b"") -> Thing:
    """Return facts or figures of this machine (``here``), redacted if requested."""
    if not wanted:
        return thing
    from gpustack.redaction import ourselves, redact

    return redact(thing, ourselves(os.environ) if here else None, key)
