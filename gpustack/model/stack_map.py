"""The map of the whole stack: every system that gpustack knows, as it is on one machine."""

from __future__ import annotations

from dataclasses import dataclass

from gpustack.model.facts import Component, Environment, Host, Unseen
from gpustack.model.report import Contract, Tool


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
