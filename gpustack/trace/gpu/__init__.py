"""The seven steps on a GPU through cuda-python, without a framework: a child does the work, the parent listens.

``plan`` says which kernels and products a model becomes, as pure data; ``arena`` where its numbers lie; ``device``
runs them; ``story`` goes the seven steps once; ``figures`` repeats for medians afterwards; ``heard`` makes a trace of
what the child said.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gpustack.bench import results, setting
from gpustack.bench.listening import start
from gpustack.collect.subprocesses import Door
from gpustack.errors import NothingSeenError, UsageError
from gpustack.matrix import Matrix
from gpustack.trace.gpu.heard import Heard
from gpustack.trace.models import build
from gpustack.trace.steps import NAMES

if TYPE_CHECKING:
    from gpustack.bench.listening import Ear, Line
    from gpustack.model.trace import Trace
    from gpustack.trace.steps import Asked, Progress

CHILD = "gpustack.trace.gpu.child"
PATIENCE = 60.0  # seconds of silence: the answer in float64 and a large cuBLASLt from a slow disk take some
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
    """Return the trace of a model on one GPU; what was known at Ctrl-C, or when the child died, is kept.

    Products are made by the cuBLASLt of the first of the Pythons asked for, or by the one at ``cublaslt``. Raises
    NothingSeenError where no GPU can be opened, and UsageError for one that is not there.
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
    try:
        ear = start(given, setting.variables(environ), door, PATIENCE, begun + asked.timeout, main=CHILD)
    except OSError as error:
        raise NothingSeenError(f"the trace could not be started: {error.strerror or error}") from error
    try:
        _listen(ear, heard, progress)
    except KeyboardInterrupt:
        heard.interrupted = "Ctrl-C"
    finally:
        ear.close()
    return heard.trace(door.now() - begun)


def _listen(ear: Ear, heard: Heard, progress: Progress) -> None:
    lines = ear.lines()
    heard.opened(_opened(next(lines), heard.asked.gpu))
    for line in lines:
        if line.kind == "at" and line.what in NAMES:
            heard.begins(int(line.what))
            progress.step(heard.at, NAMES[heard.at])
        elif line.kind == "died":
            heard.died(str(line.what))
        elif line.kind in {"measured", "failed"} and isinstance(line.what, dict):
            try:
                heard.take(line.kind, line.what)
            except results.MALFORMED as error:
                heard.died(f"said what is no line of ours: {type(error).__name__}: {error}")
                return


def _opened(line: Line, gpu: int) -> results.Opened:
    """Return the GPU that was opened; raises NothingSeenError where none can be, UsageError where it is not there."""
    what: Any = line.what
    if line.kind == "opened":
        try:
            return results.opened(what, gpu)
        except results.MALFORMED as error:
            raise NothingSeenError(f"the child's answer is malformed: {error}") from error
    if line.kind == "nothing" and isinstance(what, dict):
        count = what.get("count")
        if isinstance(count, int) and 0 < count <= gpu:
            raise UsageError(f"there is no GPU {gpu}; CUDA shows {count}, from 0 on")
        raise NothingSeenError(f"{what.get('reason')}; to fix it: {what.get('remedy')}")
    raise NothingSeenError(f"the GPU could not be opened: the child {line.what}")
