"""A model followed through the machine, step by step: built-in models, their reference on the CPU, and their runners.

The seven steps have their numbers and names in ``NAMES``. What runs them has a function ``follow(asked,
progress)`` that gives a ``Trace``: ``following`` on the CPU with numpy, ``gpu`` on a GPU through cuda-python,
``frameworks`` in the target's Python. Each raises NothingSeenError if it has nothing to run on; a step that goes wrong
is a failed step and a finding. Wall time is that of the single pass, without repeats for figures and without the
reference.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from gpustack.bench.results import MALFORMED
from gpustack.model import record
from gpustack.model.trace import Figure, Ground, KernelLaunch, Loaded, Moment, State, Step, Subject, Trace

if TYPE_CHECKING:
    from gpustack.bench.child import Outlet
    from gpustack.bench.listening import Ear, Line
    from gpustack.matrix import Matrix
    from gpustack.model.difference import Launching
    from gpustack.trace.models import Model


NAMES = {
    1: "weights and input in host memory",
    2: "copied to the device",
    3: "kernels, graph and memory prepared",
    4: "kernels run in parallel",
    5: "tensors flow through the layers",
    6: "the output",
    7: "copied back and checked",
}
SHORT = 1e6  # bytes: a smaller copy measures its startup, not the link
WITHOUT = {
    2: "copying over the link needs a GPU",
    3: "kernels, a CUDA graph and device memory need a GPU",
    4: "grids, blocks and warps need a GPU",
    7: "there is nothing to copy back without a GPU",
}
ERASE = "\r\x1b[K"
LAST = 7


def needing(number: int) -> Step:
    """Return a step that was not tried because there is no GPU."""
    return Step(number=number, name=NAMES[number], status=State.NEEDS_GPU, why=(WITHOUT[number],))


def left_out(number: int, why: str) -> Step:
    """Return a step that was skipped for this reason."""
    return Step(number=number, name=NAMES[number], status=State.SKIPPED, why=(why,))


def failed(number: int, why: str) -> Step:
    """Return a failed step."""
    return Step(number=number, name=NAMES[number], status=State.FAILED, why=(why,))


def short(number: int, model: Model) -> tuple[str, ...]:
    """Return a remark if a step's copies are too short to show the link's bandwidth."""
    copied = {2: model.parameters + model.input.count, 7: model.output.count}.get(number, 0) * model.width
    return (
        ("with so few bytes, starting the copy takes most of the time: it says little about the link",)
        if 0 < copied < SHORT
        else ()
    )


@record
class Asked:
    """Which model to run, on what, and the time limit.

    With ``precision`` None it is chosen to suit the ground: bf16 (fp16 before compute capability 8.0) on a GPU, fp32 on
    the CPU. ``batches`` are further batches to time on a GPU (``Trace.batches``). ``timeout`` is in seconds, for
    everything.
    """

    model: str = "mlp"
    size: str = "small"
    precision: str | None = None
    gpu: int = 0
    batches: tuple[int, ...] = ()
    pythons: tuple[str, ...] = ()
    framework: str | None = None
    onnx: Path | None = None
    timeout: float = 120.0


class Progress:
    """Receives the start of each step; shows nothing."""

    def step(self, number: int, name: str) -> None:
        """Report that this step has begun."""

    def close(self) -> None:
        """Report nothing more."""


class Live(Progress):
    """One line that moves, for terminals."""

    def __init__(self, stream: TextIO) -> None:
        """Write to this terminal."""
        self._stream = stream

    def step(self, number: int, name: str) -> None:
        """Show that this step has begun."""
        self._stream.write(f"{ERASE}gpustack: step {number} of {LAST}: {name} …")
        self._stream.flush()

    def close(self) -> None:
        """Clear the line."""
        self._stream.write(ERASE)
        self._stream.flush()


@dataclass(slots=True)
class Page:
    """The content of one step."""

    figures: list[Figure] = field(default_factory=list)
    why: list[str] = field(default_factory=list)
    libraries: list[Loaded] = field(default_factory=list)

    def figure(self, name: str, value: float, unit: str, note: str | None = None) -> None:
        """Store a number."""
        self.figures.append(Figure(name=name, value=value, unit=unit, note=note))


@dataclass(slots=True)
class Telling:
    """The seven steps as one pass by our own clock: their times add up to the total."""

    outlet: Outlet
    clock: Callable[[], float] = time.perf_counter
    begun: float = 0.0
    mark: float = 0.0
    number: int = 0

    def start(self) -> None:
        """Begin the pass."""
        self.begun = self.mark = self.clock()

    @contextmanager
    def step(self, number: int) -> Iterator[Page]:
        """Report that a step begins, and afterwards its outcome; its time starts at the end of the previous step."""
        self.number = number
        self.outlet.say("at", number)
        page = Page()
        yield page
        began, self.mark = self.mark, self.clock()
        self.say("step", number=number, name=NAMES[number], seconds=self.mark - began, **asdict(page))
        self.moment(
            Moment(track="host", name=NAMES[number], begin=began - self.begun, seconds=self.mark - began, step=number)
        )

    @property
    def now(self) -> float:
        """The seconds since the start of the pass."""
        return self.clock() - self.begun

    def moment(self, moment: Moment) -> None:
        """Report when something was running."""
        self.say("moment", **asdict(moment))

    def say(self, what: str, **more: object) -> None:
        """Report something else."""
        self.outlet.say("measured", {"what": what, **more})


@dataclass(slots=True, kw_only=True)
class Account:
    """A child's messages so far. The time of the whole pass, ``wall``, is by our ``clock``, not by the child's."""

    clock: Callable[[], float]
    asked: Asked
    matrix: Matrix
    model: Model
    at: int = 1
    steps: dict[int, Step] = field(default_factory=dict)
    kernels: list[KernelLaunch] = field(default_factory=list)
    timeline: list[Moment] = field(default_factory=list)
    launching: Launching | None = None
    begun: float | None = None
    wall: float | None = None
    interrupted: str | None = None

    def hear(self, ear: Ear, progress: Progress) -> None:
        """Read the child until it ends; what is known at Ctrl-C is kept."""
        try:
            lines = ear.lines()
            self.opens(lines)
            self._listen(lines, progress)
        except KeyboardInterrupt:
            self.interrupted = "Ctrl-C"
        finally:
            ear.close()

    def _listen(self, lines: Iterator[Line], progress: Progress) -> None:
        for line in lines:
            if line.kind == "at" and line.what in NAMES:
                self.begins(int(line.what))
                progress.step(self.at, NAMES[self.at])
            elif line.kind == "died":
                self.died(str(line.what))
            elif line.kind in {"measured", "failed"} and isinstance(line.what, dict):
                try:
                    self.take(line.kind, line.what)
                except MALFORMED as error:
                    self.died(f"printed an unexpected line: {type(error).__name__}: {error}")
                    return

    def opens(self, lines: Iterator[Line]) -> None:
        """Process what comes before the first step, if anything."""

    def begins(self, number: int) -> None:
        """Process the start of a step; the first starts the pass."""
        self.at = number
        self.begun = self.clock() if self.begun is None else self.begun

    def died(self, how: str) -> None:
        """Process how the child ended before it was done."""
        raise NotImplementedError

    def take(self, kind: str, said: Mapping[str, Any]) -> None:
        """Process one line; raises one of results.MALFORMED if it is invalid."""
        raise NotImplementedError

    def reached(self, number: int) -> Step:
        """Return a step as far as it was reported."""
        why = f"stopped by {self.interrupted}" if self.interrupted else "not reached"
        return self.steps.get(number) or left_out(number, why)

    def outline(self, ground: Ground, subject: Subject, seconds: float) -> Trace:
        """Return the part of the trace that is the same for every child."""
        return Trace(
            tool=self.matrix.tool,
            ground=ground,
            subject=subject,
            steps=(),
            timeline=tuple(self.timeline),
            wall_seconds=self.wall,
            taken=datetime.now(timezone.utc).isoformat(timespec="seconds"),
            seconds=round(seconds, 3),
            interrupted=self.interrupted,
        )
