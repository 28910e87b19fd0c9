"""Comparisons: two reports on a machine, two runs of the bench, and what a trace compares.

A trace compares the result with a reference, eager with graph, serial with overlapped, and CPU with GPU.
"""

from __future__ import annotations

from enum import Enum

from gpustack.model import record
from gpustack.model.facts import Layer
from gpustack.model.report import Health, Severity, Tool


class Turn(str, Enum):
    """What happened to a thing."""

    NEW = "new"
    GONE = "gone"
    CHANGED = "changed"


@record
class Side:
    """One of the two sides: where it was read, when it was recorded, which machine it describes, and its verdict."""

    path: str
    taken: str
    hostname: str | None
    status: Health
    root_causes: tuple[str, ...] = ()


@record
class Changed:
    """One thing that differs. ``what`` is version, build, path, status, copy or the name of a fact.

    ``where`` is the copy in question (a Python, a GPU) if there are several; ``matters`` are the keys of the findings
    that appeared, disappeared or changed severity and rest on this component.
    """

    component: str
    layer: Layer
    what: str
    turn: Turn
    before: str | None
    after: str | None
    where: str | None = None
    matters: tuple[str, ...] = ()


@record
class Told:
    """One finding that is new, is gone, or changed severity. ``caused_by`` is the key of its cause.

    ``because_of`` are the changed components among those that it rests on.
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


@record
class Difference:
    """Everything that differs, the most important first. ``same`` is the number of unchanged components."""

    tool: Tool
    before: Side
    after: Side
    changes: tuple[Changed, ...] = ()
    findings: tuple[Told, ...] = ()
    same: int = 0


class Outcome(str, Enum):
    """What happened to a figure since an older report. ``gone`` was measured then and not now, ``new`` the reverse."""

    BETTER = "better"
    WORSE = "worse"
    SAME = "same"
    GONE = "gone"
    NEW = "new"


@record
class Change:
    """One figure then and now. ``change`` is relative and positive if it is better now: 0.03 is 3 %.

    The intervals are the 95 % intervals of the medians; if they overlap, the figures do not differ.
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


@record
class Comparison:
    """A report compared with an older one: what differs between their machines, and each figure."""

    path: str
    taken: str
    tolerance: float
    differences: tuple[str, ...] = ()
    changes: tuple[Change, ...] = ()


@record
class Check:
    """A result compared with a reference, usually float64 on the CPU.

    ``error`` is the norm of the difference divided by the norm of the reference, ``largest`` the largest difference
    divided by the largest reference value; both must be within ``bound``. ``rows`` is how many rows there are,
    ``compared`` how many were compared.
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
        """Whether the result is correct: every number finite, and both errors within the bound."""
        return self.finite and self.compared > 0 and self.error <= self.bound and self.largest <= self.bound


@record
class Launching:
    """The same kernels launched one by one (eager) and as one CUDA graph; seconds are medians for one pass."""

    eager_seconds: float
    graph_seconds: float
    kernels: int
    kernel_seconds: float | None = None
    host_eager_seconds: float | None = None
    host_graph_seconds: float | None = None

    @property
    def gain(self) -> float:
        """How many times faster the graph is."""
        return self.eager_seconds / self.graph_seconds if self.graph_seconds else 0.0


@record
class Overlap:
    """Copies and kernels one after the other, and concurrently over two streams with the batch split into chunks."""

    serial_seconds: float
    overlapped_seconds: float
    chunks: int
    streams: int
    copy_seconds: float | None = None
    compute_seconds: float | None = None
    note: str | None = None

    @property
    def gain(self) -> float:
        """How many times faster the overlapped run is."""
        return self.serial_seconds / self.overlapped_seconds if self.overlapped_seconds else 0.0


@record
class BatchTime:
    """How long one batch of this many inputs takes, on the CPU and on the GPU; None: not measured.

    ``gpu_seconds`` is the total: copy the input to the GPU, run the kernels, copy the output back; weights are already
    there. ``transfer_seconds`` is the copy time in it, ``kernel_seconds`` the time during which kernels ran.
    """

    batch: int
    cpu_seconds: float | None = None
    gpu_seconds: float | None = None
    transfer_seconds: float | None = None
    kernel_seconds: float | None = None
    kernels: int | None = None


@record
class Crossover:
    """The batch from which the GPU wins, including copies of input and output; None: beyond what was measured."""

    at: float | None
    points: tuple[BatchTime, ...]
    says: str
    why: tuple[str, ...] = ()
