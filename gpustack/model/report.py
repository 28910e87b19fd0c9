"""What is concluded from facts: contracts, findings, and one verdict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from gpustack.model.command import REBOOT, Command, apart, blanks
from gpustack.model.facts import Component, Host, JsonValue, Layer, Strength, Unseen


class Severity(str, Enum):
    """How much a finding weighs. ``unknown`` is something that had to be seen and could not."""

    ERROR = "error"
    WARNING = "warning"
    UNKNOWN = "unknown"
    INFO = "info"


class Kept(str, Enum):
    """Whether a contract between two components is kept; ``limited`` works, with a named restriction."""

    OK = "ok"
    LIMITED = "limited"
    BROKEN = "broken"
    UNKNOWN = "unknown"


class Confidence(str, Enum):
    """How sure a finding is of its cause."""

    CERTAIN = "certain"
    LIKELY = "likely"
    POSSIBLE = "possible"


class Health(str, Enum):
    """The verdict in one word."""

    HEALTHY = "healthy"
    DEGRADED = "degraded"
    BROKEN = "broken"
    NO_GPU = "no-gpu"
    UNKNOWN = "unknown"


class Purpose(str, Enum):
    """What the machine is for: severity depends on it (a missing compiler matters only to who builds)."""

    TRAIN = "train"
    INFER = "infer"
    BUILD = "build"
    ANY = "any"


@dataclass(frozen=True, slots=True, kw_only=True)
class Because:
    """One fact that a finding rests on, where it was read, and how it was learnt."""

    component: str
    fact: str
    value: JsonValue = field(hash=False)  # a table where a report of somebody else's holds one
    source: str = ""
    strength: Strength = Strength.MEASURED


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The row of the compatibility matrix that a conclusion rests on."""

    table: str
    text: str
    source: str
    checked: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fix:
    """What to do: a sentence, the commands, what they need, and the command that shows that it worked."""

    text: str
    commands: tuple[Command, ...] = ()
    needs_root: bool = False
    needs_reboot: bool = False
    verify: Command | None = None

    def __post_init__(self) -> None:
        """Say in the text what is to be done by hand, what would do as well, and what each blank is for.

        What needs a restart ends with it.
        """
        typed, by_hand = apart(self.commands)
        if self.needs_reboot and REBOOT not in typed and any(one.startswith("sudo ") for one in typed):
            typed = (*typed, REBOOT)
        filled = [one for one in blanks(self.commands) if one not in self.text]
        said = (self.text, by_hand, f"Here {', '.join(filled)}." if filled else "")
        object.__setattr__(self, "text", " ".join(filter(None, said)))
        object.__setattr__(self, "commands", typed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing concluded. ``key`` is unique (id, or id@instance); ``caused_by`` is the key of what is behind it."""

    id: str
    severity: Severity
    layer: Layer
    component: str
    title: str
    detail: str = ""
    instance: str | None = None
    because: tuple[Because, ...] = ()
    row: Row | None = None
    fix: Fix | None = None
    caused_by: str | None = None
    confidence: Confidence = Confidence.CERTAIN

    @property
    def key(self) -> str:
        """The finding's own name in this report."""
        return f"{self.id}@{self.instance}" if self.instance else self.id


@dataclass(frozen=True, slots=True, kw_only=True)
class Similar:
    """A recorded machine that is like this one: the thread that describes it, and the finding that it had."""

    source: str
    cause: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Decide:
    """What settles whether a candidate is the cause: a sentence, and the commands whose output shows it."""

    text: str
    commands: tuple[Command, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A likely cause that nothing proves: a finding's id, its share of the whole likelihood, and what speaks for it."""

    id: str
    title: str
    weight: float
    because: tuple[Because, ...]
    similar: tuple[Similar, ...]
    decide: Decide


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """What one component (in one Python, its ``environment``) needs of another, and whether that is what it got.

    ``finding`` is the key of the finding that a broken one yields.
    """

    from_: str
    to: str
    kind: str
    needs: str
    found: str
    status: Kept
    row: Row | None = None
    environment: str | None = None
    finding: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The whole in one word, its causes (most likely first), and what works in the chosen Python."""

    status: Health
    root_causes: tuple[str, ...] = ()
    root_keys: tuple[str, ...] = ()
    works: Mapping[str, bool | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentVerdict:
    """What works in one Python: component id to true, false, or null where nobody can say."""

    python: str
    kind: str
    version: str | None = None
    works: Mapping[str, bool | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """Which gpustack made this, with which matrix."""

    name: str
    version: str
    matrix_date: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Everything that the doctor says of one machine."""

    tool: Tool
    host: Host
    components: tuple[Component, ...]
    contracts: tuple[Contract, ...]
    findings: tuple[Finding, ...]
    not_seen: tuple[Unseen, ...]
    environments: tuple[EnvironmentVerdict, ...]
    verdict: Verdict
    candidates: tuple[Candidate, ...] = ()
    taken: str = ""
    deep: bool = False
    seconds: float = 0.0
