"""What was measured on a GPU: each figure with its spread, its physical limit, and what the card did meanwhile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from gpustack.model import record
from gpustack.model.command import Command
from gpustack.model.difference import Comparison
from gpustack.model.facts import JsonValue
from gpustack.model.report import Finding, Tool

TIMES = frozenset({"s", "ms", "us", "µs", "ns"})


class Mark(str, Enum):
    """The rating of one figure. ``low`` is clearly below what is usual for such a limit, without an explanation."""

    OK = "ok"
    LOW = "low"
    UNSTEADY = "unsteady"
    FAILED = "failed"
    SKIPPED = "skipped"


@record
class Device:
    """One GPU as CUDA reports it, with its ``index``; None: not reported. Clocks are the highest that it allows."""

    index: int
    uuid: str
    name: str
    compute_capability: str
    pci: str | None = None
    driver: str | None = None
    cuda: str | None = None
    multiprocessors: int | None = None
    clock_mhz: float | None = None
    memory_clock_mhz: float | None = None
    bus_bits: int | None = None
    memory_mib: int | None = None
    l2_mib: float | None = None


@record
class Span:
    """The minimum, median and maximum of a reading over a window."""

    low: float
    median: float
    high: float


@record
class Clocks:
    """Clocks in MHz. ``held`` was counted on the GPU itself during the timed window; the others were read from NVML."""

    held: float | None = None
    sm: Span | None = None
    memory: Span | None = None
    max_sm: float | None = None
    max_memory: float | None = None


@record
class Power:
    """Power in watts, and the limit in force beside the card's default limit."""

    watts: Span | None = None
    limit: float | None = None
    default_limit: float | None = None


@record
class Temperature:
    """Temperatures in degrees Celsius, and the one at which the card slows down."""

    gpu: Span | None = None
    memory: Span | None = None
    slowdown: float | None = None


@record
class Throttle:
    """Why the clock was held back during the window: NVML's mask (all readings ORed together) and its names."""

    mask: int = 0
    reasons: tuple[str, ...] = ()


@record
class Hop:
    """One end of a PCIe link, the GPU's or that of a bridge above it: speed and width under load, and its maximum."""

    address: str
    generation: int | None = None
    width: int | None = None
    max_generation: int | None = None
    max_width: int | None = None


@record
class Link:
    """The PCIe link under load, its maximum, and the replays counted during the window.

    ``payload`` is the largest packet in bytes, if it could be read; ``hops`` go from the GPU up to the root.
    """

    generation: int | None = None
    width: int | None = None
    max_generation: int | None = None
    max_width: int | None = None
    replays: int | None = None
    payload: int | None = None
    hops: tuple[Hop, ...] = ()


@record
class NvLink:
    """The links to other GPUs: how many exist and are up, and the errors and replays counted during the window."""

    total: int = 0
    active: int = 0
    errors: int | None = None


@record
class Ecc:
    """Memory errors counted during the window; None if the card does not count them."""

    corrected: int | None = None
    uncorrected: int | None = None


@record
class Telemetry:
    """What the card did during the window, in this many ``readings``; ``unavailable`` says why there are none.

    ``processes`` are others that had a context on the card, ``others_percent`` is the largest share of multiprocessor
    time that one of them used, and ``busy_percent`` how busy the card was before the run. ``mig_slice`` is the share of
    a slice.
    """

    readings: int = 0
    clocks: Clocks = field(default_factory=Clocks)
    power: Power = field(default_factory=Power)
    temperature: Temperature = field(default_factory=Temperature)
    throttle: Throttle = field(default_factory=Throttle)
    link: Link = field(default_factory=Link)
    ecc: Ecc = field(default_factory=Ecc)
    nvlink: NvLink | None = None
    performance_state: int | None = None
    remap_pending: bool | None = None
    mig_slice: str | None = None
    processes: tuple[str, ...] = ()
    others_percent: float | None = None
    busy_percent: float | None = None
    unavailable: str | None = None


@record
class Sustained:
    """The figure of the same work without pauses: the median of the second half of ``seconds``.

    Its fields are those of the result. The burst ends before the power limit lowers the clock; this does not.
    """

    value: float
    interval: tuple[float, float]
    steady: bool
    samples: tuple[float, ...]
    seconds: float
    ratio: float | None = None
    ceiling_held: float | None = None
    ratio_held: float | None = None
    telemetry: Telemetry | None = None
    why: tuple[str, ...] = ()


@record
class Zeros:
    """The same burst on zeros. ``sensitivity`` is how much faster that was: 0.13 is 13 %.

    Zeros need less power, so a card that its power limit holds back is faster with them.
    """

    value: float
    interval: tuple[float, float]
    samples: tuple[float, ...]
    sensitivity: float
    telemetry: Telemetry | None = None


@record
class Stress:
    """What a load over most of the memory revealed: how many products were compared, and how many bits were wrong.

    ``operands_changed``: A, B or the reference changed, so the memory is at fault. ``wrong_units`` of 16 bytes did not
    hold one of the ``patterns``; ``steps`` is how often the load went from idle to full.
    """

    asked: float
    seconds: float
    memory_gib: float
    rounds: int
    products: int
    compared_gib: float
    wrong_bits: int = 0
    wrong_words: int = 0
    first_wrong: str | None = None
    operands_changed: bool = False
    patterns: int = 0
    wrong_units: int = 0
    steps: int = 0


@dataclass(frozen=True, slots=True)
class Advice:
    """What to do about a reason: a text and the commands."""

    text: str
    commands: tuple[Command, ...] = ()


@record
class Result:
    """One figure of one GPU. ``value`` is the median of ``samples``; all are in ``unit``, like the ceilings.

    ``interval`` is the 95 % interval of the median, ``drift`` the change from the first third to the last (0.01 is one
    percent). ``ceiling`` is the limit at the card's highest clock, ``ceiling_held`` at the clock it held, if the limit
    depends on it; ``ratio`` and ``ratio_held`` are the value divided by each. ``method`` is what was run. A figure that
    was ``failed`` or ``skipped`` has none of these, and ``remedy`` is the command that would produce it. ``advice`` is
    what to do about the reasons in ``why``. ``gpus`` are set for a figure of several GPUs: for a pair, first the one
    whose copy engine or kernel works (also ``device``), then the other; for all GPUs ``device`` is None. After several
    runs, ``runs`` are their medians, ``value`` is the median of those, and ``samples`` come from all runs.
    """

    id: str
    device: int | None
    unit: str
    verdict: Mark
    title: str = ""
    gpus: tuple[int, ...] = ()
    value: float | None = None
    median: float | None = None
    p05: float | None = None
    p95: float | None = None
    interval: tuple[float, float] | None = None
    samples: tuple[float, ...] = ()
    steady: bool | None = None
    drift: float | None = None
    ceiling: float | None = None
    ceiling_from: str | None = None
    ratio: float | None = None
    ceiling_held: float | None = None
    ratio_held: float | None = None
    why: tuple[str, ...] = ()
    advice: tuple[Advice, ...] = ()
    runs: tuple[float, ...] = ()
    remedy: Command | None = None
    method: Mapping[str, JsonValue] = field(default_factory=dict)
    telemetry: Telemetry | None = None
    seconds: float = 0.0
    sustained: Sustained | None = None
    zeros: Zeros | None = None
    stress: Stress | None = None

    @property
    def lower_is_better(self) -> bool:
        """Whether the figure is a time, where less is better, rather than a rate."""
        return self.unit in TIMES

    def name(self) -> str:
        """Return the id, with the pair if it has one: p2p.bandwidth 0>1."""
        return f"{self.id} {self.gpus[0]}>{self.gpus[1]}" if self.gpus and self.device is not None else self.id

    def place(self) -> str:
        """Return in words which GPU it was measured on: " on GPU 0", " from GPU 0 to GPU 1", or nothing for all."""
        if self.device is None:
            return ""
        return f" from GPU {self.gpus[0]} to GPU {self.gpus[1]}" if self.gpus else f" on GPU {self.device}"


@record
class BenchReport:
    """Everything that one run measured. ``interrupted`` is "Ctrl-C" if the user ended it early."""

    tool: Tool
    devices: tuple[Device, ...]
    results: tuple[Result, ...]
    findings: tuple[Finding, ...] = ()
    taken: str = ""
    seconds: float = 0.0
    quick: bool = False
    data: str = "random"
    repeat: int = 1
    interrupted: str | None = None
    comparison: Comparison | None = None
