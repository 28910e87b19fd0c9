"""A snapshot merged with texts about its machine: facts, how each was learnt, and disagreements between sources."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gpustack.model.facts import Status, Strength, Unseen

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.model.facts import Component, Instance, JsonValue

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


MEASURED = "the snapshot"


def join(
    measured: tuple[Component, ...], told: tuple[Component, ...]
) -> tuple[tuple[Component, ...], tuple[Unseen, ...]]:
    """Return the components of both, each once, and their disagreements."""
    texts = {one.id: one for one in told}
    kept = tuple(texts.get(one.id, one) if one.status is Status.UNKNOWN else one for one in measured)
    known = {one.id for one in kept}
    conflicts = tuple(found for one in kept if one.id in texts for found in _conflicts(one, texts[one.id]))
    return (*kept, *(one for one in told if one.id not in known)), conflicts


def _conflicts(measured: Component, told: Component) -> Iterator[Unseen]:
    """Yield each definite fact of a text that no copy in the snapshot agrees with."""
    copies = [_settled(copy, MEASURED) for copy in measured.instances]
    none = [Learnt("none", Strength.MEASURED, MEASURED)] if measured.status is Status.ABSENT else []
    for copy in told.instances:
        for name, said in _settled(copy, told.source).items():
            known = [held[name] for held in copies if name in held] if measured.instances else none
            if known and all(one.differs(said) and one.strength.beats(said.strength) for one in known):
                yield conflict(measured.id, name, known[0], said)


def _settled(copy: Instance, source: str) -> dict[str, Learnt]:
    held = {"version": copy.version, **copy.facts}
    return {
        name: Learnt(value, copy.strengths.get(name, Strength.MEASURED), source)
        for name, value in held.items()
        if name in SETTLED and value is not None
    }
