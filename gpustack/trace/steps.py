"""What is asked of a trace, and the seven steps: their names, and what is said of each, and when."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from gpustack.model.trace import Figure, Moment, State, Step

if TYPE_CHECKING:
    from typing import TextIO

    from gpustack.bench.child import Outlet
    from gpustack.model.trace import Loaded
    from gpustack.trace.models import Model

NAMES = {
    1: "weights and input in host memory",
    2: "copied to the device",
    3: "kernels, graph and memory made ready",
    4: "kernels run in parallel",
    5: "tensors flow through the layers",
    6: "the output",
    7: "copied back and checked",
}
SHORT = 1e6  # bytes: a copy of fewer takes its start, not the link
ON_THE_GPU = frozenset({2, 3, 4, 7})
WITHOUT = {
    2: "copying over the link needs a GPU",
    3: "kernels, a CUDA graph and device memory need a GPU",
    4: "grids, blocks and warps need a GPU",
    7: "there is nothing to copy back without a GPU",
}
ERASE = "\r\x1b[K"
LAST = 7


def needing(number: int) -> Step:
    """Return a step that was not tried since there is no GPU."""
    return Step(number=number, name=NAMES[number], status=State.NEEDS_GPU, why=(WITHOUT[number],))


def left_out(number: int, why: str) -> Step:
    """Return a step that was not tried, for this reason."""
    return Step(number=number, name=NAMES[number], status=State.SKIPPED, why=(why,))


def failed(number: int, why: str) -> Step:
    """Return a step that went wrong."""
    return Step(number=number, name=NAMES[number], status=State.FAILED, why=(why,))


def short(number: int, model: Model) -> tuple[str, ...]:
    """Return a word on the copies of a step where they are too short to show what the link can do."""
    copied = {2: model.parameters + model.input.count, 7: model.output.count}.get(number, 0) * model.width
    return ("so few bytes: a copy is mostly its own start, and says little of the link",) if 0 < copied < SHORT else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Which model, on what, and for how long at most.

    ``precision`` is None where the one that suits the ground is wanted: bf16 (fp16 before compute capability 8.0) on a
    GPU, fp32 on the CPU. ``batches`` are further batches of which a GPU is to tell the time (``Trace.batches``).
    ``timeout`` is in seconds, for all.
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


class Progress(Protocol):
    """Hears which step begins."""

    def step(self, number: int, name: str) -> None:
        """Say that this step has begun."""
        ...

    def close(self) -> None:
        """Say nothing more."""
        ...


class Silent:
    """Hears it and says nothing."""

    def step(self, number: int, name: str) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


class Live:
    """One line that moves, for terminals."""

    def __init__(self, stream: TextIO) -> None:
        """Write to this terminal."""
        self._stream = stream

    def step(self, number: int, name: str) -> None:
        """Say that this step has begun."""
        self._stream.write(f"{ERASE}gpustack: step {number} of {LAST}: {name} …")
        self._stream.flush()

    def close(self) -> None:
        """Leave the line empty."""
        self._stream.write(ERASE)
        self._stream.flush()


@dataclass(slots=True)
class Page:
    """What is to be said of one step."""

    figures: list[Figure] = field(default_factory=list)
    why: list[str] = field(default_factory=list)
    libraries: list[Loaded] = field(default_factory=list)

    def figure(self, name: str, value: float, unit: str, note: str | None = None) -> None:
        """Write down a number."""
        self.figures.append(Figure(name=name, value=value, unit=unit, note=note))


@dataclass(slots=True)
class Telling:
    """The seven steps as one pass by our own clock: the sum of their times is the time of the whole."""

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
        """Say that a step begins, and afterwards what came of it; its time runs from the end of the step before."""
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
        """The seconds since the pass began."""
        return self.clock() - self.begun

    def moment(self, moment: Moment) -> None:
        """Say when something was going on."""
        self.say("moment", **asdict(moment))

    def say(self, what: str, **more: object) -> None:
        """Say something else."""
        self.outlet.say("measured", {"what": what, **more})
