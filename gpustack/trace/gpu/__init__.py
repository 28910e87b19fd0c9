"""The seven steps on a GPU through cuda-python, without a framework: a child does the work, the parent listens.

``plan`` says which kernels and products a model becomes, as pure data; ``device`` where its numbers lie, and runs them;
``story`` goes the seven steps once; ``figures`` repeats for medians afterwards; ``heard`` makes a trace of what the
child said.

There is a line for each thing that happens, as the bench's child says it; what is measured says what it is:

{"opened": {...}}                                      the GPU is open, as the bench's child says it
{"at": 3}                                              step 3 begins (or, by name, a figure or a benchmark)
{"measured": {"what": "subject", ...}}                 the model and its precision
{"measured": {"what": "step", "number": 3, ...}}       the step is done
{"measured": {"what": "moment" | "kernels" | "layers" | "figure" | "check" | "launching" | "overlap" | "batch", ...}}
{"measured": {"what": "without", "name", "reason"}}    a figure could not be had
{"measured": {"what": "bench", "id", ...}}             one of the bench's own measurements, as its child says it
{"failed": {"step": N, "reason": TEXT}}                a step went wrong: nothing comes after it
{"nothing": {...}}, {"done": null}                     as the bench's child says it

It judges nothing but the answer.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from gpustack.bench import setting, suite
from gpustack.bench.child import OUT_OF_MEMORY, QUICK, Desk, Outlet, measure, opened
from gpustack.bench.lab import SkipError
from gpustack.bench.listening import start
from gpustack.collect.subprocesses import Door
from gpustack.matrix import Matrix
from gpustack.trace.gpu.heard import Heard
from gpustack.trace.models import build

if TYPE_CHECKING:
    from gpustack.model.trace import Trace
    from gpustack.trace import Asked, Progress

PATIENCE = 60.0  # seconds of silence: the float64 reference and a large cuBLASLt from a slow disk take some
USUAL = "bf16"
BENCHES = ("pcie.h2d.pinned", "pcie.h2d.pageable", "pcie.d2h.pinned", "hbm.copy")


def follow(
    asked: Asked,
    progress: Progress,
    *,
    environ: Mapping[str, str] | None = None,
    door: Door | None = None,
    matrix: Matrix | None = None,
    cublaslt: str | None = None,
) -> Trace:
    """Return the trace of a model on one GPU; what is known at Ctrl-C, or when the child dies, is kept.

    Products use the cuBLASLt of the first of the requested Pythons, or the one at ``cublaslt``. Raises NothingSeenError
    if no GPU can be opened, and UsageError for one that does not exist.
    """
    environ = os.environ if environ is None else environ
    door, matrix = door or Door(), matrix or Matrix()
    begun = door.now()
    heard = Heard(
        clock=door.now, asked=asked, matrix=matrix, model=build(asked.model, asked.size, asked.precision or USUAL)
    )
    given = {
        "gpu": asked.gpu,
        "highest": asked.gpu,
        "model": asked.model,
        "size": asked.size,
        "precision": asked.precision,
        "batches": list(asked.batches),
        "benches": list(BENCHES),
        "library": cublaslt or setting.library(asked.pythons, environ),
    }
    until = begun + asked.timeout
    ear = start(given, setting.variables(environ), door, PATIENCE, until, main=__name__, what="the trace")
    heard.hear(ear, progress)
    return heard.trace(door.now() - begun)


LEAST_FOR_BF16 = (8, 0)
MEMORY = "too little of the GPU's memory is free for this size; try --size small"


def main(asked: Mapping[str, Any]) -> None:
    """Trace the parent's request: {"gpu", "model", "size", "precision", "batches", "benches" ...}."""
    outlet = Outlet()
    with ExitStack() as stack:
        given = {**asked, "quick": True, "data": "random"}
        if desk := opened(given, outlet, stack):
            precision = asked["precision"] or ("bf16" if desk.lab.capability >= LEAST_FOR_BF16 else "fp16")
            if _traced(given, precision, desk):
                _benches([*asked["benches"], f"gemm.{precision}"], desk)
            outlet.say("done", None)
        os._exit(0)  # as the bench's child ends


def _traced(asked: Mapping[str, Any], precision: str, desk: Desk) -> bool:
    """Run the steps and figures; return whether the context is still usable."""
    from gpustack.trace.gpu.figures import everything  # noqa: PLC0415 - numpy and cuda are there now
    from gpustack.trace.gpu.story import stage_for, tell  # noqa: PLC0415
    from gpustack.trace.models import build  # noqa: PLC0415

    model = build(asked["model"], asked["size"], precision)
    known = {"model": model.name, "size": model.size, "precision": model.precision}
    desk.outlet.say("measured", {"what": "subject", **known})
    with ExitStack() as stack:
        stage = stage_for(desk, model, stack)
        try:
            tell(stage)
        except Exception as error:  # noqa: BLE001 - whatever a library raises ends its step, and is reported
            desk.outlet.say("failed", {"step": stage.telling.number, "reason": _said(error)})
            return False
        try:
            everything(stage, asked["batches"])
        except Exception as error:  # noqa: BLE001 - the story stands; its figures end here
            desk.outlet.say("measured", {"what": "without", "name": "figures", "reason": _said(error)})
            return False
    return True


def _benches(names: Sequence[str], desk: Desk) -> None:
    """Run the corresponding benchmarks, to compare the figures with them."""
    for bench in suite.picked(names, [()] * len(names)):
        desk.outlet.say("at", bench.id)
        try:
            desk.outlet.say("measured", {"what": "bench", **measure(bench, desk, QUICK)})
        except SkipError as skip:
            desk.outlet.say("measured", {"what": "without", "name": bench.id, "reason": str(skip)})
        except Exception as error:  # noqa: BLE001 - the answer of one benchmark, whatever a library raises
            desk.outlet.say("measured", {"what": "without", "name": bench.id, "reason": _said(error)})
            if not isinstance(error, ArithmeticError):
                return  # after an error of CUDA its context is no good any more


def _said(error: Exception) -> str:
    """Return the first line of an error, with its type."""
    text = str(error)
    if any(sign in text for sign in OUT_OF_MEMORY):
        return MEMORY
    first = (text.strip().splitlines() or [""])[0]
    return first if isinstance(error, SkipError) else f"{type(error).__name__}: {first}"
