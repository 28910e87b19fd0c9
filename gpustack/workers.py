"""Children that answer probe after probe, side by side, each answer with a time limit.

When a child dies, hangs or prints what is no answer, the probe it was at has failed with how, and the probes that were
still waiting go on in a new child. So one sick library costs its own answer and no other.
"""

from __future__ import annotations

import json
import selectors
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any

from gpustack.door import Door, death, ended, state

if TYPE_CHECKING:
    import subprocess

    from gpustack.catalogue import System

MOST_OUTPUT = 16 << 20
MOST_STDERR = 4096
GRACE = 0.2
PATIENCE = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """Systems to ask after in one Python: ``argv`` starts it, ``environment`` is its path (None: gpustack's own).

    ``path`` is appended to that Python's search path, for the few libraries of ours that a probe may ask.
    """

    argv: tuple[str, ...]
    environ: Mapping[str, str]
    systems: tuple[System, ...]
    environment: str | None = None
    path: tuple[str, ...] = ()
    deep: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What came back for one system: the probe's own answer, or how it failed to give one (``failure``)."""

    system: System
    environment: str | None
    answer: Mapping[str, Any] | None = None
    failure: str | None = None
    asked: bool = True
    deep: bool = False
    seconds: float = 0.0


@dataclass(slots=True)
class _Worker:
    """One running child and the systems that it has still to answer for, the first being the one it is at."""

    task: Task
    child: subprocess.Popen[bytes]
    left: list[System]
    since: float
    read: int = 0
    pending: bytes = b""
    errors: bytes = b""
    open: set[IO[bytes]] = field(default_factory=set)

    def due(self) -> float:
        return self.since + self.left[0].seconds


class Crew:
    """All workers of one look, and the loop that listens to them."""

    def __init__(self, door: Door, deadline: float) -> None:
        """Use this door; leave by this time of its clock."""
        self.door = door
        self.deadline = deadline
        self.replies: list[Reply] = []
        self._workers: list[_Worker] = []
        self._selector = selectors.DefaultSelector()

    def start(self, task: Task) -> None:
        """Start a child for a task; a child that cannot be started is the answer to everything in it."""
        self._start(task, list(task.systems))

    def listen(self) -> None:
        """Take answers until every child is done or the deadline is there; leaves no child running."""
        try:
            while self._workers:
                self._take(self._wait())
                self._expire()
        finally:
            for worker in list(self._workers):
                self._drop(worker)
            self._selector.close()

    def _start(self, task: Task, systems: list[System]) -> None:
        if not systems:
            return
        rows = [dict(system.data) for system in systems]
        patience = max(system.seconds for system in systems) - PATIENCE
        asked = json.dumps(
            {
                "rows": rows,
                "deep": task.deep,
                "seconds": patience,
                "path": task.path,
                "environment": task.environment,
            }
        )
        try:
            child = self.door.start([*task.argv, asked], task.environ)
        except OSError as error:
            for system in systems:
                self._fail(task, system, f"{task.argv[0]} could not be started: {error.strerror or error}")
            return
        worker = _Worker(task, child, systems, self.door.now())
        for stream in (child.stdout, child.stderr):
            if stream:
                worker.open.add(stream)
                self._selector.register(stream, selectors.EVENT_READ, worker)
        self._workers.append(worker)

    def _wait(self) -> list[tuple[_Worker, IO[bytes]]]:
        soonest = min([self.deadline, *(worker.due() for worker in self._workers if worker.left)])
        events = self._selector.select(max(0.0, soonest - self.door.now()))
        return [(key.data, key.fileobj) for key, _ in events]  # type: ignore[misc]  # files are what was registered

    def _take(self, events: Sequence[tuple[_Worker, IO[bytes]]]) -> None:
        for worker, stream in events:
            if worker not in self._workers:
                continue
            data = stream.read(1 << 16)
            if data is None:
                continue
            if not data:
                self._selector.unregister(stream)
                worker.open.discard(stream)
            elif stream is worker.child.stderr:
                worker.errors = (worker.errors + data)[-MOST_STDERR:]
            else:
                worker.read += len(data)
                worker.pending += data
                self._lines(worker)
            if worker in self._workers:
                self._settle(worker)

    def _lines(self, worker: _Worker) -> None:
        *lines, worker.pending = worker.pending.split(b"\n")
        if worker.read > MOST_OUTPUT:
            self._abandon(worker, f"printed over {MOST_OUTPUT >> 20} MiB and was stopped")
            return
        for line in lines:
            said = _object(line)
            if said is None or not worker.left or said.get("at", said.get("id")) != worker.left[0].id:
                self._abandon(worker, f"printed what is no answer: {line[:80]!r}")
                return
            if "at" in said:
                worker.since = self.door.now()
                continue
            system = worker.left.pop(0)
            self._answer(worker, system, said)
            worker.since = self.door.now()

    def _settle(self, worker: _Worker) -> None:
        """Let go of a worker that has answered all, or that has closed its output without doing so."""
        if not worker.left:
            self._drop(worker)
        elif worker.child.stdout not in worker.open:
            code = ended(worker.child, GRACE)
            how = "closed its output and goes on" if code is None else death(code)
            self._abandon(worker, " ".join([how, _last_line(worker.errors)]).strip())

    def _expire(self) -> None:
        """End every worker whose time is up; the grace for their ends is one for all, not one each."""
        now = self.door.now()
        late = [worker for worker in self._workers if now >= min(self.deadline, worker.due())]
        doing = [state(worker.child.pid) for worker in late]
        for worker in late:
            self.door.kill(worker.child)
        grace = self.door.now() + GRACE
        for worker, did in zip(late, doing, strict=True):
            gone = ended(worker.child, max(0.0, grace - self.door.now())) is not None
            stays = "" if gone else "; it could not be ended and is left behind"
            self._abandon(worker, f"gave no answer in {now - worker.since:.1f} s ({did}){stays}")

    def _abandon(self, worker: _Worker, how: str) -> None:
        """Fail the probe that the worker was at, and give the rest to a new worker while there is time."""
        self._drop(worker)
        culprit, *rest = worker.left
        self._fail(worker.task, culprit, how, self.door.now() - worker.since)
        if self.door.now() < self.deadline:
            self._start(worker.task, rest)
        else:
            for system in rest:
                self._fail(worker.task, system, "the time was up before it was asked", asked=False)

    def _drop(self, worker: _Worker) -> None:
        """End a worker that has said all it will say, without waiting for what it does on its way out."""
        self.door.kill(worker.child)
        for stream in worker.open:
            self._selector.unregister(stream)
        for pipe in (worker.child.stdout, worker.child.stderr):
            if pipe:
                pipe.close()
        worker.open.clear()
        self.door.release(worker.child)
        self._workers.remove(worker)

    def _answer(self, worker: _Worker, system: System, said: Mapping[str, Any]) -> None:
        task = worker.task
        self.replies.append(Reply(system=system, environment=task.environment, answer=said, deep=task.deep))

    def _fail(self, task: Task, system: System, how: str, seconds: float = 0.0, *, asked: bool = True) -> None:
        reply = Reply(
            system=system, environment=task.environment, failure=how, asked=asked, deep=task.deep, seconds=seconds
        )
        self.replies.append(reply)


def ask(
    tasks: Sequence[Task], door: Door, deadline: float, meanwhile: Callable[[], object] | None = None
) -> Iterator[Reply]:
    """Give a reply for every system of every task, by the deadline at the latest, in the order of the tasks.

    ``meanwhile`` is done once while the children are at work: what the report will need can be made ready then.
    """
    crew = Crew(door, deadline)
    for task in tasks:
        crew.start(task)
    if meanwhile:
        meanwhile()
    crew.listen()
    asked = [(task.environment, task.deep, system.id) for task in tasks for system in task.systems]
    order = {question: number for number, question in enumerate(asked)}
    yield from sorted(crew.replies, key=lambda reply: order[reply.environment, reply.deep, reply.system.id])


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return said if isinstance(said, dict) else None


def _last_line(text: bytes) -> str:
    lines = text.decode("utf-8", "replace").strip().splitlines()
    return f"({lines[-1][:200]})" if lines else ""
