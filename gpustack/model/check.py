"""What the health check says: a report, held against a policy, with one word for whose fault it is."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from gpustack.model.bench import BenchReport
from gpustack.model.report import Report


class HealthClass(str, Enum):
    """Whose fault it is, for a scheduler to act on.

    ``bad-host``: take the job elsewhere. ``bad-environment``: the change that is being tested is at fault.
    ``degraded``: it works, with limits. ``unknown``: too little could be seen to say so.
    """

    OK = "ok"
    DEGRADED = "degraded"
    BAD_HOST = "bad-host"
    BAD_ENVIRONMENT = "bad-environment"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """One rule of the policy against what was found. ``ok`` is None where it could not be seen or does not apply.

    ``place`` is the line of the policy that asks for it, as file:line; ``whose`` the class that a failure means, and
    ``ok`` where nothing can fail: then no ``ok`` means that the rule does not apply.
    """

    rule: str
    wanted: str
    found: str
    ok: bool | None
    whose: HealthClass = HealthClass.BAD_HOST
    place: str | None = None

    @property
    def unseen(self) -> bool:
        """Tell whether nobody could see if it is kept."""
        return self.ok is None and self.whose is not HealthClass.OK


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport(Report):
    """A report and a quick bench, held against a policy; ``class_`` decides, ``why`` is the sentence behind it."""

    class_: HealthClass
    why: str = ""
    policy: tuple[Held, ...] = ()
    bench: BenchReport | None = None
