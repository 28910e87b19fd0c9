"""The program in the child: opens one GPU, runs benchmarks on it, and prints a JSON line for each thing that happens.

{"listed": {"devices": []}}                                                which GPUs there are; its list is to come
{"opened": {"devices": [], "limits": {}, "others": [], "payload": 256}}    the GPU is open
{"turn": ID}                                                               it waits until it may do this: {"go": true}
{"at": ID}                                                                 this benchmark begins
{"part": 0.4}                                                              so much of it is done
{"measured": {"id": ID, "amount": N, "runs": N, "seconds": [], ...}}       its samples, what the card did meanwhile
{"skipped": {"id": ID, "reason": TEXT, "remedy": TEXT}}                    it cannot be run here
{"state": {"spent": S, "each": S, ...}}                                    one round of a load is over: see burn.py
{"failed": {"id": ID, "reason": TEXT}}                                     it went wrong
{"nothing": {"reason": TEXT, "remedy": TEXT, "count": N}}                  no GPU can be opened
{"done": null}                                                             all was run

It judges nothing. After an error of CUDA its context is lost: the child ends, the parent starts another.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from typing import IO, TYPE_CHECKING, Any

from gpustack.bench import suite
from gpustack.bench.burn import burn
from gpustack.bench.lab import Job, Lab, SkipError
from gpustack.bench.numa import near, payload
from gpustack.bench.timing import SLOTS, Plan, Samples, Timer, Wishes, beside, fitting, follow, gather, sample, settle
from gpustack.model import record, replace

if TYPE_CHECKING:
    from gpustack.bench.card import Card
    from gpustack.bench.routes import Routes
    from gpustack.bench.suite import Bench
    from gpustack.bench.telemetry import Telemetry

USUAL, QUICK = Plan(), Plan(warm=0.25, budget=0.16, least=6)
ABREAST = replace(QUICK, budget=0.4)  # for what belongs to the time that all share
VARIANTS, QUICK_VARIANTS = 8, 3
TRIAL = 0.004  # seconds of the train that compares one way with another
OUT_OF_MEMORY = ("CUDA_ERROR_OUT_OF_MEMORY", "Failed to allocate memory")  # the second is cuda.core 1.0's
NO_DRIVER = "there is no NVIDIA driver here: libcuda.so.1 was not found"
INSTALL = "pip install 'cuda-core>=1.0.1,<2' 'cuda-bindings>=12.9,<14'"  # the additional bench
BEATS = 20  # each of these parts of a benchmark is reported once


class Outlet:
    """The output for lines: the original standard output, which is now standard error for everyone else."""

    def __init__(self) -> None:
        """Redirect standard output away from libraries that print to it."""
        self._file: IO[str] = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)
        self._part = 0

    def say(self, kind: str, what: object) -> None:
        """Print one line."""
        self._part = 0
        self._file.write(json.dumps({kind: what}) + "\n")
        self._file.flush()

    def part(self, done: float) -> None:
        """Report progress of the benchmark now and then."""
        part = int(done * BEATS)
        if part != self._part:
            self.say("part", min(1.0, done))
            self._part = part


@record
class Desk:
    """One GPU with everything needed to measure it."""

    card: Card
    lab: Lab
    timer: Timer
    watch: Telemetry
    outlet: Outlet
    wishes: Wishes
    routes: Routes


def main(asked: Mapping[str, Any]) -> None:
    """Run the parent's order: {"gpu", "highest", "names", "company", "quick", "data", "library", "nccl"}.

    Without names, their list follows on standard input, once the GPUs are known.
    """
    outlet = Outlet()
    with ExitStack() as stack:
        desk = opened(asked, outlet, stack)
        if desk and (last(asked["stress"], desk) if "stress" in asked else run(asked, desk)):
            outlet.say("done", None)
        os._exit(0)  # the context is not torn down piece by piece, which would take longer than some benchmarks


def order() -> dict[str, Any]:
    """Return the parent's next order; exit if the parent has gone."""
    line = sys.stdin.readline()
    if not line:
        os._exit(1)
    said: dict[str, Any] = json.loads(line)
    return said


def opened(asked: Mapping[str, Any], outlet: Outlet, stack: ExitStack) -> Desk | None:
    """Return everything needed to measure one GPU; if it cannot be opened, report why and return None."""
    devices: list[dict[str, Any]] = []
    try:
        from gpustack.bench import card, routes, telemetry  # noqa: PLC0415 - where the packages are missing, this says so

        handles = telemetry.opened()
        devices = card.devices()
        _, row = (devices[number] for number in (asked["highest"] or 0, asked["gpu"]))  # raises if one does not exist
        if asked.get("names", ()) is None:
            outlet.say("listed", {"devices": devices})
        if asked.get("spare") and (there_ := telemetry.company(telemetry.parent(handles, row["uuid"])[0])):
            reason = f"GPU {asked['gpu']} is skipped, since other processes use it: {', '.join(there_[:3])}"
            outlet.say(
                "nothing", {"reason": reason, "remedy": f"gpustack bench --gpu {asked['gpu']}", "occupied": True}
            )
            return None
        place = stack.enter_context(near(row["pci"]))
        handle, share = telemetry.parent(handles, row["uuid"])
        there, busy = telemetry.numbers(handle), telemetry.busy(handle)
        chosen = card.Card(asked["gpu"], asked["library"])
        timer = _timer(chosen, stack)
    except ImportError as error:
        outlet.say("nothing", {"reason": f"the bench's packages are not installed: {error}", "remedy": INSTALL})
        return None
    except Exception as error:  # noqa: BLE001 - whatever CUDA raises where there is no GPU, driver or right to use it
        full = any(sign in str(error) for sign in OUT_OF_MEMORY)
        reason = "the GPU's memory is full, so it cannot even be opened" if full else _said(error)
        remedy = "nvidia-smi" if full else "gpustack doctor"
        outlet.say("nothing", {"reason": reason, "remedy": remedy, "count": len(devices)})
        return None
    own = telemetry.numbers(handle) - there
    watch = telemetry.Telemetry(handle, row["pci"], own)
    limits = {**watch.limits(), "busy": busy, "slice": share}
    told = {"devices": devices, "limits": limits, "others": watch.others()}
    outlet.say("opened", {**told, "payload": payload(row["pci"]), "own": sorted({*own, os.getpid()})})
    variants = QUICK_VARIANTS if asked["quick"] else VARIANTS
    libraries = {name: asked.get(name) for name in ("library", "nccl")}
    lab = Lab(chosen, data=asked["data"], variants=variants, place=place, **libraries)
    ways = routes.Routes(handles, devices)
    wishes = Wishes(sustain=asked.get("sustain", 0.0), zeros=asked["data"] == "both")
    return Desk(card=chosen, lab=lab, timer=timer, watch=watch, outlet=outlet, wishes=wishes, routes=ways)


def run(asked: Mapping[str, Any], desk: Desk) -> bool:
    """Run every requested benchmark; return whether the context is still usable."""
    say = desk.outlet.say
    asked = {**asked, **order()} if asked["names"] is None else asked
    benches = suite.picked(asked["names"], asked["company"])
    for bench, turn in zip(benches, asked.get("turns") or [False] * len(benches), strict=True):
        together = bench.scope == "abreast"
        if turn and not together and not _turn(bench, desk):
            continue
        say("at", bench.id)
        try:
            start = partial(_turn, bench, desk) if turn and together else None
            say("measured", measure(bench, desk, (ABREAST if together else QUICK) if asked["quick"] else USUAL, start))
        except SkipError as skip:
            say("skipped", {"id": bench.id, "reason": str(skip), "remedy": skip.remedy})
        except Exception as error:  # noqa: BLE001 - the answer of one benchmark, whatever a library raises
            if any(sign in str(error) for sign in OUT_OF_MEMORY):
                say("skipped", {"id": bench.id, "reason": "too little memory is free", "remedy": "nvidia-smi"})
                continue
            say("failed", {"id": bench.id, "reason": _said(error)})
            if not isinstance(error, ArithmeticError):
                return False
    return True


def _turn(bench: Bench, desk: Desk) -> bool:
    """Wait for the parent's permission; return whether the turn is still wanted."""
    desk.outlet.say("turn", bench.id)
    return bool(order().get("go"))


def last(seconds: float, desk: Desk) -> bool:
    """Load the GPU for this many seconds; return whether the context is still usable."""
    try:
        burn(desk, seconds)
    except SkipError as skip:
        desk.outlet.say("skipped", {"reason": str(skip), "remedy": skip.remedy})
    except Exception as error:  # noqa: BLE001 - the answer of the load, whatever a library raises
        full = any(sign in str(error) for sign in OUT_OF_MEMORY)
        reason = "too little memory is free" if full else _said(error)
        desk.outlet.say("skipped" if full else "failed", {"reason": reason, "remedy": "nvidia-smi" if full else None})
        return full
    return True


def measure(bench: Bench, desk: Desk, usual: Plan, start: Callable[[], object] | None = None) -> dict[str, Any]:
    """Return one benchmark's samples with everything needed to judge them; raises if its work is wrong.

    With ``start`` it runs for a fixed time from then on, while others do the same.
    """
    begun, timer, watch = time.monotonic(), desk.timer.closed(), desk.watch
    most = bench.budget or usual.warm + usual.budget
    plan = replace(usual, train=bench.train or usual.train, rest=bench.rest)
    plan = replace(plan, warm=min(plan.warm, most), budget=min(plan.budget, most))
    with bench.jobs(desk.lab) as jobs:
        job, tried = best(jobs, timer, plan)
        if wrong := job.check():
            raise ArithmeticError(wrong)
        before = watch.counters()
        samples, known = taken(job, timer, plan, desk.outlet.part, start)
        after = watch.counters()
        if wrong := job.check():
            raise ArithmeticError(wrong)
        more = follow(job, desk.wishes, plan=plan, timer=timer, watch=watch, told=desk.outlet.part) if job.blank else {}
    return {
        **more,
        "id": bench.id,
        "amount": job.amount,
        "runs": samples.runs,
        "seconds": samples.seconds,
        "clocks": [train.clock_mhz for train in samples.trains if train.clock_mhz],
        "gated": timer.gated and job.gated,
        "method": {"way": job.label, **job.method, **known, **_between(bench, desk), **_gate(job, timer)},
        "tried": tried,
        "probed": suite.rates(desk.lab) if bench.limit.startswith("compute.") else {},
        "readings": watch.window(samples.begun, samples.ended),
        "before": before,
        "after": after,
        "wall": time.monotonic() - begun,
    }


def _between(bench: Bench, desk: Desk) -> dict[str, Any]:
    """Return NVML's data on the links between the GPUs of a multi-GPU benchmark."""
    return {"nvlinks": desk.routes.ends((desk.lab.gpu, *bench.company))} if bench.company else {}


def _gate(job: Job, timer: Timer) -> dict[str, str]:
    """Report if the gate timed out in work that should be behind it."""
    return {"gate": "gave up"} if job.gated and not timer.gated else {}


def taken(
    job: Job, timer: Timer, plan: Plan, progress: Callable[[float], None], start: Callable[[], object] | None = None
) -> tuple[Samples, Mapping[str, object]]:
    """Return the samples of one way to do a work, and its details known only afterwards."""
    if start:
        return beside(job, timer, plan, start), {}
    if (sampler := job.sampler) is None:
        return sample(timer if job.gated else timer.open(), job.run, plan, progress), {}
    settle(lambda: sampler.take(timer), plan)
    return gather(lambda: sampler.take(timer), sampler.runs, plan, progress), sampler.told()


def best(jobs: list[Job], timer: Timer, plan: Plan) -> tuple[Job, dict[str, float]]:
    """Return the fastest of several ways to do a work, and the result of a short train of each (amount per second)."""
    if len(jobs) == 1:
        return jobs[0], {}
    tried: dict[str, float] = {}
    pilot = jobs[0].run
    timer.first(pilot)
    timer.train(pilot, fitting(plan.train, timer.train(pilot, 1).seconds))  # or the first would be tried on a cold card
    for job in jobs:
        timer.first(job.run)
        each = timer.train(job.run, 1).seconds
        if (runs := fitting(TRIAL, each)) > 1:
            each = timer.train(job.run, runs).seconds
        tried[job.label] = job.amount / each
        time.sleep(plan.rest)
    return max(jobs, key=lambda job: tried[job.label]), tried


def _timer(card: Card, stack: ExitStack) -> Timer:
    """Return a timer with its memory."""
    room = 16 * SLOTS
    flag = stack.enter_context(card.pinned(64))
    slots = stack.enter_context(card.memory(room)), stack.enter_context(card.memory(room))
    notes = stack.enter_context(card.pinned(room)), stack.enter_context(card.pinned(room))
    return Timer(card, flag, slots, notes)


def _said(error: Exception) -> str:
    """Return the first line of an error, with its type if that says more."""
    if type(error).__name__ == "DynamicLibNotFoundError" or "dlopen libcuda" in str(error):
        return NO_DRIVER  # bindings from 13.4 on raise the one, older ones the other
    first = (str(error).strip().splitlines() or [""])[0]
    return first if isinstance(error, ArithmeticError) and first else f"{type(error).__name__}: {first}"


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
