"""Measure GPUs against their physical limits, in a child, and say why a figure is low."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path

from gpustack import __version__, targets
from gpustack.bench import libraries, suite
from gpustack.bench.findings import found
from gpustack.bench.progress import Progress, Silent, shown_on
from gpustack.bench.session import Session
from gpustack.door import Door
from gpustack.errors import UsageError
from gpustack.matrix import Matrix
from gpustack.model.bench import BenchReport
from gpustack.model.report import Tool

__all__ = ["DATA", "Progress", "listed", "measure", "shown_on"]

TIMEOUT = 60.0  # for each GPU
DATA = ("random", "zeros")
# The first would have fp32 measured as tf32 or the reverse; with the second the gate would wait for itself.
UNSET = frozenset({"NVIDIA_TF32_OVERRIDE", "CUDA_LAUNCH_BLOCKING"})


def listed() -> tuple[str, ...]:
    """Give the id of every benchmark, in the order in which they are run."""
    return tuple(bench.id for bench in suite.listed())


def measure(
    names: Sequence[str] = (),
    *,
    quick: bool = False,
    gpus: Sequence[int] = (0,),
    data: str = "random",
    pythons: Sequence[str] = (),
    cublaslt: str | None = None,
    timeout: float | None = None,
    progress: Progress | None = None,
    environ: Mapping[str, str] | None = None,
    door: Door | None = None,
    matrix: Matrix | None = None,
) -> BenchReport:
    """Give what the benchmarks of these names and patterns (none: all) measure on these GPUs (CUDA's numbers).

    Products are made by the cuBLASLt of the first of ``pythons``, as the doctor chooses
    them, or by the one at ``cublaslt``. ``timeout`` is in seconds, for all; what was measured by then is kept, also
    after Ctrl-C. Raises UsageError for a name, a GPU or a Python that is not there, and NothingSeenError where no GPU
    can be opened.
    """
    if data not in DATA:
        raise UsageError(f"data are {' or '.join(DATA)}, not {data}")
    if not gpus:
        raise UsageError("no GPU was named")
    environ = os.environ if environ is None else environ
    door, matrix = door or Door(), matrix or Matrix()
    benches = suite.chosen(names)
    begun = door.now()
    session = Session(
        door=door,
        environ=_environ(environ),
        deadline=begun + (timeout or TIMEOUT * len(gpus)),
        asked={
            "quick": quick,
            "data": data,
            "library": cublaslt or _library(pythons, environ),
            "highest": max(gpus),
        },
        matrix=matrix,
        progress=progress or Silent(),
    )
    session.run(benches, gpus)
    return BenchReport(
        tool=Tool(name="gpustack", version=__version__, matrix_date=matrix.date),
        devices=session.devices,
        results=tuple(session.results),
        findings=found(session.results),
        taken=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        seconds=round(door.now() - begun, 3),
        quick=quick,
        data=data,
        interrupted=session.interrupted,
    )


def _environ(environ: Mapping[str, str]) -> dict[str, str]:
    kept = {name: value for name, value in environ.items() if name not in UNSET}
    return {**kept, "CUDA_PYTHON_DISABLE_MAJOR_VERSION_WARNING": "1", "PYTHONDONTWRITEBYTECODE": "1"}


def _library(pythons: Sequence[str], environ: Mapping[str, str]) -> str | None:
    chosen = targets.choose(pythons, environ)[0]
    own = str(Path(environ.get("HOME", "/nowhere"), ".local"))
    prefixes = [chosen.prefix] if chosen.prefix else []
    return libraries.of_environment([*prefixes, *([own] if chosen.kind == "system" else [])])
