"""What is known of many machines: who is in which class, what drifts, which figures are low, and who is missing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from itertools import groupby

from gpustack.model.report import Health, Severity, Tool

NUMBERED = re.compile(r"(?P<head>.*?)(?P<number>\d{1,9})(?P<tail>\D*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """One finding that all nodes of a class have; ``commands`` fix it, ``caused_by`` is the key of its cause."""

    id: str
    key: str
    severity: Severity
    title: str
    caused_by: str | None = None
    fix: str | None = None
    commands: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeClass:
    """Nodes of which the same is to be said: their verdict and their root causes; titles are of the first of them."""

    status: Health
    kind: str
    root_causes: tuple[str, ...]
    findings: tuple[Told, ...]
    nodes: tuple[str, ...]

    @property
    def count(self) -> int:
        """How many nodes there are."""
        return len(self.nodes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Odd:
    """Nodes whose fact has another value than that of most nodes of their kind; None: they have no such fact."""

    value: str | None
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """One fact in which nodes of a kind differ: what most of them have, how many have it, and who has another.

    ``instances`` are the places of the copies that differ, such as GPU 0 to 7; empty for what a node has once.
    """

    kind: str
    component: str
    fact: str
    instances: tuple[str, ...]
    usual: str | None
    count: int
    odd: tuple[Odd, ...]


class Low(str, Enum):
    """How sure it is that a figure is low: measured low twice, or once."""

    LOW = "low"
    SUSPECT = "suspect"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlier:
    """A figure below what its kind gives; ``ratio`` is of ``of``: the median, or the physical ceiling.

    ``gpus`` is the one that was measured, a pair, or empty for all of the node.
    """

    node: str
    gpus: tuple[int, ...]
    value: float
    ratio: float
    of: str
    verdict: Low
    measured: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """One figure of all GPUs of a kind under one driver branch. ``mad`` is the median absolute deviation.

    ``bins`` says how many lie in each of equal parts between the least and the greatest.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """A node of which nothing is known, and why."""

    node: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetReport:
    """Everything that is to be said of a fleet; ``unread`` are benches whose files could not be read."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """What pairs blame: a node, or an uplink (all pairs that cross the border of a group). ``weight`` is 0 to 1."""

    what: str
    name: str
    weight: float
    pairs: int
    median_ratio: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Turned:
    """Nodes of which something else is to be said than before: their verdicts and causes then and now.

    A side that is None was not collected.
    """

    before: str | None
    after: str | None
    gone: tuple[str, ...]
    new: tuple[str, ...]
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """One fact that changed on nodes between two collections; None: it was not there."""

    component: str
    fact: str
    before: str | None
    after: str | None
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetDifference:
    """What became of the nodes between two collections; ``same`` is how many are as they were."""

    tool: Tool
    turned: tuple[Turned, ...]
    changed: tuple[Changed, ...]
    same: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Matchings:
    """Pairs of nodes to measure, round by round: those of one round run at the same time."""

    tool: Tool
    seed: int
    rounds: tuple[tuple[tuple[str, str], ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recurrence:
    """How often a node had a finding: in how many runs and boots, first and last, and of how many runs.

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
        """The share of its runs with the finding; half as much again where it came back after a boot."""
        share = self.runs / self.of if self.of else 0.0
        return round(min(1.0, share * (1 + 0.5 * (self.boots > 1))), 3)


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """Every node that ever had a finding, the worst lemon first."""

    tool: Tool
    finding: str
    nodes: tuple[Recurrence, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """Who makes pairs slow or hang, and the pairs that would confirm it: one more round."""

    tool: Tool
    pairs: int
    median: float
    suspects: tuple[Group, ...]
    confirmed: bool
    confirm: tuple[tuple[str, str], ...] = ()


def fold(names: Iterable[str]) -> str:
    """Return names as Slurm writes them: ``gpu[001-003,007],login1``; numbers of one width and place are folded."""
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
    if len(numbers) == 1:
        return f"{head}{spans[0]}{tail}"
    return f"{head}[{','.join(spans)}]{tail}"
