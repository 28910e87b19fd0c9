"""A lasting load over most of the memory of one or more GPUs at once, with every result compared bit by bit."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from gpustack import __version__
from gpustack.bench import load, results, setting
from gpustack.bench.findings import found
from gpustack.bench.listening import Ear, Line, start
from gpustack.bench.ticker import Ticker
from gpustack.collect.subprocesses import Door
from gpustack.errors import NothingSeenError, UsageError
from gpustack.matrix import Matrix
from gpustack.model.bench import BenchReport, Mark
from gpustack.model.report import Tool
from gpustack.model.versions import ComputeCapability

if TYPE_CHECKING:
    from gpustack.bench.results import Opened
    from gpustack.model.bench import Result

PATIENCE = 20.0
ALLOWANCE = 60.0  # for opening the GPU and for the last round
WAIT = 0.5


@dataclass(slots=True, kw_only=True)
class Patient:
    """One GPU under load: what was heard of it, and how it ended."""

    gpu: int
    ear: Ear
    seen: Opened | None = None
    states: list[Mapping[str, Any]] = field(default_factory=list)
    trouble: Line | None = None
    ended: bool = False


def stress(
    seconds: float,
    *,
    gpus: Sequence[int] = (0,),
    pythons: Sequence[str] = (),
    cublaslt: str | None = None,
    ticker: Ticker | None = None,
    environ: Mapping[str, str] | None = None,
    door: Door | None = None,
    matrix: Matrix | None = None,
) -> BenchReport:
    """Give what a load of so many seconds brought to light on these GPUs (CUDA's numbers), all at the same time.

    What was found by then is kept at Ctrl-C. Raises UsageError for a GPU or a Python that is not there, and
    NothingSeenError where no GPU can be opened.
    """
    environ, door, matrix = os.environ if environ is None else environ, door or Door(), matrix or Matrix()
    begun = door.now()
    asked = {
        "quick": False,
        "data": "random",
        "stress": seconds,
        "highest": max(gpus),
        "library": cublaslt or setting.library(pythons, environ),
    }
    ward = Ward(seconds=seconds, ticker=ticker or Ticker(None, seconds))
    until = begun + seconds + ALLOWANCE
    interrupted = ward.run({gpu: _begun({**asked, "gpu": gpu}, environ, door, until) for gpu in dict.fromkeys(gpus)})
    kept = tuple(_result(patient, seconds, matrix) for patient in ward.patients.values())
    devices = [patient.seen for patient in ward.patients.values() if patient.seen]
    if not devices:
        raise _nothing(list(ward.patients.values()), max(gpus))
    own = {seen.device.index: seen.device for seen in devices}
    return BenchReport(
        tool=Tool(name="gpustack", version=__version__, matrix_date=matrix.date),
        devices=tuple(own.get(device.index, device) for device in devices[0].devices),
        results=kept,
        findings=found(kept),
        taken=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        seconds=round(door.now() - begun, 3),
        interrupted=interrupted,
    )


@dataclass(slots=True, kw_only=True)
class Ward:
    """All GPUs under load at once: a thread listens to each child, and one place hears them all."""

    seconds: float
    ticker: Ticker
    patients: dict[int, Patient] = field(default_factory=dict)
    _heard: queue.SimpleQueue[tuple[int, Line | None]] = field(default_factory=queue.SimpleQueue)

    def run(self, ears: Mapping[int, Ear]) -> str | None:
        """Hear every child to its end, or end them all at Ctrl-C; give what interrupted."""
        self.patients = {gpu: Patient(gpu=gpu, ear=ear) for gpu, ear in ears.items()}
        threads = [threading.Thread(target=self._listen, args=(one,), daemon=True) for one in self.patients.values()]
        interrupted = None
        try:
            for thread in threads:
                thread.start()
            while not all(patient.ended for patient in self.patients.values()):
                self._hear()
        except KeyboardInterrupt:
            interrupted = "Ctrl-C"
            for ear in ears.values():
                ear.door.kill(ear.child)
        finally:
            self.ticker.close()
        for thread in threads:
            thread.join(WAIT)
        return interrupted

    def _listen(self, patient: Patient) -> None:
        try:
            for line in patient.ear.lines():
                self._heard.put((patient.gpu, line))
        finally:
            patient.ear.close()
            self._heard.put((patient.gpu, None))

    def _hear(self) -> None:
        try:
            gpu, line = self._heard.get(timeout=WAIT)
        except queue.Empty:
            return
        patient = self.patients[gpu]
        if line is None:
            patient.ended = True
        elif line.kind == "opened":
            patient.seen = _opened(line.what, gpu)
        elif line.kind == "state" and isinstance(line.what, dict):
            patient.states.append(line.what)
            self.ticker.told(gpu, line.what)
        elif line.kind in {"nothing", "skipped", "failed", "died"}:
            patient.trouble = patient.trouble or line


def _begun(asked: Mapping[str, object], environ: Mapping[str, str], door: Door, until: float) -> Ear:
    try:
        return start({**asked, "names": []}, setting.variables(environ), door, PATIENCE, until)
    except OSError as error:
        raise NothingSeenError(f"the load could not be started: {error.strerror or error}") from error


def _opened(what: Any, gpu: int) -> Opened | None:  # noqa: ANN401 - a line of the child
    try:
        return results.opened(what, gpu)
    except results.MALFORMED:
        return None


def _nothing(patients: Sequence[Patient], highest: int) -> NothingSeenError | UsageError:
    """Say why no GPU was opened."""
    line = next((patient.trouble for patient in patients if patient.trouble), None)
    what: Any = line.what if line else None
    if not isinstance(what, dict):
        return NothingSeenError(f"the GPU could not be opened: the child {what or 'was ended'}")
    count = what.get("count")
    if isinstance(count, int) and 0 < count <= highest:
        return UsageError(f"there is no GPU {highest}; CUDA shows {count}, from 0 on")
    return NothingSeenError(f"{what.get('reason')}; to mend it: {what.get('remedy')}")


def _result(patient: Patient, seconds: float, matrix: Matrix) -> Result:
    """Give the result of one GPU: what its rounds say, and how it ended where that was not as it should be."""
    line, seen = patient.trouble, patient.seen
    what: Any = line.what if line else "the load was ended before its first round was over"
    reason = str(what.get("reason")) if isinstance(what, dict) else str(what)
    if not patient.states or seen is None:
        if line is None or line.kind == "skipped":
            remedy = what.get("remedy") if isinstance(what, dict) else None
            return results.skipped(load.bench(), patient.gpu, reason, remedy)
        return results.failed(load.bench(), patient.gpu, reason)
    capability = ComputeCapability.parse(seen.device.compute_capability)
    result = load.concluded(patient.states, seconds, seen, matrix.arch(capability) if capability else None)
    if line is None:
        return result
    after = f"after {float(patient.states[-1]['spent']):.0f} s: {reason}"
    return replace(result, verdict=Mark.FAILED, why=(after, *result.why))
