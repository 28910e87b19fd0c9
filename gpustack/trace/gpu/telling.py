"""What the child says of the steps, and when: each begins where the one before ended, so that nothing lies between."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from gpustack.model.trace import Figure, Moment
from gpustack.trace.steps import NAMES

if TYPE_CHECKING:
    from gpustack.bench.child import Outlet
    from gpustack.model.trace import Loaded


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
