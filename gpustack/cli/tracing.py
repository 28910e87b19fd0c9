"""The command that follows a model through the machine: trace."""

from __future__ import annotations

import sys
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import typer

from gpustack.cli.examining import read
from gpustack.cli.options import Origins, Outputs, Pythons, Timeout
from gpustack.cli.results import INTERRUPTED, Place, places, write
from gpustack.cli.terminal import look
from gpustack.errors import InputError, NothingSeenError, OutputError, UsageError
from gpustack.report import renderer

if TYPE_CHECKING:
    from gpustack.model.report import Report
    from gpustack.model.trace import Trace
    from gpustack.trace import Asked, Progress

Named: TypeAlias = Literal["mlp", "convnet", "transformer"]
Sized: TypeAlias = Literal["small", "medium", "large"]
Precise: TypeAlias = Literal["fp32", "fp16", "bf16"]
Framework: TypeAlias = Literal["torch", "jax", "onnxruntime"]
SECONDS = 120.0
ONNX = "onnxruntime"


class Traced(str, Enum):
    """The formats of a trace: for people, for programs, as a page, and for Perfetto or chrome://tracing."""

    TEXT = "text"
    JSON = "json"
    HTML = "html"
    PERFETTO = "perfetto"


FOR_OTHERS = frozenset({"html", "perfetto"})


def trace(
    context: typer.Context,
    *,
    model: Annotated[Named, typer.Option("--model", help="The model to follow.")] = "mlp",
    size: Annotated[Sized, typer.Option("--size", help="Size of the model.")] = "small",
    precision: Annotated[
        Precise | None,
        typer.Option(
            "--precision", help="Precision of weights and tensors.", show_default="bf16 on a GPU, fp32 on a CPU"
        ),
    ] = None,
    cpu: Annotated[bool, typer.Option("--cpu", help="Also run it on the CPU; without a GPU, only there.")] = False,
    gpu: Annotated[int, typer.Option("--gpu", min=0, metavar="N", help="A GPU, by its CUDA index.")] = 0,
    framework: Annotated[
        Framework | None, typer.Option("--framework", help="Run it in this framework of the chosen Python instead.")
    ] = None,
    onnx: Annotated[
        Path | None, typer.Option("--onnx", metavar="FILE", help="Follow this ONNX model, with onnxruntime.")
    ] = None,
    origins: Origins = None,
    pythons: Pythons = None,
    written: Annotated[
        list[Traced] | None,
        typer.Option("--format", help="Format of the result (repeatable, each with its own -o).", show_default="text"),
    ] = None,
    outputs: Outputs = None,
    redacted: Annotated[
        bool | None,
        typer.Option(
            "--redact/--no-redact",
            help="Remove names, serial numbers, UUIDs and addresses.",
            show_default="redacted in html and perfetto",
        ),
    ] = None,
    timeout: Timeout = None,
    verbose: Annotated[
        bool,
        typer.Option("--verbose", "-v", help="Show every kernel, and the layers on the CPU next to those on the GPU."),
    ] = False,
) -> None:
    """Follow a small model through the seven steps of running it on a GPU, each timed and compared with its limit."""
    from gpustack.trace import Asked

    wanted = places(context, written, outputs)
    _refuse({"--from": origins, "--framework": framework, "--onnx": onnx, "--cpu": cpu, "--python": pythons})
    if gpu and (framework or onnx):
        raise UsageError("--gpu is for gpustack's own run; a framework takes the first that CUDA_VISIBLE_DEVICES shows")
    if onnx is not None and framework not in {None, ONNX}:
        raise UsageError(f"--onnx runs in {ONNX}, not in {framework}")
    if onnx is not None and (own := _typed(context, "model", "size", "precision")):
        raise UsageError(f"--onnx brings its own model: --{own} cannot be combined with it")
    if onnx is not None and not onnx.is_file():
        raise InputError(f"{onnx} does not exist, or is not a file")
    asked = Asked(
        model=model,
        size=size,
        precision=precision,
        gpu=gpu,
        pythons=tuple(pythons or ()),
        framework=ONNX if onnx else framework,
        onnx=onnx,
        timeout=timeout or SECONDS,
    )
    followed = _recorded(origins, asked) if origins else _followed(asked, cpu=cpu)
    _deliver(followed, wanted, redacted, verbose=verbose)
    stopped = followed.stop is not None and followed.stop.fails
    failed = stopped or followed.failed is not None or bool(followed.findings and not followed.stop)
    raise typer.Exit(INTERRUPTED if followed.interrupted == "Ctrl-C" else int(failed))


def _refuse(given: dict[str, object]) -> None:
    """Raise UsageError for options that contradict each other."""
    named = [name for name, value in given.items() if value]
    for one, others in (
        ("--from", ("--framework", "--onnx", "--cpu", "--python")),
        ("--cpu", ("--framework", "--onnx")),
    ):
        other = next((name for name in others if name in named), None)
        if one in named and other:
            why = "a recording is judged, not run" if one == "--from" else "a framework runs on what it finds"
            raise UsageError(f"{one} and {other} cannot be combined: {why}")


def _typed(context: typer.Context, *names: str) -> str | None:
    """Return the first of these options that was given on the command line."""
    return next((one for one in names if str(context.get_parameter_source(one)).endswith("COMMANDLINE")), None)


def _judged(words: str) -> Report:
    """Return the cause behind a framework's error in a step."""
    from gpustack.diagnose.engine import judge
    from gpustack.imports.texts import take
    from gpustack.matrix import Matrix

    matrix = Matrix()
    facts, _ = take([("the error", words)], matrix)
    return judge(facts, matrix)


def _recorded(origins: list[str], asked: Asked) -> Trace:
    """Return the step at which the recorded machine would fail."""
    from gpustack.diagnose.engine import judge
    from gpustack.matrix import Matrix
    from gpustack.trace.counting import subject
    from gpustack.trace.failing import recorded
    from gpustack.trace.models import build

    matrix = Matrix()
    report = judge(read(origins, matrix, asked.timeout), matrix)
    return recorded(report, subject(build(asked.model, asked.size, asked.precision or "bf16")))


def _followed(asked: Asked, *, cpu: bool) -> Trace:
    """Return the trace of a run here: in a framework, on the GPU, on both, or only on the CPU."""
    progress = _progress()
    try:
        if asked.framework:
            from gpustack.trace import frameworks

            return frameworks.follow(asked, progress, _judged)
        return _beside(asked, progress) if cpu else _on_gpu(asked, progress)
    finally:
        progress.close()


def _on_gpu(asked: Asked, progress: Progress) -> Trace:
    from gpustack.trace import gpu

    return gpu.follow(asked, progress)


def _beside(asked: Asked, progress: Progress) -> Trace:
    """Return the trace on the GPU next to the CPU's; without a GPU, only the CPU's."""
    from gpustack.trace import beside, following, reference
    from gpustack.trace.models import build

    reference.numpy()
    batches = beside.batches(build(asked.model, asked.size, asked.precision or following.USUAL).batch)
    try:
        found = _on_gpu(replace(asked, batches=batches), progress)
    except NothingSeenError as error:
        return beside.alone(following.follow(asked, progress), str(error))
    return beside.beside_joined(found, asked, progress)


def _deliver(made: Trace, wanted: list[Place], redacted: bool | None, *, verbose: bool) -> None:  # noqa: FBT001 - the flag
    """Write each result; a failed write is reported at the end, after the others."""
    from gpustack.redaction import redact

    failed = []
    for place in wanted:
        hidden = place.written in FOR_OTHERS if redacted is None else redacted
        try:
            write(_rendered(redact(made) if hidden else made, place, verbose=verbose), place.output)
        except OutputError as error:
            failed.append(str(error))
    if failed:
        raise OutputError("; ".join(failed))


def _rendered(made: Trace, place: Place, *, verbose: bool) -> str:
    if place.written == "text":
        return renderer("trace")(made, verbose=verbose, **look(place.output))
    return renderer("json" if place.written == "json" else f"trace-{place.written}")(made)


def _progress() -> Progress:
    from gpustack.trace import Live, Progress

    return Live(sys.stderr) if sys.stderr.isatty() else Progress()
