"""What a healthy machine is held to: expected states, limits, GPUs that are alike, and GPUs that are counted."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from gpustack.matrix.tables import row
from gpustack.model.report import Severity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpustack.matrix import Matrix
    from gpustack.matrix.tables import Line
    from gpustack.model.facts import JsonValue
    from gpustack.model.report import Row

TABLE = "health"
PLACES = ("fact", "gpu", "machine", "host")


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Path:
    """A fact by the names that lead to it; below a name of ``each`` stand several members."""

    text: str
    names: tuple[str, ...]
    each: tuple[bool, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """What must hold for a row to apply: a fact of the instance, of its GPU, of a component or of the host."""

    place: str
    path: Path
    is_: tuple[JsonValue, ...] | None = None
    isnt: tuple[JsonValue, ...] | None = None
    like: re.Pattern[str] | None = None
    unlike: re.Pattern[str] | None = None
    above: float | None = None
    known: bool | None = None
    count: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Duty:
    """What all rows about one fact have: of which component, under which conditions, and the finding if broken."""

    name: str
    of: str
    path: Path
    finding: str
    severity: Severity
    what: str
    row: Row
    when: tuple[Condition, ...] = ()
    either: tuple[Condition, ...] = ()
    gpus: frozenset[str] = frozenset()
    members: re.Pattern[str] | None = None
    several: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class State(Duty):
    """A fact that has one of some values, or none of some; ``known``: one that was read at all."""

    expect: tuple[JsonValue, ...] | None = None
    never: tuple[JsonValue, ...] = ()
    unlike: re.Pattern[str] | None = None
    known: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit(Duty):
    """A number that stays on the good side of a value, or of the least of other facts less a margin."""

    bad: Side
    value: float | None = None
    bound: tuple[Path, ...] = ()
    margin: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Alike(Duty):
    """A fact that is equal on all siblings; with ``usual`` only where most of them have one of these values."""

    usual: tuple[JsonValue, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """Two lists of GPUs of which the second has every GPU of the first."""

    name: str
    every: str
    among: str
    finding: str
    severity: Severity
    what: str
    row: Row


def states(matrix: Matrix) -> tuple[State, ...]:
    """Return every expected state."""
    return matrix.rows(TABLE, "states", _state)


def limits(matrix: Matrix) -> tuple[Limit, ...]:
    """Return every limit."""
    return matrix.rows(TABLE, "limits", _limit)


def alikes(matrix: Matrix) -> tuple[Alike, ...]:
    """Return every fact in which siblings are alike."""
    return matrix.rows(TABLE, "alike", _alike)


def counts(matrix: Matrix) -> tuple[Count, ...]:
    """Return every pair of lists of GPUs that are compared."""
    return matrix.rows(TABLE, "counts", _count)


def path(text: str) -> Path:
    """Return the path that a text such as ``links[].errors.replay`` or ``unavailable.temperature.gpu_c`` names."""
    first, _, rest = text.partition(".")
    parts = (first, rest) if first == "unavailable" and rest else tuple(text.split("."))
    names = tuple(part.removesuffix("[]") for part in parts)
    return Path(text=text, names=names, each=tuple(part.endswith("[]") for part in parts))


def _state(line: Line) -> State:
    expect, unlike = line.get("expect"), line.get("unlike")
    never = tuple(line.get("never", ()))
    if expect is None and unlike is None and not never and not line.get("known"):
        raise ValueError(f"{line['name']} expects nothing")
    wanted = [f"is {' or '.join(map(shown, expect))}"] if expect is not None else []
    wanted += [f"is not {' or '.join(map(shown, never))}"] if never else []
    wanted += [f"is without {unlike}"] if unlike else []
    wanted += ["is read"] if line.get("known") else []
    return State(
        **_common(line, f"{line['of']} {line['fact']} {' and '.join(wanted)}"),
        expect=None if expect is None else tuple(expect),
        never=never,
        unlike=re.compile(unlike) if unlike else None,
        known=line.get("known", False),
    )


def _limit(line: Line) -> Limit:
    bad, bound = Side(line["bad"]), tuple(map(path, line.get("bound", ())))
    if ("value" in line) == bool(bound):
        raise ValueError(f"{line['name']} has no bound or two")
    against = " or ".join(one.text for one in bound) or f"{line['value']}"
    less = f" less {line['margin']}" if "margin" in line else ""
    said = f"{line['of']} {line['fact']} is bad {bad.value.replace('-', ' ')} {against}{less}"
    value = line.get("value")
    return Limit(
        **_common(line, said),
        bad=bad,
        value=None if value is None else float(value),
        bound=bound,
        margin=float(line.get("margin", 0.0)),
    )


def _alike(line: Line) -> Alike:
    said = f"{line['of']} {line['fact']} is equal among siblings"
    return Alike(**_common(line, said), usual=tuple(line.get("usual", ())))


def _count(line: Line) -> Count:
    return Count(
        name=line["name"],
        every=line["every"],
        among=line["among"],
        finding=line["finding"],
        severity=Severity(line["severity"]),
        what=line["what"],
        row=row(TABLE, f"every GPU of the list {line['every']} is in the list {line['among']}", line),
    )


def _common(line: Line, said: str) -> Mapping[str, Any]:
    """Return what every row about one fact has, by the names of ``Duty``."""
    only = f", on {' and '.join(line['gpus'])} GPUs" if "gpus" in line else ""
    members = line.get("members")
    return {
        "name": line["name"],
        "of": line["of"],
        "path": path(line["fact"]),
        "finding": line["finding"],
        "severity": Severity(line["severity"]),
        "what": line["what"],
        "row": row(TABLE, f"{line['name']}: {said}{only}", line),
        "when": tuple(map(_condition, line.get("when", ()))),
        "either": tuple(map(_condition, line.get("either", ()))),
        "gpus": frozenset(line.get("gpus", ())),
        "members": re.compile(members) if members else None,
        "several": line.get("several", False),
    }


def _condition(line: Mapping[str, Any]) -> Condition:
    (place,) = (one for one in PLACES if one in line)
    like, unlike = (re.compile(line[one]) if one in line else None for one in ("like", "unlike"))
    known = set(PLACES) | {"is", "isnt", "like", "unlike", "above", "known", "count"}
    if not line.keys() <= known or len(line) == 1:
        raise ValueError(f"a condition with {', '.join(line)}")
    return Condition(
        place=place,
        path=path(line[place]),
        is_=tuple(line["is"]) if "is" in line else None,
        isnt=tuple(line["isnt"]) if "isnt" in line else None,
        like=like,
        unlike=unlike,
        above=line.get("above"),
        known=line.get("known"),
        count=line.get("count"),
    )


def shown(value: JsonValue) -> str:
    """Return a value as people write it."""
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else str(value)
