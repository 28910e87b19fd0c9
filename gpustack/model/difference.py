"""What is held against something else: two reports of a machine, two runs of the bench, and what a trace compares.

A trace holds the answer against the truth, eager against graph, serial against overlapped, CPU against GPU.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from gpustack.model.facts import Layer
from gpustack.model.report import Health, Severity, Tool


class Turn(str, Enum):
    """What became of a thing."""

    NEW = "new"
    GONE = "gone"
    CHANGED = "changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One of the two: where it was read, when it was taken, which machine it is of, and its verdict."""

    path: str
    taken: str
    hostname: str | None
    status: Health
    root_causes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """One thing that is not the same. ``what`` is version, build, path, status, copy or the name of a fact.

    ``where`` is the copy that it is about (a Python, a GPU) where there are several; ``matters`` are the keys of the
    findings that came, went or weigh otherwise and rest on this component.
    """

    component: str
    layer: Layer
    what: str
    turn: Turn
    before: str | None
    after: str | None
    where: str | None = None
    matters: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """One finding that is new, is gone, or weighs otherwise. ``caused_by`` is the key of what is behind it.

    ``because_of`` are the components that changed among those that it rests on.
    """

    key: str
    id: str
    layer: Layer
    title: str
    turn: Turn
    before: Severity | None
    after: Severity | None
    caused_by: str | None = None
    because_of: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Everything that is not the same: what matters first. ``same`` is how many components are unchanged."""

    tool: Tool
    before: Side
    after: Side
    changes: tuple[Changed, ...] = ()
    findings: tuple[Told, ...] = ()
    same: int = 0


class Outcome(str, Enum):
    """What became of a figure since an older report. ``gone`` was measured then and not now, ``new`` the reverse."""

    BETTER = "better"
    WORSE = "worse"
    SAME = "same"
    GONE = "gone"
    NEW = "new"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One figure then and now. ``change`` is relative, and above zero where it is better now: 0.03 is 3 %.

    The intervals are the 95 % intervals of the medians; where they overlap, the figures do not differ.
    """

    id: str
    device: int | None
    unit: str
    outcome: Outcome
    before: float | None = None
    after: float | None = None
    before_interval: tuple[float, float] | None = None
    after_interval: tuple[float, float] | None = None
    change: float | None = None
    note: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A report held against an older one: what is not the same about them, and each figure."""

    path: str
    taken: str
    tolerance: float
    differences: tuple[str, ...] = ()
    changes: tuple[Change, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """The answer held against another one: float64 on the CPU, as a rule.

    ``error`` is the length of the difference over the length of the right answer, ``largest`` the largest difference
    over the largest right number; both must be within ``bound``. Of ``rows`` rows so many were ``compared``.
    """

    what: str
    against: str
    precision: str
    error: float
    largest: float
    bound: float
    compared: int
    rows: int
    finite: bool = True

    @property
    def passed(self) -> bool:
        """Whether the answer is right: every number finite, and both errors within the bound."""
        return self.finite and self.compared > 0 and self.error <= self.bound and self.largest <= self.bound


@dataclass(frozen=True, slots=True, kw_only=True)
class Launching:
    """The same kernels started one by one (eager) and as one CUDA graph; seconds are medians for one pass."""

    eager_seconds: float
    graph_seconds: float
    kernels: int
    kernel_seconds: float | None = None
    host_eager_seconds: float | None = None
    host_graph_seconds: float | None = None

    @property
    def gain(self) -> float:
        """By how many times the graph is faster."""
        return self.eager_seconds / self.graph_seconds if self.graph_seconds else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlap:
    """Copies and kernels one after the other, and at once over two streams with the batch in so many chunks."""

    serial_seconds: float
    overlapped_seconds: float
    chunks: int
    streams: int
    copy_seconds: float | None = None
    compute_seconds: float | None = None
    note: str | None = None

    @property
    def gain(self) -> float:
        """By how many times the overlapped run is faster."""
        return self.serial_seconds / self.overlapped_seconds if self.overlapped_seconds else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchTime:
    """How long one batch of so many inputs takes, on the CPU and on the GPU; None: not measured.

    ``gpu_seconds`` is the whole: input copied there, kernels run, output copied back, weights already there.
    ``transfer_seconds`` are the copies in it, ``kernel_seconds`` the time that kernels were running.
    """

    batch: int
    cpu_seconds: float | None = None
    gpu_seconds: float | None = None
    transfer_seconds: float | None = None
    kernel_seconds: float | None = None
    kernels: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossover:
    """From which batch on the GPU wins, copies of input and output included; None: not within what was measured."""

    at: float | None
    points: tuple[BatchTime, ...]
    says: str
    why: tuple[str, ...] = ()
