"""What is concluded from facts: contracts, findings, and one verdict."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from gpustack.model import field, record
from gpustack.model.command import REBOOT, Command, apart, blanks
from gpustack.model.facts import Component, Host, JsonValue, Layer, Strength, Unseen


class Severity(str, Enum):
    """The severity of a finding. ``unknown`` is something that had to be checked and could not be."""

    ERROR = "error"
    WARNING = "warning"
    UNKNOWN = "unknown"
    INFO = "info"


class Kept(str, Enum):
    """Whether a contract between two components is fulfilled; ``limited`` works, with a stated restriction."""

    OK = "ok"
    LIMITED = "limited"
    BROKEN = "broken"
    UNKNOWN = "unknown"


class Confidence(str, Enum):
    """How certain the cause of a finding is."""

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
    """What the machine is for. Severity depends on it: a missing compiler matters only to those who build."""

    TRAIN = "train"
    INFER = "infer"
    BUILD = "build"
    ANY = "any"


@record
class Because:
    """One fact that a finding rests on, where it was read, and how it was obtained."""

    component: str
    fact: str
    value: JsonValue = field(hash=False)  # a table if a third-party report has one
    source: str = ""
    strength: Strength = Strength.MEASURED


@record
class Row:
    """The row of the compatibility matrix that a conclusion rests on."""

    table: str
    text: str
    source: str
    checked: str


@record
class Fix:
    """What to do: a sentence, the commands, what they need, and the command that checks the result."""

    text: str
    commands: tuple[Command, ...] = ()
    needs_root: bool = False
    needs_reboot: bool = False
    verify: Command | None = None

    def __post_init__(self) -> None:
        """Add to the text the manual steps, the alternatives, and what each blank is for.

        If a restart is needed, the text ends with it.
        """
        typed, by_hand = apart(self.commands)
        if self.needs_reboot and REBOOT not in typed and any(one.startswith("sudo ") for one in typed):
            typed = (*typed, REBOOT)
        filled = [one for one in blanks(self.commands) if one not in self.text]
        said = (self.text, by_hand, f"Here {', '.join(filled)}." if filled else "")
        object.__setattr__(self, "text", " ".join(filter(None, said)))
        object.__setattr__(self, "commands", typed)


@record
class Finding:
    """One conclusion. ``key`` is unique (id, or id@instance); ``caused_by`` is the key of its cause."""

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
        """The unique name of the finding in this report."""
        return f"{self.id}@{self.instance}" if self.instance else self.id


@record
class Similar:
    """A similar recorded machine: the thread that describes it, and the finding that it had."""

    source: str
    cause: str


@record
class Decide:
    """How to decide whether a candidate is the cause: a sentence, and the commands whose output shows it."""

    text: str
    commands: tuple[Command, ...] = ()


@record
class Candidate:
    """A likely cause without proof: a finding's id, its share of the total likelihood, and what supports it."""

    id: str
    title: str
    weight: float
    because: tuple[Because, ...]
    similar: tuple[Similar, ...]
    decide: Decide


@record
class Contract:
    """What one component (in one Python, its ``environment``) needs from another, and whether it gets it.

    ``finding`` is the key of the finding that a broken contract yields.
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


@record
class Verdict:
    """The verdict in one word, its causes (most likely first), and what works in the chosen Python."""

    status: Health
    root_causes: tuple[str, ...] = ()
    root_keys: tuple[str, ...] = ()
    works: Mapping[str, bool | None] = field(default_factory=dict)


@record
class EnvironmentVerdict:
    """What works in one Python: component id to true, false, or null if unknown."""

    python: str
    kind: str
    version: str | None = None
    works: Mapping[str, bool | None] = field(default_factory=dict)


@record
class Tool:
    """The version of gpustack that made this, and of its matrix."""

    name: str
    version: str
    matrix_date: str


@record
class Report:
    """The doctor's report on one machine."""

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
