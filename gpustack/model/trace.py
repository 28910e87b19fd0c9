"""One model followed through a machine: seven steps, the tensors between the layers, and what ran on the GPU for it."""

from __future__ import annotations

import math
from enum import Enum

from gpustack.model import record
from gpustack.model.bench import Device
from gpustack.model.difference import BatchTime, Check, Crossover, Launching, Overlap
from gpustack.model.facts import Layer
from gpustack.model.report import Finding, Tool

LINK = "link"  # the track of copies between host and GPU
CHECKED = "computed in float64 and compared"  # the figure of step 7 that is not a copy
WARP = 32  # threads; the same on every NVIDIA GPU (CUDA C++ Programming Guide, "Hardware Multithreading")


class State(str, Enum):
    """The outcome of a step. ``needs-gpu`` was not tried without a GPU; ``skipped`` for any other reason."""

    DONE = "done"
    SKIPPED = "skipped"
    FAILED = "failed"
    NEEDS_GPU = "needs-gpu"


class Bound(str, Enum):
    """What limits a layer at best: memory, arithmetic units, or the launch of its kernel if that takes longer."""

    MEMORY = "memory"
    COMPUTE = "compute"
    LAUNCH = "launch"


class Ground(str, Enum):
    """What the trace was made on: a GPU, a CPU alone, a framework of the target Python, or recorded facts."""

    GPU = "gpu"
    CPU = "cpu"
    FRAMEWORK = "framework"
    RECORDED = "recorded"


@record
class Figure:
    """One measured figure of a step, such as the bandwidth of a copy; ``ceiling`` is its limit, in the same unit.

    ``note`` says how it was measured if its name does not.
    """

    name: str
    value: float
    unit: str
    ceiling: float | None = None
    ceiling_from: str | None = None
    note: str | None = None

    @property
    def ratio(self) -> float | None:
        """The share of the limit that was reached, if there is a limit."""
        return self.value / self.ceiling if self.ceiling else None

    @property
    def limit(self) -> float | None:
        """The physical limit if it is known, otherwise the measured maximum."""
        return self.ceiling or self.value or None


@record
class Loaded:
    """One link of the chain from the script down to the kernel: what it is, at which layer, from which file.

    ``missing`` says why there is nothing at the end of the chain.
    """

    layer: Layer
    name: str
    file: str | None = None
    version: str | None = None
    missing: str | None = None


@record
class Step:
    """One of the seven steps. ``seconds`` is its share of the single pass, excluding repeats for figures.

    ``why`` says why it failed or was skipped, or what it shows; ``libraries`` are those that did it.
    """

    number: int
    name: str
    status: State
    seconds: float | None = None
    figures: tuple[Figure, ...] = ()
    why: tuple[str, ...] = ()
    libraries: tuple[Loaded, ...] = ()


@record
class TensorLayer:
    """One layer of the model as tensors flow through it: shapes, arithmetic, bytes of device memory, and its time.

    ``attainable`` is the TFLOP/s that the roofline allows at this intensity, ``least_seconds`` the shortest time that
    the limits of arithmetic and of memory (of the cache, where all its bytes fit) allow; None where no limit is known.
    ``op`` is the kind of work: gemm, bias, conv2d, pool, layernorm, softmax ...
    """

    name: str
    op: str
    shape_in: tuple[int, ...]
    shape_out: tuple[int, ...]
    flops: float
    bytes_read: int
    bytes_written: int
    seconds: float | None = None
    bound: Bound | None = None
    attainable: float | None = None
    least_seconds: float | None = None

    @property
    def ratio(self) -> float | None:
        """The share of the limit that was reached, if there is a limit."""
        return self.least_seconds / self.seconds if self.least_seconds and self.seconds else None

    @property
    def intensity(self) -> float:
        """Operations per byte read or written: the arithmetic intensity."""
        moved = self.bytes_read + self.bytes_written
        return self.flops / moved if moved else 0.0

    @property
    def tflops(self) -> float | None:
        """The rate reached, in 10^12 operations per second."""
        return self.flops / self.seconds / 1e12 if self.seconds else None

    @property
    def gigabytes_a_second(self) -> float | None:
        """The bandwidth reached, reads and writes, in 10^9 bytes per second."""
        return (self.bytes_read + self.bytes_written) / self.seconds / 1e9 if self.seconds else None


@record
class KernelLaunch:
    """One kernel launch. What is not reported (a library's grid) is None, never guessed.

    Shared memory is in bytes per block; ``occupancy`` is the share of a multiprocessor's warps that can be resident,
    ``waves`` how often the grid fills all multiprocessors. ``made_by`` is NVRTC, the driver's PTX compiler or a
    library.
    """

    name: str
    layer: str
    made_by: str
    grid: tuple[int, int, int] | None = None
    block: tuple[int, int, int] | None = None
    registers: int | None = None
    shared_static: int | None = None
    shared_dynamic: int | None = None
    blocks_per_multiprocessor: int | None = None
    occupancy: float | None = None
    waves: float | None = None
    tensor_cores: bool | None = None
    seconds: float | None = None
    note: str | None = None

    @property
    def blocks(self) -> int | None:
        """The number of blocks in the grid."""
        return math.prod(self.grid) if self.grid else None

    @property
    def threads(self) -> int | None:
        """The number of threads in a block."""
        return math.prod(self.block) if self.block else None

    @property
    def warps(self) -> int | None:
        """The number of warps in a block."""
        return -(-math.prod(self.block) // WARP) if self.block else None


@record
class Moment:
    """Something with a beginning and an end on a track of the timeline: host, stream 1, stream 2, link ...

    ``begin`` counts from the start of the trace, in seconds. ``step`` is the step it belongs to.
    """

    track: str
    name: str
    begin: float
    seconds: float
    step: int | None = None
    detail: str | None = None


@record
class Stop:
    """The step at which a stack fails, the finding that causes it, why it is this step, and the next command.

    If it does not ``fail``, the step still completes, more slowly or with limits.
    """

    step: int
    name: str
    finding: str
    says: str
    why: str
    explain: str
    fails: bool = True


@record
class Subject:
    """The model that was followed. ``precision`` applies to weights and tensors; bytes are in this precision."""

    name: str
    size: str
    precision: str
    batch: int
    parameters: int
    weight_bytes: int
    input_shape: tuple[int, ...]
    output_shape: tuple[int, ...]
    flops: float
    seed: int | None = None
    file: str | None = None


@record
class Processor:
    """The CPU that ran the model: its name, the threads available, and the library that numpy multiplies with."""

    name: str
    threads: int
    library: str | None = None
    numpy: str | None = None


@record
class Trace:
    """Everything recorded about one model on its way through the machine.

    ``wall_seconds`` is the time of the seven steps as one pass; a child's is measured by its parent's clock.
    ``cpu_layers`` are the layers as the CPU ran them beside the GPU, ``batches`` the times of other batches. ``stop``
    is where the stack fails, ``says`` a summary sentence; ``interrupted`` is "Ctrl-C", or what ended it.
    """

    tool: Tool
    ground: Ground
    subject: Subject
    steps: tuple[Step, ...]
    device: Device | None = None
    processor: Processor | None = None
    framework: str | None = None
    layers: tuple[TensorLayer, ...] = ()
    cpu_layers: tuple[TensorLayer, ...] = ()
    kernels: tuple[KernelLaunch, ...] = ()
    checks: tuple[Check, ...] = ()
    launching: Launching | None = None
    overlap: Overlap | None = None
    batches: tuple[BatchTime, ...] = ()
    crossover: Crossover | None = None
    chain: tuple[Loaded, ...] = ()
    timeline: tuple[Moment, ...] = ()
    memory_ceiling: Figure | None = None
    compute_ceiling: Figure | None = None
    cache_ceiling: Figure | None = None
    link_ceiling: Figure | None = None
    findings: tuple[Finding, ...] = ()
    stop: Stop | None = None
    says: str | None = None
    wall_seconds: float | None = None
    taken: str = ""
    seconds: float = 0.0
    interrupted: str | None = None

    @property
    def failed(self) -> int | None:
        """The number of the first step that failed, or None."""
        return next((step.number for step in self.steps if step.status is State.FAILED), None)
