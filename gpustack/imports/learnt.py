"""A fact with how it was obtained, and disagreements between two sources."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gpustack.model.facts import Unseen

if TYPE_CHECKING:
    from gpustack.model.facts import JsonValue, Strength

# Facts with one value per machine that do not change while it runs.
SETTLED = frozenset({"version", "version_loaded", "version_on_disk", "flavour", "cuda_version", "driver_cuda"})


class Learnt(NamedTuple):
    """A fact's value, how it was obtained, and where."""

    value: JsonValue
    strength: Strength
    source: str

    def differs(self, other: Learnt) -> bool:
        """Return whether two values are incompatible; one may be the other cut short (580 and 580.95.05)."""
        one, two = str(self.value), str(other.value)
        return not (one.startswith(two) or two.startswith(one))


def conflict(component: str, name: str, used: Learnt, other: Learnt) -> Unseen:
    """Return that two sources disagree on a fact, and which of them is used."""
    why = f"{other.source} has {other.value} ({other.strength.value})"
    why += f"; {used.source} has {used.value} ({used.strength.value}), which is stronger evidence and is used"
    return Unseen(what=f"{component} {name}", why=why)
