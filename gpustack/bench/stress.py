"""Load over most of the memory, checking that every bit stays correct."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from gpustack.bench import results, setting
from gpustack.bench.listening import Ear, Line, abreast, start
from gpustack.bench.progress import Ticker
from gpustack.bench.siblings import found
from gpustack.bench.suite import Bench, listed
from gpustack.collect.subprocesses import Door
from gpustack.matrix import Matrix
from gpustack.model.bench import BenchReport, Device, Mark, Result, Stress, Telemetry

if TYPE_CHECKING:
    from gpustack.bench.results import Opened
    from gpustack.model.rows import Architecture

TITLE = "load over most of the memory"
GIB = 1 << 30
METHOD = ("way", "dtype", "m", "n", "k", "d", "library", "library_version", "waves", "workspace_mib")
PATIENCE = 20.0
ALLOWANCE = 60.0  # for opening the GPU and the last round


def bench(dtype: str = "bf16") -> Bench:
    """Return the load as a benchmark: it is that type's product, with its limit."""
    return next(replace(one, id="stress", title=TITLE) for one in listed() if one.id == f"gemm.{dtype}")


def concluded(
    states: Sequence[Mapping[str, Any]], asked: float, seen: Opened, architecture: Architecture | None
) -> Result:
    """Return the result of at least one round; malformed ones make it a failed one."""
    try:
        return _concluded(states, asked, seen, architecture)
    except results.MALFORMED as error:
        reason = f"the child's answer is malformed: {type(error).__name__}: {error}"
        return results.failed(bench(), seen.device.index, reason)


def _concluded(
    states: Sequence[Mapping[str, Any]], asked: float, seen: Opened, architecture: Architecture | None
) -> Result:
    last, held = states[-1], bench(str(states[0]["dtype"]))
    said = {
        "amount": last["amount"],
        "runs": last["products"],
        "seconds": [state["each"] for state in states],
        "clocks": [state["clock"] for state in states if state["clock"]],
        "gated": True,
        "method": {name: last[name] for name in METHOD if name in last},
        "tried": {},
        "readings": [reading for state in states for reading in state["readings"]],
        "before": states[0]["before"],
        "after": last["after"],
        "wall": last["spent"],
    }
    measured, stress = results.measured(said, held, seen, architecture), _summed(states, asked)
    if measured.value is None:
        return measured
    wrong, ecc = _wrong(stress, seen.device), measured.telemetry.ecc.uncorrected if measured.telemetry else None
    mark = Mark.FAILED if wrong or ecc else Mark.LOW if measured.verdict is Mark.LOW else Mark.OK
    kept = tuple(reason for reason in measured.why if not reason.startswith("not steady"))
    more = f"; {stress.patterns} patterns written to it and read back; {stress.steps} load steps"
    alike = f"{stress.products} products over {stress.memory_gib:.1f} GiB compared bit by bit: all identical"
    what = wrong or alike + more * bool(stress.patterns)
    did = tuple(filter(None, (_did(measured.telemetry),)))
    return replace(measured, verdict=mark, why=(what, *kept, *did), stress=stress)


def _summed(states: Sequence[Mapping[str, Any]], asked: float) -> Stress:
    wrong = [tuple(state["wrong"]) for state in states]
    places = [int(first) for _, _, first in wrong if first is not None]
    size = int(states[-1]["memory"])
    each, products = int(states[-1]["result"]), sum(int(state["products"]) for state in states)
    return Stress(
        asked=asked,
        seconds=float(states[-1]["spent"]),
        memory_gib=round(size / GIB, 3),
        rounds=len(states),
        products=products,
        compared_gib=round(products * each / GIB, 3),
        wrong_bits=sum(int(bits) for bits, _, _ in wrong),
        wrong_words=sum(int(words) for _, words, _ in wrong),
        first_wrong=f"byte {places[0]} of the {size} that were filled" if places else None,
        operands_changed=any(bool(state["changed"]) for state in states),
        patterns=sum("pattern" in state for state in states),
        wrong_units=sum(int(state.get("pattern", 0)) for state in states),
        steps=sum(int(state.get("steps", 0)) for state in states),
    )


def _wrong(stress: Stress, device: Device) -> str:
    """Return what was wrong, and on which GPU; nothing if all was correct."""
    if not stress.wrong_bits and not stress.operands_changed and not stress.wrong_units:
        return ""
    where = f"GPU {device.index} ({', '.join(filter(None, (device.name, device.pci)))})"
    if stress.operands_changed:
        too = f", and {stress.wrong_bits} bits of the results differ" if stress.wrong_bits else ""
        return f"{where} does not keep what is written to its memory: operands or reference changed{too}"
    if stress.wrong_units:
        return f"{where} does not keep what is written to its memory: {stress.wrong_units} units of 16 bytes differ"
    many = f"wrong bits: {stress.wrong_bits}, in {stress.wrong_words} words of {stress.products} products"
    return f"{where} computes or stores wrong values; {many}, the first at {stress.first_wrong}"


def _did(seen: Telemetry | None) -> str:
    """Return the clock, power and temperatures at which the card worked."""
    if seen is None:
        return ""
    watts, gpu, memory = seen.power.watts, seen.temperature.gpu, seen.temperature.memory
    told = (
        f"clock held {seen.clocks.held:.0f} MHz" if seen.clocks.held is not None else "",
        f"{watts.median:.0f} W" if watts else "",
        f"up to {gpu.high:.0f} °C" if gpu else "",
        f"memory up to {memory.high:.0f} °C" if memory else "",
        f"held back by {', '.join(seen.throttle.reasons)}" if seen.throttle.reasons else "",
    )
    return ", ".join(filter(None, told))


@dataclass(slots=True, kw_only=True)
class Patient:
    """One GPU under load: its messages, and how it ended."""

    gpu: int
    ear: Ear
    seen: Opened | None = None
    states: list[Mapping[str, Any]] = field(default_factory=list)
    trouble: Line | None = None


def stress(
    seconds: float,
    *,
    gpus: Sequence[int] | None = None,
    pythons: Sequence[str] = (),
    cublaslt: str | None = None,
    ticker: Ticker | None = None,
    environ: Mapping[str, str] | None = None,
    door: Door | None = None,
    matrix: Matrix | None = None,
) -> BenchReport:
    """Return the results of loading these GPUs (CUDA's numbers) for this many seconds, all at the same time.

    Without GPUs it uses all that are not in use by others. Results until Ctrl-C are kept. Raises UsageError for an
    unknown GPU or Python, and NothingSeenError if no GPU can be opened.
    """
    environ, door, matrix = os.environ if environ is None else environ, door or Door(), matrix or Matrix()
    begun = door.now()
    asked = {
        "quick": False,
        "data": "random",
        "stress": seconds,
        "highest": max(gpus) if gpus else None,
        "spare": not gpus,
        "library": cublaslt or setting.library(pythons, environ),
    }
    until = begun + seconds + ALLOWANCE

    def begin(gpu: int, names: tuple[str, ...] | None = ()) -> Ear:
        wanted = {**asked, "gpu": gpu, "names": names}
        return start(wanted, setting.variables(environ), door, PATIENCE, until, what="the load")

    ward = Ward(ticker=ticker or Ticker(None, seconds), begin=begin)
    interrupted = ward.run({gpu: begin(gpu) for gpu in dict.fromkeys(gpus)} if gpus else {0: begin(0, None)})
    kept = tuple(_result(patient, seconds, matrix) for patient in ward.patients.values())
    if not (devices := [patient.seen for patient in ward.patients.values() if patient.seen]):
        trouble = next((patient.trouble for patient in ward.patients.values() if patient.trouble), None)
        raise results.refusal(trouble.what if trouble else None, max(gpus or (0,)))
    own = {seen.device.index: seen.device for seen in devices}
    return BenchReport(
        tool=matrix.tool,
        devices=tuple(own.get(device.index, device) for device in devices[0].devices),
        results=kept,
        findings=found(kept),
        taken=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        seconds=round(door.now() - begun, 3),
        interrupted=interrupted,
    )


@dataclass(slots=True, kw_only=True)
class Ward:
    """All GPUs under load at once, read in one place."""

    ticker: Ticker
    begin: Callable[[int], Ear]
    patients: dict[int, Patient] = field(default_factory=dict)

    def run(self, ears: Mapping[int, Ear]) -> str | None:
        """Read every child to its end, or end them all at Ctrl-C; return what interrupted."""
        self.patients = {gpu: Patient(gpu=gpu, ear=ear) for gpu, ear in ears.items()}
        try:
            while listening := {gpu: one.ear for gpu, one in self.patients.items() if not one.ear.over}:
                for gpu, line in abreast(listening):
                    self._hear(self.patients[gpu], line)
        except KeyboardInterrupt:
            return "Ctrl-C"
        finally:
            for patient in self.patients.values():
                patient.ear.close()
            self.ticker.close()
        return None

    def _hear(self, patient: Patient, line: Line) -> None:
        if line.kind == "listed":
            for gpu in results.listed(line.what):
                if gpu not in self.patients:
                    self.patients[gpu] = Patient(gpu=gpu, ear=self.begin(gpu))
        elif line.kind == "opened":
            with suppress(*results.MALFORMED):
                patient.seen = results.opened(line.what, patient.gpu)
        elif line.kind == "state" and isinstance(line.what, dict):
            patient.states.append(line.what)
            self.ticker.told(patient.gpu, line.what)
        elif line.kind in {"nothing", "skipped", "failed", "died"}:
            patient.trouble = patient.trouble or line


def _result(patient: Patient, seconds: float, matrix: Matrix) -> Result:
    """Return the result of one GPU: its rounds, and how it ended if that was abnormal."""
    line, seen = patient.trouble, patient.seen
    what: Any = line.what if line else "the load was stopped before its first round ended"
    reason = str(what.get("reason")) if isinstance(what, dict) else str(what)
    if not patient.states or seen is None:
        if line is None or line.kind == "skipped" or (isinstance(what, dict) and what.get("occupied")):
            remedy = what.get("remedy") if isinstance(what, dict) else None
            return results.skipped(bench(), patient.gpu, reason, remedy)
        return results.failed(bench(), patient.gpu, reason)
    result = concluded(patient.states, seconds, seen, results.architecture(matrix, seen.device))
    if line is None:
        return result
    after = f"after {float(patient.states[-1]['spent']):.0f} s: {reason}"
    return replace(result, verdict=Mark.FAILED, why=(after, *result.why))
