"""The parent of the measuring child: starts it, reads its lines, and ends on time whatever happens."""

from __future__ import annotations

import json
import os
import selectors
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any

from gpustack.collect import isolation
from gpustack.collect.subprocesses import Door, death, ended, last_line, state
from gpustack.errors import NothingSeenError
from gpustack.model import record

if TYPE_CHECKING:
    import subprocess

# Isolated, and told where to import from: a checkout, an editable install and a wheel all find the same gpustack.
PROGRAM = """\
import ctypes, importlib, json, os, sys
asked = json.loads(sys.argv[1])
try:
    ctypes.CDLL(None).prctl(1, 9, 0, 0, 0)  # PR_SET_PDEATHSIG, SIGKILL: whoever reads may be killed himself
except (OSError, AttributeError):
    pass  # no Linux
if asked.get("bound", os.getppid()) != os.getppid():
    sys.exit(1)
sys.path[:] = asked["path"]
importlib.import_module("gpustack.collect.isolation").hold_clock()
importlib.import_module(asked["main"]).main(asked)
"""
MOST_LINE = 4 << 20
MOST_STDERR = 4096
GRACE = 0.5
KINDS = frozenset(
    {"listed", "turn", "opened", "at", "part", "measured", "skipped", "failed", "nothing", "done", "state"}
)


@record
class Line:
    """One message of the child; ``died`` is our own word for ending before it was done."""

    kind: str
    what: Any


@dataclass(slots=True)
class Ear:
    """One running child: how long it may be silent in seconds, and its deadline on the door's clock.

    A child that waits for its turn may be silent as long as that takes.
    """

    door: Door
    child: subprocess.Popen[bytes]
    patience: float
    deadline: float
    orders: int | None = None
    over: bool = False
    waiting: bool = False
    _heard: float = 0.0
    _pending: bytes = b""
    _errors: bytes = b""
    _done: bool = False
    _selector: selectors.BaseSelector = field(default_factory=selectors.DefaultSelector)

    def __post_init__(self) -> None:
        """Start reading."""
        self._heard = self.door.now()
        for stream in (self.child.stdout, self.child.stderr):
            if stream:
                self._selector.register(stream, selectors.EVENT_READ, stream)

    def lines(self) -> Iterator[Line]:
        """Yield the child's messages, and finally how it died unless it reported being done."""
        while not self.over:
            yield from self.step(self.due() - self.door.now())

    def due(self) -> float:
        """Return when its next message is due, on the door's clock."""
        return self.deadline if self.waiting else min(self._heard + self.patience, self.deadline)

    def fileno(self) -> int:
        """Return the descriptor that becomes readable with each message."""
        return int(self._selector.fileno())  # type: ignore[attr-defined]  # epoll and kqueue have one

    def step(self, seconds: float) -> list[Line]:
        """Return the child's messages within this many seconds, including its end; empty if there are none."""
        said: list[Line] = []
        for line in self._hear(max(0.0, seconds)):
            self._heard, self.waiting = self.door.now(), line.kind == "turn"
            said.append(line)
            if line.kind in {"done", "nothing", "died"}:
                self._done, self.over = line.kind != "died", True
                return said
        if self.child.stdout not in {key.data for key in self._selector.get_map().values()}:
            self.over = True
            code = ended(self.child, GRACE)
            how = "closed its output but keeps running" if code is None else death(code)
            return [*said, Line(kind="died", what=" ".join([how, last_line(self._errors)]).strip())]
        if not said and self.door.now() >= self.due():
            self.over = True
            silent, did = self.door.now() - self._heard, state(self.child.pid)
            self.door.kill(self.child)
            stays = "" if ended(self.child, GRACE) is not None else "; it could not be ended and is left behind"
            return [Line(kind="died", what=f"printed nothing for {silent:.1f} s ({did}){stays}")]
        return said

    def tell(self, order: Mapping[str, object]) -> None:
        """Send the child an order that it waits for; if it is gone, its end reports that."""
        self._heard, self.waiting = self.door.now(), False
        if self.orders is not None:
            with suppress(OSError):
                os.write(self.orders, json.dumps(order).encode() + b"\n")

    def close(self) -> None:
        """End the child, unless it is already exiting, and forget it."""
        if self.orders is not None:
            os.close(self.orders)
            self.orders = None
        ended(self.child, GRACE if self._done else 0.0)
        self.door.kill(self.child)
        self._selector.close()
        for pipe in (self.child.stdout, self.child.stderr):
            if pipe:
                pipe.close()
        self.door.release(self.child)

    def _hear(self, seconds: float) -> list[Line]:
        lines: list[Line] = []
        for key, _ in self._selector.select(seconds):
            stream: IO[bytes] = key.data
            data = stream.read(1 << 16)
            if data == b"":
                self._selector.unregister(stream)
            elif stream is self.child.stderr:
                self._errors = (self._errors + (data or b""))[-MOST_STDERR:]
            else:
                lines += self._split(data or b"")
        return lines

    def _split(self, data: bytes) -> list[Line]:
        *whole, self._pending = (self._pending + data).split(b"\n")
        if len(self._pending) > MOST_LINE:
            return [Line(kind="died", what=f"printed a line of over {MOST_LINE >> 20} MiB and was stopped")]
        return [_line(text) for text in whole]


def start(
    asked: Mapping[str, object],
    environ: Mapping[str, str],
    door: Door,
    patience: float,
    deadline: float,
    *,
    main: str = "gpustack.bench.child",
    what: str = "the benchmarks",
) -> Ear:
    """Start a child running the ``main`` of a module; raises NothingSeenError on failure."""
    own = {"main": main, "bound": os.getpid(), "path": isolation.path()}
    try:
        child, orders = _started([sys.executable, "-I", "-c", PROGRAM, json.dumps({**asked, **own})], environ, door)
    except OSError as error:
        raise NothingSeenError(f"{what} could not be started: {error.strerror or error}") from error
    return Ear(door, child, patience, deadline, orders)


def _started(argv: list[str], environ: Mapping[str, str], door: Door) -> tuple[subprocess.Popen[bytes], int]:
    """Return the child, and the stream for its orders."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    try:
        return door.start(argv, environ, reader), writer
    except BaseException:
        os.close(writer)
        raise
    finally:
        os.close(reader)


def abreast(ears: Mapping[int, Ear]) -> list[tuple[int, Line]]:
    """Return the next messages from any of these children, and the ends of those whose time is over."""
    open_ = {key: ear for key, ear in ears.items() if not ear.over}
    if not open_:
        return []
    with selectors.DefaultSelector() as selector:
        for key, ear in open_.items():
            selector.register(ear, selectors.EVENT_READ, key)
        door = next(iter(open_.values())).door
        ready = {
            key.data for key, _ in selector.select(max(0.0, min(ear.due() for ear in open_.values()) - door.now()))
        }
        late = {key for key, ear in open_.items() if door.now() >= ear.due()}
    return [(key, line) for key in open_ if key in ready | late for line in open_[key].step(0.0)]


def _line(text: bytes) -> Line:
    """Return the message in a line; an invalid line counts as the child's end."""
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        said = None
    if isinstance(said, dict) and len(said) == 1 and (kind := next(iter(said))) in KINDS:
        return Line(kind=kind, what=said[kind])
    return Line(kind="died", what=f"printed an unexpected line: {text[:80]!r}")
