"""What ``gpustack selftest`` proved of itself on this machine."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from gpustack.model.report import Tool


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
