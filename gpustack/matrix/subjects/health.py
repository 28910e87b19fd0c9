"""What is expected of a healthy machine: states, limits, GPUs that are alike, and numbers of GPUs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any

from gpustack.matrix.subjects import rows_of
from gpustack.model import field, record
from gpustack.model.facts import JsonValue
from gpustack.model.reading import key, whole
from gpustack.model.report import Severity
from gpustack.model.rows import Stated

if TYPE_CHECKING:
    from gpustack.matrix import Matrix

TABLE = "health"
PLACES = ("fact", "gpu", "machine", "host")
ASKED = {*PLACES, "is", "isnt", "like", "unlike", "above", "known", "count"}


class Side(str, Enum):
    """Which side of a limit is bad."""

    ABOVE = "above"
    AT_LEAST = "at-least"
    BELOW = "below"
    AT_MOST = "at-most"

    def breaks(self, measured: float, bound: float) -> bool:
        """Return whether the measured value is on the bad side of the bound."""
        if measured == bound:
            return self in {Side.AT_LEAST, Side.AT_MOST}
        return (measured > bound) == (self in {Side.ABOVE, Side.AT_LEAST})


@record
class Path:
    """A fact by its path of names; each name in ``each`` has several members below it."""

    text: str
    names: tuple[str, ...]
    each: tuple[bool, ...]

    @property
    def listed(self) -> int:
        """How many names lead to the first list or table of members; 0 if there is none."""
        return self.each.index(True) + 1 if True in self.each else 0

    @classmethod
    def parse(cls, text: str) -> Path:
        """Return the path named by a text such as ``links[].errors.replay`` or ``unavailable.power.watts``."""
        first, _, rest = text.partition(".")
        parts = (first, rest) if first == "unavailable" and rest else tuple(text.split("."))
        names = tuple(part.removesuffix("[]") for part in parts)
        return cls(text=text, names=names, each=tuple(part.endswith("[]") for part in parts))


def _place(said: Mapping[str, Any]) -> str:
    """Return whose fact a condition refers to; raises ValueError if it refers to none, or uses unknown words."""
    (place,) = (one for one in PLACES if one in said)
    if not said.keys() <= ASKED or len(said) == 1:
        raise ValueError(f"a condition with {', '.join(said)}")
    return place


@record
class Condition:
    """What must be true for a row to apply: a fact of the instance, of its GPU, of a component or of the host."""

    place: str = field(metadata=whole(_place))
    path: Path = field(metadata=whole(lambda said: Path.parse(said[_place(said)])))
    is_: tuple[JsonValue, ...] | None = None
    isnt: tuple[JsonValue, ...] | None = None
    like: re.Pattern[str] | None = field(default=None, metadata=key("like", re.compile))
    unlike: re.Pattern[str] | None = field(default=None, metadata=key("unlike", re.compile))
    above: float | None = None
    known: bool | None = None
    count: int | None = None


@record
class Duty(Stated):
    """What all rows about one fact have: its component, the conditions, and the finding if it is violated."""

    name: str
    of: str
    path: Path = field(metadata=key("fact"))
    finding: str
    severity: Severity
    what: str
    when: tuple[Condition, ...] = ()
    either: tuple[Condition, ...] = ()
    gpus: frozenset[str] = frozenset()
    members: re.Pattern[str] | None = field(default=None, metadata=key("members", re.compile))
    several: bool = False

    def __str__(self) -> str:
        only = f", on {' and '.join(sorted(self.gpus))} GPUs" if self.gpus else ""
        return f"{self.name}: {self.of} {self.path.text} {self.wanted}{only}"

    @property
    def wanted(self) -> str:
        """What is wanted of the fact, in words."""
        raise NotImplementedError


@record
class State(Duty):
    """A fact that must have one of some values, or none of some; ``known``: it must have been read at all.

    ``equal``: another fact of the same instance, or of a component ``equal_in``, must have the same value if known.
    """

    expect: tuple[JsonValue, ...] | None = None
    never: tuple[JsonValue, ...] = ()
    unlike: re.Pattern[str] | None = field(default=None, metadata=key("unlike", re.compile))
    known: bool = False
    equal: Path | None = None
    equal_in: str = ""

    def __post_init__(self) -> None:
        """Raise ValueError for a row without an expectation."""
        if not self.wanted:
            raise ValueError(f"{self.name} expects nothing")

    @property
    def wanted(self) -> str:
        """What is wanted of the fact, in words."""
        words = [f"is {' or '.join(map(shown, self.expect))}"] if self.expect is not None else []
        words += [f"is not {' or '.join(map(shown, self.never))}"] if self.never else []
        words += [f"is without {self.unlike.pattern}"] if self.unlike else []
        words += [f"is as {self.equal_in} {self.equal.text}".replace("  ", " ")] if self.equal else []
        return " and ".join([*words, "is read"] if self.known else words)


@record
class Limit(Duty):
    """A number that must stay on the good side of a value, or of the least of other facts minus a margin.

    ``most``: the bound is the greatest of them; ``share``: this share of it. ``per``: the value is a rate, a count in
    this many seconds, averaged since the kernel started; a counter below ``least`` gives no rate.
    """

    bad: Side
    value: float | None = None
    bound: tuple[Path, ...] = ()
    margin: float = 0.0
    share: float = 1.0
    most: bool = False
    per: float | None = None
    least: float = 0.0

    def __post_init__(self) -> None:
        """Raise ValueError for a row without a bound, or with two."""
        if (self.value is None) != bool(self.bound):
            raise ValueError(f"{self.name} has no bound or two")

    @property
    def wanted(self) -> str:
        """What is wanted of the fact, in words."""
        against = " or ".join(one.text for one in self.bound) or f"{self.value:.12g}"
        rate = f" in {self.per:g} s, from {self.least:g} on" if self.per else ""
        less = f" less {self.margin:g}" if self.margin else ""
        share = f"{self.share:g} of " if self.share != 1 else ""
        return f"is bad {self.bad.value.replace('-', ' ')} {share}{against}{less}{rate}"


@record
class Alike(Duty):
    """A fact that must be equal on all siblings; with ``usual``, only if most of them have one of these values."""

    usual: tuple[JsonValue, ...] = ()

    @property
    def wanted(self) -> str:
        """What is wanted of the fact, in words."""
        return "is equal among siblings"


@record
class Count(Stated):
    """Two lists of GPUs; the second must have every GPU of the first."""

    name: str
    every: str
    among: str
    finding: str
    severity: Severity
    what: str

    def __str__(self) -> str:
        return f"every GPU of the list {self.every} is in the list {self.among}"


@record
class Judged(Stated):
    """A comparison made in code, since it involves several components; the row describes it and names its source."""

    name: str
    what: str

    def __str__(self) -> str:
        return f"{self.name}: {self.what}"


states = rows_of(TABLE, "states", State)  # every expected state
limits = rows_of(TABLE, "limits", Limit)  # every limit
alikes = rows_of(TABLE, "alike", Alike)  # every fact that must be equal on siblings
counts = rows_of(TABLE, "counts", Count)  # every pair of lists of GPUs that are compared


def judged(matrix: Matrix, name: str) -> Judged:
    """Return the row of a comparison made in code, by its name."""
    return next(one for one in matrix.rows(TABLE, "judged", Judged) if one.name == name)


def shown(value: JsonValue) -> str:
    """Return a value as people write it."""
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else str(value)
