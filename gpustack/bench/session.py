"""One run of the suite: a child for each GPU, concurrently if they do not disturb each other.

Each child works through its list; before anything that others could disturb it asks for its turn. This module decides
who may proceed: exclusive work runs alone, pairs beside other pairs, and concurrent work starts together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from gpustack.bench import results, setting, siblings, suite
from gpustack.bench.listening import Ear, Line, abreast, start
from gpustack.errors import NothingSeenError, UsageError

if TYPE_CHECKING:
    from gpustack.bench.progress import Progress
    from gpustack.bench.results import Opened
    from gpustack.bench.suite import Bench
    from gpustack.collect.subprocesses import Door
    from gpustack.matrix import Matrix
    from gpustack.model.bench import Device, Result

PATIENCE = 20.0  # half a gigabyte of library may come from a slow disk
ANSWERS = frozenset({"measured", "skipped", "failed"})
FEWEST = 2  # GPUs, for benchmarks between them
MANY = 2  # GPUs in the short suite: with more of them, pairs are for the long one


@dataclass(slots=True, kw_only=True)
class Worker:
    """One GPU with its child: the remaining work, the pending request, and whether it is running."""

    gpu: int
    left: list[Bench] = field(default_factory=list)
    ear: Ear | None = None
    seen: Opened | None = None
    began: bool = False
    answered: bool = False

    @property
    def waits(self) -> Bench | None:
        """The child's pending request."""
        return self.left[0] if self.ear and self.ear.waiting and self.left else None

    @property
    def quiet(self) -> bool:
        """Whether it is idle: without a child, or waiting."""
        return self.ear is None or self.ear.waiting

    def take(self) -> list[Bench]:
        """Return the remaining work, and clear it."""
        left, self.left = self.left, []
        return left

    def close(self) -> None:
        """End its child."""
        if self.ear:
            self.ear.close()
            self.ear = None


@dataclass(slots=True, kw_only=True)
class Session:
    """The request, how children are started, and the results.

    ``more`` are extra seconds for each GPU in a multi-GPU benchmark; ``each`` makes the short suite measure every
    card's own link alone too.
    """

    door: Door
    environ: Mapping[str, str]
    deadline: float
    asked: Mapping[str, object]
    matrix: Matrix
    progress: Progress
    patience: float = field(default_factory=lambda: PATIENCE)
    more: float = 0.0
    each: bool = True
    devices: tuple[Device, ...] = ()
    results: list[Result] = field(default_factory=list)
    interrupted: str | None = None
    of: int = 0
    _workers: dict[int, Worker] = field(default_factory=dict)
    _parts: dict[str, dict[int, Result]] = field(default_factory=dict)
    _benches: tuple[Bench, ...] = ()
    _single: bool = False

    def run(self, benches: Sequence[Bench], gpus: Sequence[int] | None, repeat: int = 1) -> None:
        """Run these benchmarks on these GPUs (none: all), this many times; at Ctrl-C, end with the results so far."""
        self._benches = tuple(benches)
        self.of = len(benches) * repeat
        try:
            for _ in range(repeat):
                self._round(tuple(dict.fromkeys(gpus)) if gpus else None)
        except KeyboardInterrupt:
            self.interrupted = "Ctrl-C"
        finally:
            for worker in self._workers.values():
                worker.close()
            self.progress.close()

    def _round(self, gpus: tuple[int, ...] | None) -> None:
        """Run everything once: without named GPUs, the first child reports which exist."""
        self._workers, self._parts, self._single = {}, {}, False
        if not gpus and not self.devices:
            self._workers = {0: Worker(gpu=0)}
            self._begin(self._workers[0], unnamed=True)
        else:
            self._share(gpus or tuple(device.index for device in self.devices))
        while any(worker.ear for worker in self._workers.values()):
            ears = {gpu: worker.ear for gpu, worker in self._workers.items() if worker.ear}
            for gpu, line in abreast(ears):
                if self._workers[gpu].ear is ears[gpu]:
                    self._heard(self._workers[gpu], line)
            due = {bench.id for worker in self._workers.values() for bench in worker.left}
            for name in set(self._parts) - due:  # what all cards did at once is one figure when none is to come
                self._keep(results.together(self._parts.pop(name)))
            self._turns()
        for bench in self._benches:
            if self._single and bench.scope != "one":
                why, remedy = setting.alone(self.environ, self.devices)
                self._keep(results.skipped(bench, next(iter(self._workers)), why, remedy))
        for worker in self._workers.values():
            for bench in worker.left:
                self._keep(results.skipped(bench, worker.gpu, "time ran out before its turn", None))

    def _share(self, gpus: Sequence[int]) -> None:
        """Give each GPU its list, and a child if it has none."""
        works = suite.tasks(self._benches, gpus)
        if len(gpus) < FEWEST:
            works = {gpus[0]: [bench for bench in self._benches if bench.scope == "one"]}
            self._single = True
        elif self.asked["quick"] and len(gpus) > MANY:
            works = {gpu: [bench for bench in work if bench.scope != "pair"] for gpu, work in works.items()}
        self.of += sum(map(len, works.values())) - len([bench for bench in self._benches if bench.scope == "one"])
        self.deadline += self.more * (len(gpus) if len(gpus) > 1 else 0)
        first = self._workers.get(gpus[0])
        self._workers = {gpu: Worker(gpu=gpu, left=work) for gpu, work in works.items()}
        if first and gpus[0] in works:
            self._workers[gpus[0]] = replace(first, left=works[gpus[0]])
        for worker in self._workers.values():
            if worker.ear:
                worker.ear.deadline = self.deadline
                worker.ear.tell(self._list(worker))
            else:
                self._begin(worker)

    def _list(self, worker: Worker) -> dict[str, object]:
        turns = [len(self._workers) > 1 and (bench.scope != "one" or bench.alone) for bench in worker.left]
        company = [bench.company for bench in worker.left]
        return {"names": [bench.id for bench in worker.left], "company": company, "turns": turns}

    def _begin(self, worker: Worker, *, unnamed: bool = False) -> None:
        """Start a child for a GPU's remaining work."""
        given = {"names": None} if unnamed else self._list(worker)
        worker.seen, worker.began, worker.answered = None, False, False
        asked = {**self.asked, "gpu": worker.gpu, **given}
        worker.ear = start(asked, self.environ, self.door, self.patience, self.deadline)

    def _heard(self, worker: Worker, line: Line) -> None:
        """Process one message of a child."""
        if line.kind == "listed":
            self._share(results.listed(line.what))
        elif line.kind in {"opened", "nothing"} or (line.kind == "died" and worker.seen is None):
            self._opened(worker, line)
        elif line.kind in {"died", "done"}:
            worker.close()
            died = line.kind == "died"
            how = str(line.what) if died else "the child reported that it was done, but was not"
            if worker.left and ((died and worker.began) or not worker.answered):  # one at least, so that this ends
                self._keep(results.failed(worker.left.pop(0), worker.gpu, how))
            if worker.left and self.door.now() < self.deadline:
                self._begin(worker)
        elif line.kind in ANSWERS and worker.left:
            worker.began, worker.answered = False, True
            self._answered(worker, line)
        elif line.kind == "at" and worker.left:
            worker.began = True
            self.progress.started(worker.left[0].id, len(self.results) + 1, self.of)
        elif line.kind == "part" and len(self._workers) == 1 and isinstance(line.what, float | int):
            self.progress.moved(float(line.what))

    def _opened(self, worker: Worker, line: Line) -> None:
        """Store an opened GPU, or report why one could not be opened; raises if there is none."""
        what: Any = line.what
        if line.kind == "opened":
            try:
                worker.seen = results.opened(what, worker.gpu)
            except results.MALFORMED as error:
                self._lost(worker, f"the child's answer is malformed: {error}")
                return
            known = {device.index: device for device in (*worker.seen.devices, *self.devices)}
            self.devices = tuple({**known, worker.gpu: worker.seen.device}.values())
            return
        if line.kind != "nothing" or not isinstance(what, dict):
            self._lost(worker, f"the GPU could not be opened: the child {what}")
            return
        count, highest, reason = what.get("count"), self.asked["highest"], str(what.get("reason"))
        if isinstance(count, int) and isinstance(highest, int) and 0 < count <= highest:
            raise UsageError(f"there is no GPU {highest}; CUDA shows {count}, from 0 on")
        if not what.get("occupied"):
            self._lost(worker, f"{reason}; to fix it: {what.get('remedy')}")
            return
        worker.close()
        for bench in worker.take():
            self._keep(results.skipped(bench, worker.gpu, reason, str(what.get("remedy"))))

    def _lost(self, worker: Worker, why: str) -> None:
        """Fail one GPU that cannot be opened, without affecting others; raises if it was the last one."""
        worker.close()
        others = any(one.ear for one in self._workers.values())
        if not self.results and not others:
            raise NothingSeenError(why)
        for number, bench in enumerate(worker.take()):
            said = results.skipped(bench, worker.gpu, f"GPU {worker.gpu} cannot be used: {why}", None)
            self._keep(said if number else results.failed(bench, worker.gpu, why))
        if not others and all(one.value is None for one in self.results) and not self.devices:
            raise NothingSeenError(why)

    def _answered(self, worker: Worker, line: Line) -> None:
        what, gpu, bench, seen = line.what, worker.gpu, worker.left.pop(0), worker.seen
        if not isinstance(what, dict) or what.get("id") != bench.id or seen is None:
            self._keep(results.failed(bench, gpu, f"the child answered for another benchmark: {str(what)[:80]}"))
        elif line.kind == "measured":
            architecture = results.architecture(self.matrix, seen.device)
            result = results.measured(results.among_us(what, self._ours()), bench, seen, architecture)
            if bench.scope == "abreast" and result.value is not None:
                self._parts.setdefault(bench.id, {})[gpu] = result
            else:
                self._keep(result)
        elif line.kind == "skipped":
            remedy = what.get("remedy")
            self._keep(results.skipped(bench, gpu, str(what.get("reason")), str(remedy) if remedy else None))
        else:
            self._keep(results.failed(bench, gpu, str(what.get("reason"))))

    def _ours(self) -> frozenset[str]:
        """Return NVML's numbers of our own processes."""
        return frozenset(number for one in self._workers.values() if one.seen for number in one.seen.own)

    def _turns(self) -> None:
        """Let every child proceed that disturbs nobody."""
        while granted := next(self._grants(), None):
            for worker in granted:
                bench = worker.left[0]
                wanted = self._wanted(worker, bench)
                if worker.ear:
                    worker.ear.tell({"go": wanted})
                if not wanted:
                    worker.left.pop(0)

    def _grants(self) -> Iterator[list[Worker]]:
        """Yield those that may proceed together, in turn."""
        order = {bench.id: number for number, bench in enumerate(self._benches)}
        waiting = sorted(
            (worker for worker in self._workers.values() if worker.waits),
            key=lambda worker: (-len(worker.left), order[worker.left[0].id], worker.gpu),
        )
        for worker in waiting:
            bench = worker.left[0]
            if bench.scope == "abreast":
                mine = [one for one in waiting if one.left[0].id == bench.id]
                wanting = [one for one in self._workers.values() if bench.id in {each.id for each in one.left}]
                if len(mine) == len(wanting) and all(one.quiet for one in self._workers.values()):
                    yield mine
            elif all(one.quiet for one in self._touched(worker)):
                yield [worker]

    def _touched(self, worker: Worker) -> list[Worker]:
        bench = worker.left[0]
        if bench.scope == "pair":
            return [self._workers[gpu] for gpu in (worker.gpu, *bench.company) if gpu in self._workers]
        return list(self._workers.values())

    def _wanted(self, worker: Worker, bench: Bench) -> bool:
        """Return whether it must be measured: the short suite measures a link alone only for an outlier."""
        return self.each or siblings.stands_out(self.results, bench.id, worker.gpu)

    def _keep(self, result: Result) -> None:
        self.results.append(result)
        self.progress.finished(result, len(self.results), self.of)
