"""What a trace compares: the answer with the truth, eager with graph, serial with overlapped, CPU with GPU."""

from __future__ import annotations

from dataclasses import dataclass


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
