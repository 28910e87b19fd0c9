"""One run of the suite: a child for each GPU, listened to, at the same time where none disturbs another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from gpustack.bench import results
from gpustack.bench.listening import Line, start
from gpustack.errors import NothingSeenError, UsageError
from gpustack.model.versions import ComputeCapability

if TYPE_CHECKING:
    from gpustack.bench.progress import Progress
    from gpustack.bench.results import Opened
    from gpustack.bench.suite import Bench
    from gpustack.collect.subprocesses import Door
    from gpustack.matrix import Matrix
    from gpustack.model.bench import Device, Result

AGAIN = "gpustack bench 'p2p.*' 'nccl.*'"
SHOWN = "CUDA_VISIBLE_DEVICES"
PATIENCE = 20.0  # a library of half a gigabyte may come from a slow disk
ANSWERS = frozenset({"measured", "skipped", "failed"})
FEWEST = 2  # GPUs, for what goes on between them


def tasks(several: Sequence[Bench], gpus: Sequence[int]) -> dict[int, list[Bench]]:
    """Return for each GPU what its child runs: the pairs whose first it is, and the first GPU's what takes all."""
    works = {
        gpu: [
            replace(bench, company=(other,))
            for bench in several
            if bench.scope == "pair"
            for other in gpus
            if other != gpu
        ]
        for gpu in gpus
    }
    last = [replace(bench, company=tuple(gpus[1:])) for bench in several if bench.scope == "all"]
    works[gpus[0]] = [*works[gpus[0]], *last]
    return {gpu: work for gpu, work in works.items() if work}


def alone(environ: Mapping[str, str], devices: Sequence[Device]) -> tuple[str, str]:
    """Return why benchmarks that take several GPUs are skipped with one, and what to type to have them."""
    if len(devices) > 1:
        named = " ".join(f"--gpu {device.index}" for device in devices)
        return "one GPU was named, and this takes two or more", f"{AGAIN} {named}"
    if SHOWN in environ:
        return f"{SHOWN} shows one GPU, and this takes two or more", f"env -u {SHOWN} {AGAIN}"
    return "CUDA shows one GPU, and this takes two or more", "nvidia-smi topo -m"


@dataclass(slots=True, kw_only=True)
class Session:
    """What is asked, how children are started, and what came of it.

    ``more`` are seconds by which the time is longer for each GPU that takes part in what takes several.
    """

    door: Door
    environ: Mapping[str, str]
    deadline: float
    asked: Mapping[str, object]
    matrix: Matrix
    progress: Progress
    patience: float = PATIENCE
    more: float = 0.0
    devices: tuple[Device, ...] = ()
    results: list[Result] = field(default_factory=list)
    interrupted: str | None = None
    of: int = 0

    def run(self, benches: Sequence[Bench], gpus: Sequence[int] | None, repeat: int = 1) -> None:
        """Run these benchmarks on each of these GPUs, so many times; at Ctrl-C, end with what there is.

        Where no GPUs are named it is the first, and all that CUDA shows for what takes several.
        """
        alone = [bench for bench in benches if bench.scope == "one"]
        several = [bench for bench in benches if bench.scope != "one"]
        each = gpus or (0,)
        self.of = (len(alone) * len(each) + len(several)) * repeat
        try:
            for _ in range(repeat):
                for gpu in each if alone else ():
                    self._on(gpu, list(alone))
                if several:
                    self._together(several, gpus)
        except KeyboardInterrupt:
            self.interrupted = "Ctrl-C"
        finally:
            self.progress.close()

    def _together(self, several: Sequence[Bench], named: Sequence[int] | None) -> None:
        """Run what takes several GPUs: each pair in both directions, and then all of them."""
        if not self.devices:
            self._child(named[0] if named else 0, [])
        gpus = list(dict.fromkeys(named or [device.index for device in self.devices]))
        if len(gpus) < FEWEST:
            why, remedy = alone(self.environ, self.devices)
            for bench in several:
                self._keep(results.skipped(bench, gpus[0], why, remedy))
            return
        works = tasks(several, gpus)
        self.of += sum(map(len, works.values())) - len(several)
        self.deadline += self.more * len(gpus)
        for gpu, work in works.items():
            self._on(gpu, work)

    def _on(self, gpu: int, left: list[Bench]) -> None:
        """Run what is left on one GPU; each child answers for at least one benchmark, so this ends."""
        while left and self.door.now() < self.deadline:
            before = len(left)
            try:
                how = self._child(gpu, left)
            except NothingSeenError as error:
                if not self.results:
                    raise
                how = str(error)
            if len(left) == before:
                self._keep(results.failed(left.pop(0), gpu, how))
        for bench in left:
            self._keep(results.skipped(bench, gpu, "the time was up before its turn", None))

    def _child(self, gpu: int, left: list[Bench]) -> str:
        """Let one child run what is left, and take from it what was answered; give how it ended."""
        company = [bench.company for bench in left]
        asked = {**self.asked, "gpu": gpu, "names": [bench.id for bench in left], "company": company}
        try:
            ear = start(asked, self.environ, self.door, self.patience, self.deadline)
        except OSError as error:
            raise NothingSeenError(f"the benchmarks could not be started: {error.strerror or error}") from error
        try:
            lines = ear.lines()
            seen = self._opened(next(lines), gpu)
            began = False
            for line in lines:
                if line.kind == "died":
                    if began:
                        self._keep(results.failed(left.pop(0), gpu, str(line.what)))
                    return str(line.what)
                if line.kind in ANSWERS and left:
                    self._answered(line, left.pop(0), seen)
                began = self._told(line, left, began=began)
        finally:
            ear.close()
        return "the child said that it was done, and was not"

    def _told(self, line: Line, left: Sequence[Bench], *, began: bool) -> bool:
        """Show how far it is; tell whether a benchmark has begun that is not answered for yet."""
        if line.kind == "part" and isinstance(line.what, float | int):
            self.progress.moved(float(line.what))
        if line.kind == "at" and left:
            self.progress.started(left[0].id, len(self.results) + 1, self.of)
            return True
        return began and line.kind not in ANSWERS

    def _opened(self, line: Line, gpu: int) -> Opened:
        """Return the GPU that was opened; raises NothingSeenError where none can be."""
        what: Any = line.what
        if line.kind == "opened":
            try:
                seen = results.opened(what, gpu)
            except results.MALFORMED as error:
                raise NothingSeenError(f"the child's answer is malformed: {error}") from error
            known = {device.index: device for device in (*seen.devices, *self.devices)}
            self.devices = tuple({**known, gpu: seen.device}.values())
            return seen
        if line.kind == "nothing" and isinstance(what, dict):
            count, highest = what.get("count"), self.asked["highest"]
            if isinstance(count, int) and isinstance(highest, int) and 0 < count <= highest:
                raise UsageError(f"there is no GPU {highest}; CUDA shows {count}, from 0 on")
            raise NothingSeenError(f"{what.get('reason')}; to fix it: {what.get('remedy')}")
        raise NothingSeenError(f"the GPU could not be opened: the child {line.what}")

    def _answered(self, line: Line, bench: Bench, seen: Opened) -> None:
        what, gpu = line.what, seen.device.index
        if not isinstance(what, dict) or what.get("id") != bench.id:
            self._keep(results.failed(bench, gpu, f"the child answered for another benchmark: {str(what)[:80]}"))
        elif line.kind == "measured":
            capability = ComputeCapability.parse(seen.device.compute_capability)
            architecture = self.matrix.arch(capability) if capability else None
            self._keep(results.measured(what, bench, seen, architecture))
        elif line.kind == "skipped":
            remedy = what.get("remedy")
            self._keep(results.skipped(bench, gpu, str(what.get("reason")), str(remedy) if remedy else None))
        else:
            self._keep(results.failed(bench, gpu, str(what.get("reason"))))

    def _keep(self, result: Result) -> None:
        self.results.append(result)
        self.progress.finished(result, len(self.results), self.of)
