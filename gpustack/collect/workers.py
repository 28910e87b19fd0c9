"""Children that run probe after probe, in parallel, each probe with a time limit.

If a child dies, hangs or prints an invalid answer, its current probe fails with that reason, and the probes still
waiting continue in a new child. So one broken library costs only its own answer. A limited number of children run at a
time; the rest wait for their turn.
"""

from __future__ import annotations

import errno
import selectors
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from typing import IO, TYPE_CHECKING, Any

from gpustack.collect.catalogue import Reply, System, Task, line_for
from gpustack.collect.subprocesses import Door, answered, death, ended, last_line, state
from gpustack.interrupting import heeded

if TYPE_CHECKING:
    import subprocess


MOST_OUTPUT = 16 << 20
MOST_STDERR = 4096
MOST_STEP = 200
GRACE = 0.2
TRIES = 5  # of a start when nothing else is at work
MOST_CHILDREN = 64  # more than one machine and one Python need, with or without running frameworks
SHORT = frozenset({errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE})
LATE = "the time was up before it was asked"
CUT = "gpustack was interrupted"
_BEGUN: list[tuple[Task, subprocess.Popen[bytes]]] = []  # ahead of the run that asks it

__all__ = ["LATE", "MOST_CHILDREN", "Crew", "Reply", "Task", "ask", "begin"]


def begin(task: Task, door: Door) -> None:
    """Start a child for a task now; the next run that asks the same task of the same systems takes it over."""
    with suppress(OSError):  # the run tries again, and reports it
        _BEGUN.append((task, door.start([*task.argv, line_for(task, task.systems)], task.environ)))


@dataclass(slots=True)
class _Worker:
    """One running child and the systems it still has to answer for, the current one first."""

    task: Task
    child: subprocess.Popen[bytes]
    left: list[System]
    since: float
    step: str | None = None
    read: int = 0
    pending: bytearray = field(default_factory=bytearray)
    errors: bytes = b""
    open: set[IO[bytes]] = field(default_factory=set)

    def due(self) -> float:
        return self.since + self.left[0].seconds


class Crew:
    """All workers of one run, and the loop that reads from them."""

    def __init__(self, door: Door, deadline: float, most: int = MOST_CHILDREN) -> None:
        """Use this door; stop by this time on its clock; run at most ``most`` children at a time."""
        self.door = door
        self.deadline = door.now() if door.interrupted else deadline
        self.most = most
        self.replies: list[Reply] = []
        self._waiting: deque[Task] = deque()
        self._workers: list[_Worker] = []
        self._selector = selectors.DefaultSelector()
        self._tries = TRIES

    def hurry(self) -> None:
        """Stop now, with what is known, after Ctrl-C."""
        self.door.interrupted = True
        self.deadline = self.door.now()

    def hark(self, ear: int | None) -> None:
        """Wake up when this descriptor becomes readable."""
        if ear is not None:
            self._selector.register(ear, selectors.EVENT_READ)

    def start(self, task: Task) -> None:
        """Start a child for a task once it is its turn; if it cannot be started, all its probes fail."""
        self._waiting.append(task)
        self._next()

    def listen(self, progress: Callable[[Sequence[Task]], object] | None = None) -> None:
        """Collect answers until every child is done or the deadline is reached.

        ``progress`` repeatedly receives the unfinished tasks.
        """
        while self._workers or self._waiting:
            self._take(self._wait())
            self._expire()
            self._next()
            if progress:
                progress([*(worker.task for worker in self._workers), *self._waiting])

    def close(self) -> None:
        """Stop all remaining children."""
        for worker in list(self._workers):
            self._drop(worker)
        self._selector.close()

    def _next(self) -> None:
        """Start what may be started now; anything without a turn by the deadline is not run."""
        while self._waiting and len(self._workers) < self.most and self.door.now() < self.deadline:
            task = self._waiting.popleft()
            self._start(task, list(task.systems))
        while self._waiting and self.door.now() >= self.deadline:
            task = self._waiting.popleft()
            for system in task.systems:
                self._fail(task, system, self._late(), asked=False)

    def _start(self, task: Task, systems: list[System]) -> None:
        if not systems:
            return
        try:
            child = _begun(task, systems) or self.door.start([*task.argv, line_for(task, systems)], task.environ)
        except OSError as error:
            if self._short(error):
                self._waiting.appendleft(replace(task, systems=tuple(systems)))
                return
            for system in systems:
                self._fail(task, system, f"{task.argv[0]} could not be started: {error.strerror or error}")
            return
        self._tries = TRIES
        worker = _Worker(task, child, systems, self.door.now())
        for stream in (child.stdout, child.stderr):
            if stream:
                worker.open.add(stream)
                self._selector.register(stream, selectors.EVENT_READ, worker)
        self._workers.append(worker)

    def _short(self, error: OSError) -> bool:
        """Return whether processes, files or memory are short, so that fewer children, or a later one, may work."""
        if error.errno not in SHORT or not (self._workers or self._tries):
            return False
        self.most = max(1, len(self._workers) // 2)  # they start their own processes
        if not self._workers:
            self._tries -= 1
            self.door.pause()
        return True

    def _wait(self) -> list[tuple[_Worker, IO[bytes]]]:
        soonest = min([self.deadline, *(worker.due() for worker in self._workers if worker.left)])
        events = self._selector.select(max(0.0, soonest - self.door.now()))
        heard = [key.fd for key, _ in events if key.data is None]
        for ear in heard:
            self._selector.unregister(ear)
        return [(key.data, key.fileobj) for key, _ in events if key.data]  # type: ignore[misc]  # what was registered

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
                if b"\n" in data or worker.read > MOST_OUTPUT:
                    self._lines(worker)
            if worker in self._workers:
                self._settle(worker)

    def _lines(self, worker: _Worker) -> None:
        if worker.read > MOST_OUTPUT:
            self._abandon(worker, f"printed over {MOST_OUTPUT >> 20} MiB and was stopped")
            return
        *lines, rest = bytes(worker.pending).split(b"\n")
        worker.pending = bytearray(rest)
        for line in lines:
            if not worker.left:  # it has answered everything; its exit output is ignored
                return
            said = answered(line)
            if said is None or said.get("at", said.get("id")) != worker.left[0].id:
                self._abandon(worker, f"printed something that is not an answer: {line[:80]!r}")
                return
            if "at" in said:
                step = said.get("step")
                worker.step = step[:MOST_STEP] if isinstance(step, str) else None
                worker.since = worker.since if worker.step else self.door.now()
                continue
            system = worker.left.pop(0)
            self._answer(worker, system, said)
            worker.since = self.door.now()

    def _settle(self, worker: _Worker) -> None:
        """Release a worker that has answered everything, or that closed its output without doing so."""
        if not worker.left:
            self._drop(worker)
        elif worker.child.stdout not in worker.open:
            code = ended(worker.child, GRACE)
            how = "closed its output but keeps running" if code is None else death(code)
            self._abandon(worker, " ".join([how, last_line(worker.errors)]).strip())

    def _expire(self) -> None:
        """End every worker whose time is up, with one grace period for all of them."""
        now = self.door.now()
        late = [worker for worker in self._workers if now >= min(self.deadline, worker.due())]
        doing = [state(worker.child.pid) for worker in late]
        for worker in late:
            self.door.kill(worker.child)
        grace = self.door.now() + GRACE
        for worker, did in zip(late, doing, strict=True):
            gone = ended(worker.child, max(0.0, grace - self.door.now())) is not None
            stays = "" if gone else "; it could not be ended and is left behind"
            cut = ", when it was interrupted" if self.door.interrupted else ""
            self._abandon(worker, f"gave no answer in {now - worker.since:.1f} s ({did}){cut}{stays}")

    def _late(self) -> str:
        return CUT if self.door.interrupted else LATE

    def _abandon(self, worker: _Worker, how: str) -> None:
        """Fail the worker's current probe, and give the rest to a new worker while there is time."""
        self._drop(worker)
        culprit, *rest = worker.left
        self._fail(worker.task, culprit, how, self.door.now() - worker.since, step=worker.step)
        if self.door.now() < self.deadline:
            self._start(worker.task, rest)
        else:
            for system in rest:
                self._fail(worker.task, system, self._late(), asked=False)

    def _drop(self, worker: _Worker) -> None:
        """End a worker that has given its last answer, without waiting for its exit."""
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

    def _fail(
        self, task: Task, system: System, how: str, seconds: float = 0.0, *, asked: bool = True, step: str | None = None
    ) -> None:
        reply = Reply(system=system, environment=task.environment, failure=how, asked=asked, deep=task.deep)
        self.replies.append(replace(reply, seconds=seconds, step=step))


def ask(
    tasks: Sequence[Task],
    door: Door,
    deadline: float,
    meanwhile: Callable[[], object] | None = None,
    *,
    most: int = MOST_CHILDREN,
    progress: Callable[[Sequence[Task]], object] | None = None,
) -> Iterator[Reply]:
    """Yield a reply for every system of every task, by the deadline at the latest, in the order of the tasks.

    ``meanwhile`` runs once while the children work, to prepare what the report will need.
    """
    crew = Crew(door, deadline, most)
    with closing(crew), heeded(crew.hurry) as ear:
        crew.hark(ear)
        for task in tasks:
            crew.start(task)
        if meanwhile:
            meanwhile()
        crew.listen(progress)
    asked = [(task.environment, task.deep, system.id) for task in tasks for system in task.systems]
    order = {question: number for number, question in enumerate(asked)}
    yield from sorted(crew.replies, key=lambda reply: order[reply.environment, reply.deep, reply.system.id])


def _begun(task: Task, systems: Sequence[System]) -> subprocess.Popen[bytes] | None:
    """Return the child that was started ahead for these systems of a task, if there is one."""
    wanted = [system.id for system in systems]
    for number, (other, _) in enumerate(_BEGUN):
        if replace(other, systems=()) == replace(task, systems=()) and [one.id for one in other.systems] == wanted:
            return _BEGUN.pop(number)[1]
    return None
