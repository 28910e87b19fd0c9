"""Measure GPUs against their physical limits, in a child process, and explain low figures."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone

from gpustack.bench import case, setting, siblings, suite
from gpustack.bench.progress import Progress, Ticker, shown_on
from gpustack.bench.session import Session
from gpustack.bench.siblings import found
from gpustack.bench.stress import stress
from gpustack.collect.subprocesses import Door
from gpustack.errors import UsageError
from gpustack.matrix import Matrix
from gpustack.model.bench import BenchReport

__all__ = ["DATA", "Progress", "Ticker", "listed", "measure", "shown_on", "stress"]

TIMEOUT = 60.0  # for each GPU
DATA = ("random", "zeros", "both")


def listed() -> tuple[str, ...]:
    """Return the id of every benchmark, in execution order."""
    return tuple(bench.id for bench in suite.listed())


def measure(
    names: Sequence[str] = (),
    *,
    quick: bool = False,
    gpus: Sequence[int] | None = None,
    spare: bool = False,
    each: bool = False,
    data: str = "random",
    sustain: float = 0.0,
    repeat: int = 1,
    pythons: Sequence[str] = (),
    cublaslt: str | None = None,
    nccl: str | None = None,
    timeout: float | None = None,
    progress: Progress | None = None,
    environ: Mapping[str, str] | None = None,
    door: Door | None = None,
    matrix: Matrix | None = None,
) -> BenchReport:
    """Return the results of the benchmarks with these names and patterns (none: all) on these GPUs (CUDA's numbers).

    Without GPUs it uses all that CUDA shows, concurrently if they do not disturb each other. Products use the cuBLASLt
    of the first of ``pythons``, chosen as by the doctor, or the one at ``cublaslt``; sums over GPUs use the NCCL found
    likewise, or at ``nccl``. With both data, products use random numbers and then zeros; after their burst they
    continue for ``sustain`` seconds. The suite runs ``repeat`` times. ``timeout`` is in seconds, for everything;
    results until then are kept, also after Ctrl-C. ``spare`` skips GPUs in use by others, and ``each`` makes the short
    suite measure every card's link alone, not only an outlier's. Raises UsageError for an unknown name, GPU or Python,
    and NothingSeenError if no GPU can be opened.
    """
    if data not in DATA:
        raise UsageError(f"data is {' or '.join(DATA)}, not {data}")
    if gpus is not None and not gpus:
        raise UsageError("no GPU was named")
    environ = os.environ if environ is None else environ
    door, matrix = door or Door(), matrix or Matrix()
    benches = [bench for bench in suite.chosen(names) if names or not quick or bench.quick]
    allowed = TIMEOUT + sum(sustain for bench in benches if bench.limit.startswith("compute"))
    begun = door.now()
    session = Session(
        door=door,
        environ=setting.variables(environ),
        deadline=begun + (timeout or allowed * repeat),
        more=0.0 if timeout else TIMEOUT,
        asked={
            "quick": quick,
            "data": data,
            "sustain": sustain,
            "library": cublaslt or setting.library(pythons, environ),
            "nccl": nccl or setting.collective(pythons, environ),
            "highest": max(gpus) if gpus else None,
            "spare": spare,
        },
        matrix=matrix,
        progress=progress or Progress(),
        each=each or not quick or bool(names),
    )
    session.run(benches, gpus, repeat)
    order = {bench.id: number for number, bench in enumerate(suite.listed())}
    known = sorted(session.results, key=lambda one: (order[one.id], one.gpus or (one.device or 0,)))
    results = siblings.compared(case.merged(known), session.devices)
    return BenchReport(
        tool=matrix.tool,
        devices=session.devices,
        results=results,
        findings=found(results),
        taken=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        seconds=round(door.now() - begun, 3),
        quick=quick,
        data="random and zeros" if data == "both" else data,
        repeat=repeat,
        interrupted=session.interrupted,
    )
