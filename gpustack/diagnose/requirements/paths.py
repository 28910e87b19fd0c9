"""Facts by their paths, and whether the conditions of a row hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    import re
    from collections.abc import Iterator

    from gpustack.diagnose.requirements.subjects import Machine, Subject
    from gpustack.matrix.subjects.health import Condition, Duty, Path
    from gpustack.model.facts import JsonValue


Found: TypeAlias = "list[tuple[str, JsonValue]]"
MOST = 1e300  # no float is made of more


class Member(NamedTuple):
    """One value that a path leads to; ``name`` is that of the member, or of the fact where there is one alone."""

    name: str
    value: JsonValue


def members(held: JsonValue, path: Path, known: dict[object, Found] | None = None) -> list[Member]:
    """Return each value that a path leads to, null ones too; none where a name on the way is missing.

    ``known`` keeps the members of lists that many paths go through, while what holds them is there.
    """
    first = path.listed
    if not first or known is None:
        return [Member(name, value) for name, value in _walked([(path.text, held)], path, 0, len(path.names))]
    key = (id(held), path.names[:first])
    if key not in known:
        known[key] = _walked([(path.text, held)], path, 0, first)
    return [Member(name, value) for name, value in _walked(known[key], path, first, len(path.names))]


def _walked(found: Found, path: Path, start: int, end: int) -> Found:
    for step, each in zip(path.names[start:end], path.each[start:end], strict=True):
        found = [(name, one[step]) for name, one in found if isinstance(one, (dict, Mapping)) and step in one]
        if each:
            found = [part for _, one in found for part in _parts(one)]
    return found


def _parts(held: JsonValue) -> Iterator[tuple[str, JsonValue]]:
    """Yield the members of a list or a table with their names: that of a link is its number."""
    if isinstance(held, tuple):
        for place, one in enumerate(held):
            link = one.get("link") if isinstance(one, dict) else None
            yield str(place) if link is None else f"link {link}", one
    elif isinstance(held, Mapping):
        yield from held.items()


def values(held: JsonValue, path: Path) -> tuple[JsonValue, ...]:
    """Return the values that a path leads to and that are known."""
    return tuple(one.value for one in members(held, path) if one.value is not None)


def figure(value: JsonValue) -> float | None:
    """Return a number, or None where the value is none."""
    return (
        float(value) if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < MOST else None
    )


def applies(duty: Duty, subject: Subject, machine: Machine) -> bool:
    """Return whether a row is about this subject; what takes longest to find out is asked last."""
    if duty.several and max(len(machine.subjects(name)) for name in ("gpu", "pci-display")) == 1:
        return False  # one GPU has nobody to talk to
    if not all(holds(one, subject, machine) for one in duty.when):
        return False
    if duty.either and not any(holds(one, subject, machine) for one in duty.either):
        return False
    return not duty.gpus or machine.is_of(subject, duty.gpus)


def holds(condition: Condition, subject: Subject, machine: Machine) -> bool:
    """Return whether a condition holds; a fact that is missing is none of those that are asked for."""
    if condition.place == "machine":
        seen = machine.component(condition.path.text)
        return len(seen.instances if seen else ()) == condition.count
    held = {"fact": subject.held, "gpu": subject.gpu}.get(condition.place)
    known = values(machine.host() if held is None else held, condition.path)
    positive = (
        condition.is_ is None or any(same(one, condition.is_) for one in known),
        condition.like is None or any(matches(condition.like, one) for one in known),
        condition.above is None or any((figure(one) or 0.0) > condition.above for one in known),
        condition.known is None or condition.known == (_read(condition, subject) if not known else True),
        condition.count is None or condition.count == len(known),
    )
    negative = (
        condition.isnt is None or not any(same(one, condition.isnt) for one in known),
        condition.unlike is None or not any(matches(condition.unlike, one) for one in known),
    )
    return all(positive) and all(negative)


def _read(condition: Condition, subject: Subject) -> bool:
    """Return whether a fact was read that is empty: a list without members is known, null is not."""
    held = {"fact": subject.held, "gpu": subject.gpu}.get(condition.place)
    plain = condition.path.names
    at: JsonValue = held
    for name in plain:
        at = at.get(name) if isinstance(at, Mapping) else None
    return at is not None


def same(value: JsonValue, wanted: tuple[JsonValue, ...]) -> bool:
    """Return whether a value is one of these; true is not 1."""
    return any(value == one and isinstance(value, bool) == isinstance(one, bool) for one in wanted)


def matches(pattern: re.Pattern[str], value: JsonValue) -> bool:
    """Return whether a text has a pattern."""
    return isinstance(value, str) and pattern.search(value[:500]) is not None
