"""What the compatibility matrix answers: whether something works with something, why, what else would, and its rows."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from gpustack.model.command import Command
from gpustack.model.report import Row


class Compatibility(str, Enum):
    """The answer in one word. ``limited`` works, with a named restriction; ``unknown`` is what no row states."""

    COMPATIBLE = "compatible"
    LIMITED = "limited"
    INCOMPATIBLE = "incompatible"
    UNKNOWN = "unknown"


class Change(str, Enum):
    """What kind of change an alternative is, the smallest first; ``none`` is the subject as it stands."""

    NONE = "none"
    WHEEL = "wheel"
    VERSION = "version"
    COMPAT = "compat"
    DRIVER = "driver"
    GPU = "gpu"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """One thing that the answer rests on; ``source`` is that of the row, empty where no row states it."""

    text: str
    verdict: Compatibility
    row: Row | None = None
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """Something that would work instead: what changes, in words and in kind, what it is then, and what to type."""

    change: str
    kind: Change
    subject: str
    verdict: Compatibility
    commands: tuple[Command, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixAnswer:
    """The answer to one question: ``subject`` as it was typed, ``meant`` as it was understood, what was ``given``."""

    subject: str
    meant: str
    given: tuple[str, ...]
    verdict: Compatibility
    reasons: tuple[Reason, ...]
    alternatives: tuple[Alternative, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixPart:
    """One part of a table: its columns, and its rows as texts, each with the source and the day it was checked."""

    table: str
    part: str
    about: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    sources: tuple[str, ...]
    checked: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixTables:
    """Everything that the matrix states of one component."""

    subject: str
    component: str
    parts: tuple[MatrixPart, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowChange:
    """One row that the index tells otherwise than the matrix; ``was`` is None for a row that is new."""

    table: str
    part: str
    key: str
    now: str
    was: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixUpdate:
    """What the package index says of the rows that follow from its wheels: how many agree, and which do not."""

    asked: tuple[str, ...]
    same: int
    changes: tuple[RowChange, ...]
    unread: tuple[str, ...] = ()
