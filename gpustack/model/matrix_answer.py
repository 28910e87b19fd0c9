"""Results that are not a diagnosis: matrix answers, explanations, the map of the stack, and the self-test."""

from __future__ import annotations

from enum import Enum

from gpustack.model import record
from gpustack.model.command import REBOOT, Command, apart
from gpustack.model.facts import Component, Environment, Host, Layer, Unseen
from gpustack.model.report import Contract, Row, Tool


class Kind(str, Enum):
    """What a meaning describes. A system is one of the stack map; a term is a word of the field."""

    FINDING = "finding"
    CODE = "code"
    MESSAGE = "message"
    SYSTEM = "system"
    TERM = "term"
    LAYER = "layer"
    ARCHITECTURE = "architecture"


@record
class Lead:
    """A finding that something leads to: its id, its first sentence, and the rest of its text."""

    id: str
    title: str
    says: tuple[str, ...] = ()


@record
class Meaning:
    """One meaning of the given words.

    ``says`` are paragraphs; ``cause`` is the usual cause and ``fix`` what to do; ``stands_on`` and ``carries`` name
    what it needs and what needs it; ``holds`` lists the parts of a layer; ``see`` has the commands that show it on a
    machine, ``commands`` those that fix it; ``findings`` are what it leads to when something is wrong.
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


@record
class Explanation:
    """All meanings of some words, the likeliest first.

    ``near`` are names that were perhaps meant, if nothing was found; ``missing`` are interpretations without a row in
    the matrix, such as "CUDA error 79".
    """

    words: str
    meanings: tuple[Meaning, ...] = ()
    near: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()

    @property
    def known(self) -> bool:
        """Whether a meaning was found."""
        return bool(self.meanings)


@record
class StackMap:
    """The stack on this machine and its contracts; ``known``: the ids that every map has, bottom layer first.

    ``components`` begin with these, in this order; other observed things follow.
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
    """What is proved: that a rule fires on faulty facts, or that a guard stops a faulty probe."""

    RULE = "rule"
    GUARD = "guard"


@record
class Proof:
    """One attempt: the rule's id or the guard's name, whether it passed, and the details."""

    name: str
    part: Part
    held: bool
    says: str


@record
class SelfTest:
    """All attempts. ``held`` is true if all passed."""

    tool: Tool
    held: bool
    proofs: tuple[Proof, ...]
    seconds: float


class Compatibility(str, Enum):
    """The answer in one word. ``limited`` works, with a stated restriction; ``unknown`` has no row."""

    COMPATIBLE = "compatible"
    LIMITED = "limited"
    INCOMPATIBLE = "incompatible"
    UNKNOWN = "unknown"


class Change(str, Enum):
    """The kind of change an alternative is, the smallest first; ``none`` is the unchanged subject."""

    NONE = "none"
    WHEEL = "wheel"
    COMPILER = "compiler"
    SYSTEM = "system"
    VERSION = "version"
    PYTHON = "python"
    COMPAT = "compat"
    DRIVER = "driver"
    GPU = "gpu"


@record
class Reason:
    """One reason for the answer; ``source`` is that of the row, empty if no row states it."""

    text: str
    verdict: Compatibility
    row: Row | None = None
    source: str = ""


@record
class Alternative:
    """Something that would work instead: the change, in words and in kind, its result, the commands.

    ``steps`` are sentences about manual steps and alternatives to the commands; ``keeps`` is what stays unchanged,
    ``not_first`` why a smaller change comes before it.
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
        """Move manual steps out of the commands, and state what the commands need."""
        typed, by_hand = apart(self.commands)
        object.__setattr__(self, "needs_root", any("sudo " in one for one in typed))
        object.__setattr__(self, "needs_reboot", REBOOT in typed)
        object.__setattr__(self, "steps", " ".join(filter(None, (self.steps, by_hand))))
        object.__setattr__(self, "commands", typed)


@record
class NotTaken:
    """A kind of change that was tried and would not help, and why."""

    kind: Change
    because: str


@record
class MatrixAnswer:
    """The answer to one question: the ``subject`` as typed, ``meant`` as understood, and what was ``given``.

    ``alternatives`` are what would work, the smallest change first; ``not_taken`` what would not help.
    """

    subject: str
    meant: str
    given: tuple[str, ...]
    verdict: Compatibility
    reasons: tuple[Reason, ...]
    alternatives: tuple[Alternative, ...] = ()
    not_taken: tuple[NotTaken, ...] = ()


@record
class MatrixPart:
    """One part of a table: its columns and its rows as texts, each with the source and the day it was checked.

    ``left`` is how many rows were omitted when only the newest are shown.
    """

    table: str
    part: str
    about: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    sources: tuple[str, ...]
    checked: tuple[str, ...]
    left: int = 0


@record
class MatrixTables:
    """What the matrix states about one component; ``left`` are the parts omitted from a short answer."""

    subject: str
    component: str
    parts: tuple[MatrixPart, ...]
    left: tuple[str, ...] = ()


@record
class RowChange:
    """A row for which the index and the matrix disagree; ``was`` is None for a new row."""

    table: str
    part: str
    key: str
    now: str
    was: str | None = None


@record
class MatrixUpdate:
    """How many rows derived from wheels agree with the package index, and which do not.

    Or ``data``, the day of the data in use from now on, after a bundle was installed or removed.
    """

    asked: tuple[str, ...]
    same: int
    changes: tuple[RowChange, ...]
    unread: tuple[str, ...] = ()
    data: str | None = None
