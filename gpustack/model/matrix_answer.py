"""Answers that are no diagnosis: of the matrix, explanations, the map of the stack, and the self-test."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from gpustack.model.command import REBOOT, Command, apart
from gpustack.model.facts import Component, Environment, Host, Layer, Unseen
from gpustack.model.report import Contract, Row, Tool


class Kind(str, Enum):
    """What a meaning is the meaning of. A system is one of the stack map; a term is a word of the field."""

    FINDING = "finding"
    CODE = "code"
    MESSAGE = "message"
    SYSTEM = "system"
    TERM = "term"
    LAYER = "layer"
    ARCHITECTURE = "architecture"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lead:
    """A finding that something leads to: its id, what it says in a sentence, and the rest of its text."""

    id: str
    title: str
    says: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Meaning:
    """One thing that the words name.

    ``says`` are paragraphs; ``cause`` is what is mostly behind it and ``fix`` what to do; ``stands_on`` and ``carries``
    name what it needs and what needs it; ``holds`` is what a layer consists of; each of ``see`` is a command that shows
    it on a machine that has it, each of ``commands`` one that fixes it; ``findings`` are what it leads to when
    something is wrong.
    """

    kind: Kind
    id: str
    title: str
    layer: Layer | None = None
    says: tuple[str, ...] = ()
    cause: str | None = None
    fix: str | None = None
    stands_on: tuple[str, ...] = ()
    carries: tuple[str, ...] = ()
    holds: tuple[str, ...] = ()
    see: tuple[str, ...] = ()
    commands: tuple[Command, ...] = ()
    findings: tuple[Lead, ...] = ()
    row: Row | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """All meanings of some words, the likeliest first.

    ``near`` are names that were perhaps meant, where nothing was found; ``missing`` are readings that the matrix does
    not know, such as "CUDA error 79".
    """

    words: str
    meanings: tuple[Meaning, ...] = ()
    near: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()

    @property
    def known(self) -> bool:
        """Whether anything is known."""
        return bool(self.meanings)


@dataclass(frozen=True, slots=True, kw_only=True)
class StackMap:
    """What is here of the stack and what goes with what; ``known``: the ids that every map has, bottom layer first.

    ``components`` begin with these, in this order; other things that were seen follow.
    """

    tool: Tool
    host: Host
    components: tuple[Component, ...]
    contracts: tuple[Contract, ...]
    environments: tuple[Environment, ...] = ()
    not_seen: tuple[Unseen, ...] = ()
    known: tuple[str, ...] = ()
    taken: str = ""
    seconds: float = 0.0


class Part(str, Enum):
    """What is proved: that a rule fires on facts that are sick, or that a guard stops a probe that is."""

    RULE = "rule"
    GUARD = "guard"


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """One thing that was tried: the rule's id or the guard's name, whether it held, and what came of it."""

    name: str
    part: Part
    held: bool
    says: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfTest:
    """All that was tried. ``held`` is true where everything held."""

    tool: Tool
    held: bool
    proofs: tuple[Proof, ...]
    seconds: float


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
    COMPILER = "compiler"
    VERSION = "version"
    PYTHON = "python"
    SYSTEM = "system"
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
    """Something that would work instead: what changes, in words and in kind, what it is then, and what to type.

    ``steps`` says in sentences what has to be done by hand, and what would do as well as the commands; ``keeps`` what
    stays as it is, ``not_first`` why a smaller change comes before it.
    """

    change: str
    kind: Change
    subject: str
    verdict: Compatibility
    commands: tuple[Command, ...] = ()
    steps: str = ""
    keeps: str = ""
    not_first: str = ""
    needs_root: bool = False
    needs_reboot: bool = False

    def __post_init__(self) -> None:
        """Keep what is to be done by hand out of the commands, and say what these need."""
        typed, by_hand = apart(self.commands)
        object.__setattr__(self, "needs_root", any("sudo " in one for one in typed))
        object.__setattr__(self, "needs_reboot", REBOOT in typed)
        object.__setattr__(self, "steps", " ".join(filter(None, (self.steps, by_hand))))
        object.__setattr__(self, "commands", typed)


@dataclass(frozen=True, slots=True, kw_only=True)
class NotTaken:
    """A kind of change that was tried and would not help, with why."""

    kind: Change
    because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixAnswer:
    """The answer to one question: ``subject`` as it was typed, ``meant`` as it was understood, what was ``given``.

    ``alternatives`` has what would work, the smallest change first; ``not_taken`` what would not help.
    """

    subject: str
    meant: str
    given: tuple[str, ...]
    verdict: Compatibility
    reasons: tuple[Reason, ...]
    alternatives: tuple[Alternative, ...] = ()
    not_taken: tuple[NotTaken, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixPart:
    """One part of a table: its columns, and its rows as texts, each with the source and the day it was checked.

    ``left`` is how many rows were left out, where only the newest are shown.
    """

    table: str
    part: str
    about: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    sources: tuple[str, ...]
    checked: tuple[str, ...]
    left: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixTables:
    """What the matrix states of one component; ``left`` are the parts that were left out of a short answer."""

    subject: str
    component: str
    parts: tuple[MatrixPart, ...]
    left: tuple[str, ...] = ()


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
    """What the package index says of the rows that follow from its wheels: how many agree, and which do not.

    Or which data is used from now on, ``data``, by its day, where a bundle of it was installed or taken away.
    """

    asked: tuple[str, ...]
    same: int
    changes: tuple[RowChange, ...]
    unread: tuple[str, ...] = ()
    data: str | None = None
