"""The same model in a framework of the target's Python: a child runs it there, and the trace shows what it loaded.

``children`` contains programs for the target's Python (3.8 syntax, the standard library and the framework);
``following`` starts one and reads it, ``heard`` makes a trace of it, ``chain`` is the path from the script down to the
kernel, and ``refused`` passes a failure's message to the judge.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from gpustack.bench import ceilings, results, setting
from gpustack.bench.listening import Ear, start
from gpustack.collect import targets
from gpustack.collect.subprocesses import Door
from gpustack.errors import InputError, NothingSeenError, UsageError
from gpustack.matrix import Matrix
from gpustack.model import record
from gpustack.model.trace import Figure, Trace
from gpustack.trace.counting import cache
from gpustack.trace.frameworks.chain import there
from gpustack.trace.frameworks.heard import Heard
from gpustack.trace.models import Model, build
from gpustack.trace.ops import kind

if TYPE_CHECKING:
    from gpustack.bench.ceilings import Ceiling
    from gpustack.bench.results import Opened
    from gpustack.model.bench import Device
    from gpustack.model.report import Report
    from gpustack.trace import Asked, Progress

PROGRAM = Path(__file__).parent / "children" / "traced_model.py"
PATIENCE = 300.0  # seconds of silence: importing a framework from a slow disk, or a slow compiler
ONNXRUNTIME = "onnxruntime"
ROOF_PATIENCE = 15.0  # seconds of silence
FIRST = 0  # the frameworks run on the first GPU that CUDA shows, and the child sees them in the same order
ASKED = {"gpu": FIRST, "highest": FIRST, "names": [], "company": [], "quick": True, "data": "random", "library": None}


def follow(
    asked: Asked,
    progress: Progress,
    judge: Callable[[str], Report],
    *,
    environ: Mapping[str, str] | None = None,
    door: Door | None = None,
    matrix: Matrix | None = None,
) -> Trace:
    """Return the trace of a model in a framework of the first of the requested Pythons.

    What is known at Ctrl-C, or when the child dies, is kept. Raises UsageError for an unknown Python or an unsupported
    precision, NothingSeenError if the child cannot be started or the framework is missing, and InputError for a file
    that is not a model.
    """
    environ = os.environ if environ is None else environ
    door, matrix = door or Door(), matrix or Matrix()
    begun = door.now()
    python = targets.choose(asked.pythons, environ)[0].python
    model = build(asked.model, asked.size, precision(asked))
    with tempfile.TemporaryDirectory(prefix="gpustack-trace-") as folder:
        heard = Heard(
            clock=door.now,
            asked=asked,
            matrix=matrix,
            judge=judge,
            model=model,
            script=str(PROGRAM),
            output=Path(folder, "output"),
        )
        given = {"framework": asked.framework, "model": told(model), "output": str(heard.output)}
        if asked.onnx:
            given["onnx"] = str(asked.onnx.absolute())
        variables = {**environ, "PYTHONDONTWRITEBYTECODE": "1", "TMPDIR": folder}
        try:
            child = door.start([python, str(PROGRAM), json.dumps(given)], variables)
        except OSError as error:
            raise NothingSeenError(f"{python} could not be started: {error.strerror or error}") from error
        ear = Ear(door, child, PATIENCE, begun + asked.timeout)
        heard.hear(ear, progress)
        _refuse(heard, python)
        asks = heard.gpu is not None and heard.interrupted is None
        seen = limits(environ, door, begun + asked.timeout, model.precision, matrix) if asks else None
        return heard.trace(door.now() - begun, seen)


def _refuse(heard: Heard, python: str) -> None:
    """Raise if there is nothing to follow: the framework is missing in this Python, or a file is not a model."""
    number, why = heard.trouble or (0, "")
    if number != 1 or heard.interrupted:
        return
    if why.startswith("ModuleNotFoundError") and f"'{heard.name}'" in why:
        raise NothingSeenError(f"{heard.name} is not in {python}; choose another Python with --python")
    if heard.asked.onnx and heard.framework is not None:
        raise InputError(f"{heard.asked.onnx} is not a model that onnxruntime can run: {why}")


def precision(asked: Asked) -> str:
    """Return the precision to run in; raises UsageError for an unsupported one."""
    if asked.framework == ONNXRUNTIME:
        if asked.precision == "bf16":
            raise UsageError("ONNX has no bf16 for all of these layers: --precision fp16 or fp32")
        return asked.precision or "fp32"
    return asked.precision or ("bf16" if there() else "fp32")


def told(model: Model) -> dict[str, object]:
    """Return a model as plain data for the child."""
    return {
        "tensors": [asdict(one) for one in model.tensors],
        "ops": [{**asdict(op), "kind": kind(op)} for op in model.ops],
        "precision": model.precision,
        "seed": model.seed,
        "out": model.output.name,
    }


@record
class Limits:
    """The GPU with its attributes, and the limits of its memory, cache and products."""

    device: Device
    memory: Figure | None
    compute: Figure | None
    cache: Figure | None


def limits(environ: Mapping[str, str], door: Door, deadline: float, precision: str, matrix: Matrix) -> Limits | None:
    """Return the limits of the first GPU; None if it cannot be opened, or our packages for that are missing."""
    seen = _opened(environ, door, deadline)
    if seen is None:
        return None
    architecture = results.architecture(matrix, seen.device)
    rates = architecture.rates_of(seen.device.name) if architecture else {}
    return Limits(
        device=seen.device,
        memory=_figure("hbm", "GB/s", ceilings.memory(seen.device, None)),
        compute=_figure(f"gemm.{precision}", "TFLOP/s", ceilings.compute(seen.device, rates, precision, None)),
        cache=cache(seen.device, matrix),
    )


def _opened(environ: Mapping[str, str], door: Door, deadline: float) -> Opened | None:
    try:
        ear = start(ASKED, setting.variables(environ), door, ROOF_PATIENCE, deadline)
    except NothingSeenError:
        return None
    try:
        line = next(ear.lines())
        return results.opened(line.what, FIRST) if line.kind == "opened" else None
    except results.MALFORMED:
        return None
    finally:
        ear.close()


def _figure(name: str, unit: str, ceiling: Ceiling) -> Figure | None:
    return Figure(name=name, value=ceiling.best, unit=unit, note=ceiling.source) if ceiling.best else None
