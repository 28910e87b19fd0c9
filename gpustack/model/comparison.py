"""A bench report beside an older one: what became of each figure, and what else is not the same about the two."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


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

    The intervals are the 95 % intervals of the medians; where they overlap, the figures cannot be told apart.
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
