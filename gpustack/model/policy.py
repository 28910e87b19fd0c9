"""A policy and the check against it.

A field's key in the file is its name with hyphens; its description is for the schema that editors use.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from enum import Enum

from gpustack.model import field, record
from gpustack.model.bench import BenchReport
from gpustack.model.report import Purpose, Report, Severity

PRESENT = "present"
ALSO = {"torch": "pytorch", "driver": "nvidia-driver", "cuda": "cuda-toolkit", "flash-attn": "flash-attention"}
_WORDS = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}
_SHARES = {"type": "object", "additionalProperties": {"type": "number", "exclusiveMinimum": 0}}


def _key(about: str, **schema: object) -> dict[str, object]:
    return {"about": about, "schema": schema}


@record
class Gpus:
    """How many GPUs there must be, and of which kind each must be."""

    count: int | str = field(
        default=">=1", metadata=_key('How many: a number (0 for none; more are a warning), or a range such as ">=4".')
    )
    name: tuple[str, ...] = field(
        default=(), metadata=_key('The name, or several; * stands for anything: "NVIDIA H200*".', **_WORDS)
    )
    compute_capability: str | None = field(
        default=None, metadata=_key('A range of compute capabilities, such as ">=8.0,<10".', type="string")
    )
    memory_gib: float | None = field(
        default=None, metadata=_key("The least memory of a GPU in GiB.", type="number", exclusiveMinimum=0)
    )


@record
class Ignored:
    """A finding that counts as a note until a given day, and why."""

    finding: str = field(metadata=_key("The id or the key of a finding; * stands for anything.", minLength=1))
    reason: str = field(metadata=_key("Why it may be ignored.", minLength=1))
    until: date = field(metadata=_key("The last day on which it is ignored, such as 2027-01-31."))


@record
class Raised:
    """A finding that is more severe here than elsewhere, and why."""

    finding: str = field(metadata=_key("The id or the key of a finding; * stands for anything.", minLength=1))
    reason: str = field(metadata=_key("Why it weighs more here.", minLength=1))
    to: Severity = field(default=Severity.ERROR, metadata=_key("What it becomes.", enum=["error", "warning"]))
    until: date | None = field(
        default=None,
        metadata=_key("The last day on which it is raised; without it, always.", type="string", format="date"),
    )


@record
class Figures:
    """What the quick bench must reach, by benchmark; an id takes precedence over patterns, then the first match."""

    least: Mapping[str, float] = field(
        default_factory=dict, metadata=_key("The least part of the physical limit: 0.85 is 85 %.", **_SHARES)
    )
    baseline: str | None = field(
        default=None, metadata=_key("A report of gpustack bench --save, beside the policy.", type="string")
    )
    least_of_baseline: Mapping[str, float] = field(
        default_factory=dict, metadata=_key("The least part of the figure in the baseline.", **_SHARES)
    )


@record
class InUse:
    """What others may use of the GPUs when the check begins."""

    memory_mib: int | None = field(
        default=None, metadata=_key("The most memory in use on any GPU, in MiB.", type="integer", minimum=0)
    )
    processes: tuple[str, ...] | None = field(
        default=None, metadata=_key("The processes that may be on a GPU, by name; none: [].", **_WORDS)
    )


@record
class Golden:
    """The machine in a known-good state, and what may differ from it."""

    snapshot: str | None = field(default=None, metadata=_key("A file of gpustack snapshot.", type="string"))
    may_differ: tuple[str, ...] = field(
        default=(), metadata=_key("The components that may differ; * stands for anything.", **_WORDS)
    )


@record
class Policy:
    """A policy for ``gpustack check``: a file gpustack.toml, or the table [tool.gpustack] of pyproject.toml."""

    for_: Purpose = field(default=Purpose.ANY, metadata=_key("What the machine is for."))
    components: Mapping[str, str] = field(
        default_factory=dict,
        metadata=_key(
            'What must be there: "present", or a range of versions such as ">=2.6,<3".',
            type="object",
            additionalProperties={"type": "string"},
        ),
    )
    gpus: Gpus | None = field(default=None, metadata=_key("How many GPUs, and of which kind."))
    frameworks: tuple[str, ...] = field(
        default=(), metadata=_key("The frameworks that must be able to use the GPU.", **_WORDS)
    )
    ignore: tuple[Ignored, ...] = field(default=(), metadata=_key("Findings that count as notes until a day."))
    raise_: tuple[Raised, ...] = field(default=(), metadata=_key("Findings that weigh more here."))
    bench: Figures = field(default_factory=Figures, metadata=_key("What the quick bench must reach."))
    in_use: InUse = field(default_factory=InUse, metadata=_key("What others may do on the GPUs."))
    golden: Golden = field(default_factory=Golden, metadata=_key("A snapshot that the machine must match."))


class HealthClass(str, Enum):
    """Whose fault it is, for a scheduler to act on.

    ``bad-host``: run the job elsewhere. ``bad-environment``: the change under test is at fault. ``degraded``: it works,
    with limits. ``unknown``: not enough could be checked.
    """

    OK = "ok"
    DEGRADED = "degraded"
    BAD_HOST = "bad-host"
    BAD_ENVIRONMENT = "bad-environment"
    UNKNOWN = "unknown"


@record
class Held:
    """The outcome of one rule of the policy. ``ok`` is None if it could not be checked or does not apply.

    ``place`` is the line of the policy that asks for it, as file:line; ``whose`` is the class that a failure means, or
    ``ok`` if the rule cannot fail; without ``ok`` the rule then does not apply.
    """

    rule: str
    wanted: str
    found: str
    ok: bool | None
    whose: HealthClass = HealthClass.BAD_HOST
    place: str | None = None

    @property
    def unseen(self) -> bool:
        """Return whether the rule could not be checked."""
        return self.ok is None and self.whose is not HealthClass.OK

    @property
    def warns(self) -> bool:
        """Return whether it is violated without limiting anything: more GPUs than required."""
        return self.ok is False and self.whose is HealthClass.DEGRADED


@record
class CheckReport(Report):
    """A report and a quick bench, compared with a policy; ``class_`` decides, ``why`` is the sentence behind it."""

    class_: HealthClass
    why: str = ""
    policy: tuple[Held, ...] = ()
    bench: BenchReport | None = None
