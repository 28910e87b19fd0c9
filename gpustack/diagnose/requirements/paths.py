"""The values that a row's path leads to, and quick checks of rows, since most rows are met at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from gpustack.matrix.subjects.health import Condition, Duty, Limit, Path, Side, State

if TYPE_CHECKING:
    import re

    from gpustack.diagnose.requirements.subjects import Machine, Subject
    from gpustack.model.facts import JsonValue

Found: TypeAlias = "list[tuple[str, JsonValue]]"
MOST = 1e300  # no float is made of more


class Member(NamedTuple):
    """One value that a path leads to; ``name`` is the member's, or the fact's if there is only one."""

    name: str
    value: JsonValue


def members(held: JsonValue, path: Path, known: dict[object, Found] | None = None) -> list[Member]:
    """Return each value that a path leads to, nulls included; none if a name on the way is missing.

    ``known`` caches the members of lists that many paths share.
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
    """Yield the members of a list or table with their names; an NVLink's name is its number."""
    if isinstance(held, tuple):
        for place, one in enumerate(held):
            link = one.get("link") if isinstance(one, dict) else None
            yield str(place) if link is None else f"link {link}", one
    elif isinstance(held, Mapping):
        yield from held.items()


def values(held: JsonValue, path: Path) -> tuple[JsonValue, ...]:
    """Return the known values that a path leads to."""
    return tuple(one.value for one in members(held, path) if one.value is not None)


def figure(value: JsonValue) -> float | None:
    """Return a number, or None if the value is not one."""
    return (
        float(value) if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < MOST else None
    )


def applies(duty: Duty, subject: Subject, machine: Machine) -> bool:
    """Return whether a row applies to this subject; the slowest conditions are checked last."""
    if duty.several and max(len(machine.subjects(name)) for name in ("gpu", "pci-display")) == 1:
        return False  # one GPU has nobody to talk to
    if not all(holds(one, subject, machine) for one in duty.when):
        return False
    if duty.either and not any(holds(one, subject, machine) for one in duty.either):
        return False
    return not duty.gpus or machine.is_of(subject, duty.gpus)


def holds(condition: Condition, subject: Subject, machine: Machine) -> bool:
    """Return whether a condition holds; a missing fact has none of the wanted values."""
    if condition.place == "machine":
        seen = machine.component(condition.path.text)
        many = len(seen.instances if seen else ())
        return many == condition.count if condition.above is None else many > condition.above
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
    """Return whether a fact that is empty was read: an empty list was, null was not."""
    held = {"fact": subject.held, "gpu": subject.gpu}.get(condition.place)
    plain = condition.path.names
    at: JsonValue = held
    for name in plain:
        at = at.get(name) if isinstance(at, Mapping) else None
    return at is not None


def same(value: JsonValue, wanted: tuple[JsonValue, ...]) -> bool:
    """Return whether a value is one of these; true differs from 1."""
    return any(value == one and isinstance(value, bool) == isinstance(one, bool) for one in wanted)


def matches(pattern: re.Pattern[str], value: JsonValue) -> bool:
    """Return whether a text contains a pattern."""
    return isinstance(value, str) and pattern.search(value[:500]) is not None


Well: TypeAlias = "Callable[[JsonValue], bool]"
TABLE = (dict, Mapping)  # the first is quick
NUMBERS = (int, float)  # by their exact types: true is no number
_ready: dict[str, tuple[tuple[State, ...], tuple[Limit, ...], tuple[Check, ...]]] = {}


class Check(NamedTuple):
    """One row with the path to its fact, and a test that its good values surely pass; None if there is no such test.

    ``ends``: the path ends at a list or table, each value of which counts.
    """

    duty: State | Limit
    way: tuple[str, ...]
    last: str
    each: int
    well: Well | None
    ends: bool = False
    bounds: tuple[Path, ...] = ()
    same: Path | None = None

    def passes(self, held: JsonValue, known: dict[object, Found]) -> bool:
        """Return whether a subject surely meets the row: each value of its fact is missing or good."""
        if self.bounds:
            return self.within(held)
        if self.same:
            value, other = single(held, self.duty.path), single(held, self.same)
            return value is None or other is None or (value == other and type(value) is type(other))
        if self.well is None:
            return False
        if self.ends:
            at = single(held, self.duty.path)
            return all(map(self.well, at.values() if isinstance(at, TABLE) else at if isinstance(at, tuple) else ()))
        if not self.each:
            for name in self.way:
                held = held.get(name) if isinstance(held, TABLE) else None
            return self.well(held.get(self.last) if isinstance(held, TABLE) else None)
        last, well = self.last, self.well
        return all(well(one[last]) for one in self.parents(held, known) if last in one)

    def within(self, held: JsonValue) -> bool:
        """Return whether a number is surely on the good side of the least of other facts of the same subject."""
        duty, value = self.duty, single(held, self.duty.path)
        known = [one for path in self.bounds if type(one := single(held, path)) in NUMBERS and one > 0]  # type: ignore[operator]  # a number
        if type(value) not in NUMBERS or not isinstance(duty, Limit):
            return True
        if not known:
            return self.bounds == duty.bound
        return not duty.bad.breaks(value, min(known) * duty.share - duty.margin)  # type: ignore[arg-type, type-var, operator]  # numbers

    def parents(self, held: JsonValue, known: dict[object, Found]) -> list[Mapping[str, JsonValue]]:
        """Return what holds the fact in each member of a list, cached."""
        key = (id(held), self.way, "parents")
        found: list[Mapping[str, JsonValue]] | None = known.get(key)  # type: ignore[assignment]  # of another kind of key
        if found is None:
            at = [held]
            for place, name in enumerate(self.way, 1):
                at = [one[name] for one in at if isinstance(one, TABLE) and name in one]
                if place == self.each:
                    at = [part for one in at for part in (one.values() if isinstance(one, TABLE) else one or ())]  # type: ignore[union-attr]  # a list
            found = [one for one in at if isinstance(one, TABLE)]
            known[key] = found  # type: ignore[assignment]  # as above
        return found


def single(held: JsonValue, path: Path) -> JsonValue:
    """Return the value of a path without lists, or None."""
    for name in path.names:
        held = held.get(name) if isinstance(held, TABLE) else None
    return held


def checks(states: tuple[State, ...], limits: tuple[Limit, ...]) -> tuple[Check, ...]:
    """Return the checks of these rows in their order, built once for the same tuples of rows."""
    ready = _ready.get("checks")
    if ready is None or ready[0] is not states or ready[1] is not limits:
        made = (*map(_of_state, states), *map(_of_limit, limits))
        ready = _ready["checks"] = (states, limits, made)
    return ready[2]


def _of_state(duty: State) -> Check:
    plain = not duty.equal_in and not duty.path.listed
    return _check(duty, _good_state(duty))._replace(same=duty.equal if plain else None)


def _of_limit(duty: Limit) -> Check:
    plain = not duty.most and not duty.members and not duty.path.listed
    bounds = tuple(path for path in duty.bound if not path.listed)
    low = duty.bad in {Side.BELOW, Side.AT_MOST}  # what is above one of its bounds is above the least of them
    return _check(duty, _good_number(duty))._replace(bounds=bounds if plain and (low or bounds == duty.bound) else ())


def _check(duty: State | Limit, well: Well | None) -> Check:
    path = duty.path
    plain, ends = sum(path.each) <= 1, path.each[-1]
    good = well if plain else None
    return Check(duty=duty, way=path.names[:-1], last=path.names[-1], each=path.listed, well=good, ends=ends)


def _good_state(duty: State) -> Well | None:
    """Return a test for values that a row expects, if it expects nothing else."""
    if duty.equal:
        return None
    wanted, unwanted, unlike, known = duty.expect, duty.never, duty.unlike, duty.known

    def well(value: JsonValue) -> bool:
        if value is None:
            return not known
        if unlike and isinstance(value, str) and unlike.search(value[:500]):
            return False
        if unwanted and value in unwanted:
            return False
        return wanted is None or any(value == one and type(value) is type(one) for one in wanted)

    return well


def _good_number(duty: Limit) -> Well | None:
    """Return a test for numbers on the good side of a row's value."""
    if duty.per:
        return lambda value: type(value) not in NUMBERS or value < duty.least  # type: ignore[operator]  # a number
    if duty.value is None or duty.margin:
        return None
    bound, high, at = duty.value, duty.bad in {Side.ABOVE, Side.AT_LEAST}, duty.bad in {Side.AT_LEAST, Side.AT_MOST}

    def well(value: JsonValue) -> bool:
        if type(value) not in NUMBERS or value < duty.least:  # type: ignore[operator]  # a number
            return True
        return not at if value == bound else (value < bound) is high  # type: ignore[operator]  # a number

    return well
