"""A report on many machines: which share a class, what drifts, which figures are low, and which are missing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import Enum
from itertools import groupby

from gpustack.model import field, record
from gpustack.model.report import Health, Severity, Tool

NUMBERED = re.compile(r"(?P<head>.*?)(?P<number>\d{1,9})(?P<tail>\D*)")


@record
class Told:
    """One finding that all nodes of a class have; ``commands`` fix it, ``caused_by`` is the key of its cause."""

    id: str
    key: str
    severity: Severity
    title: str
    caused_by: str | None = None
    fix: str | None = None
    commands: tuple[str, ...] = ()


@record
class NodeClass:
    """Nodes with the same verdict and the same root causes; titles are those of the first node."""

    status: Health
    kind: str
    root_causes: tuple[str, ...]
    findings: tuple[Told, ...]
    nodes: tuple[str, ...]

    @property
    def count(self) -> int:
        """The number of nodes."""
        return len(self.nodes)


@record
class Odd:
    """Nodes where a fact differs from most nodes of their kind; None: they lack this fact."""

    value: str | None
    nodes: tuple[str, ...]


@record
class Drift:
    """A fact that differs within a kind: the usual value, how many nodes have it, and which have another.

    ``instances`` are the copies that differ, such as GPU 0 to 7; empty for what a node has once.
    """

    kind: str
    component: str
    fact: str
    instances: tuple[str, ...]
    usual: str | None
    count: int
    odd: tuple[Odd, ...]


class Low(str, Enum):
    """How certain it is that a figure is low: measured low twice, or once."""

    LOW = "low"
    SUSPECT = "suspect"


@record
class Outlier:
    """A figure below what its kind usually reaches; ``ratio`` is relative to ``of``: the median or physical ceiling.

    ``gpus`` is the one measured, a pair, or empty for all GPUs of the node.
    """

    node: str
    gpus: tuple[int, ...]
    value: float
    ratio: float
    of: str
    verdict: Low
    measured: int


@record
class Figures:
    """One figure of all GPUs of a kind under one driver branch. ``mad`` is the median absolute deviation.

    ``bins`` are the counts in equal intervals between the minimum and the maximum.
    """

    id: str
    kind: str
    branch: str
    unit: str
    gpus: int
    median: float
    mad: float
    least: float
    greatest: float
    bins: tuple[int, ...] = ()
    outliers: tuple[Outlier, ...] = ()


@record
class Missing:
    """A node without any data, and why."""

    node: str
    why: str


@record
class FleetReport:
    """The report on a fleet; ``unread`` are benches whose files could not be read."""

    tool: Tool
    taken: str = ""
    nodes: int = 0
    status: Mapping[str, int] = field(default_factory=dict)
    classes: tuple[NodeClass, ...] = ()
    drift: tuple[Drift, ...] = ()
    figures: tuple[Figures, ...] = ()
    missing: tuple[Missing, ...] = ()
    unread: tuple[Missing, ...] = ()
    labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    seconds: float = 0.0


@record
class Group:
    """A node, or an uplink (all pairs across the border of a group), that slow pairs point to. ``weight`` is 0 to 1."""

    what: str
    name: str
    weight: float
    pairs: int
    median_ratio: float


@record
class Turned:
    """Nodes whose verdict or causes changed: both then and now.

    A side that is None was not collected.
    """

    before: str | None
    after: str | None
    gone: tuple[str, ...]
    new: tuple[str, ...]
    nodes: tuple[str, ...]


@record
class Changed:
    """A fact that changed on nodes between two collections; None: it did not exist."""

    component: str
    fact: str
    before: str | None
    after: str | None
    nodes: tuple[str, ...]


@record
class FleetDifference:
    """How the nodes changed between two collections; ``same`` is the number of unchanged nodes."""

    tool: Tool
    turned: tuple[Turned, ...]
    changed: tuple[Changed, ...]
    same: int


@record
class Matchings:
    """Pairs of nodes to measure, round by round; the pairs of a round run at the same time."""

    tool: Tool
    seed: int
    rounds: tuple[tuple[tuple[str, str], ...], ...]


@record
class Recurrence:
    """How often a node had a finding: in how many of its runs and boots, and when first and last.

    ``score`` is how much of a lemon the node is, from 0 to 1.
    """

    node: str
    first: str
    last: str
    runs: int
    boots: int
    of: int
    now: bool

    @property
    def score(self) -> float:
        """The share of its runs with the finding, increased by half if it came back after a boot."""
        share = self.runs / self.of if self.of else 0.0
        return round(min(1.0, share * (1 + 0.5 * (self.boots > 1))), 3)


@record
class History:
    """Every node that ever had a finding, the worst lemon first."""

    tool: Tool
    finding: str
    nodes: tuple[Recurrence, ...]


@record
class Decoded:
    """What makes pairs slow or hang, and the pairs for one more round that would confirm it."""

    tool: Tool
    pairs: int
    median: float
    suspects: tuple[Group, ...]
    confirmed: bool
    confirm: tuple[tuple[str, str], ...] = ()


def fold(names: Iterable[str]) -> str:
    """Return names as Slurm writes them, ``gpu[001-003,007],login1``, folding numbers of equal width and position."""
    parts: dict[tuple[str, str, int], list[int]] = {}
    plain: list[str] = []
    for name in sorted(set(names)):
        found = NUMBERED.fullmatch(name)
        if found:
            width = len(found["number"]) if found["number"].startswith("0") else 0
            parts.setdefault((found["head"], found["tail"], width), []).append(int(found["number"]))
        else:
            plain.append(name)
    folded = [_folded(*key, sorted(numbers)) for key, numbers in sorted(parts.items())]
    return ",".join([*folded, *plain])


def _folded(head: str, tail: str, width: int, numbers: list[int]) -> str:
    spans = []
    for _, run in groupby(enumerate(numbers), key=lambda one: one[1] - one[0]):
        span = [number for _, number in run]
        first, last = (f"{one:0{width}d}" for one in (span[0], span[-1]))
        spans.append(first if len(span) == 1 else f"{first}-{last}")
    return f"{head}{spans[0]}{tail}" if len(numbers) == 1 else f"{head}[{','.join(spans)}]{tail}"
