"""States, limits and siblings: each row compared with each subject, and what violates it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from gpustack.diagnose.machine.inventory import from_text
from gpustack.diagnose.machine.values import text
from gpustack.diagnose.requirements.paths import Member, applies, checks, figure, matches, members, same, single, values
from gpustack.matrix.subjects import health
from gpustack.matrix.subjects.health import Alike, Limit, State, shown
from gpustack.model import record
from gpustack.model.report import Kept, Row, Severity

if TYPE_CHECKING:
    from gpustack.diagnose.requirements.paths import Found
    from gpustack.diagnose.requirements.subjects import Machine, Subject
    from gpustack.model.facts import JsonValue

MOST = 60  # characters of a value in a title
SHOWN = 4  # members that a title names
UPTIME = "uptime_s"


@record
class Outcome:
    """A requirement that one subject does not meet, or that cannot be decided (``unknown``)."""

    component: str
    kind: str
    finding: str
    severity: Severity
    instance: str | None
    title: str
    needs: str
    found: str
    row: Row
    grounds: tuple[tuple[str, JsonValue], ...]
    source: str = ""
    unknown: bool = False
    sure: bool = True

    @property
    def key(self) -> str:
        """The key of its finding."""
        return f"{self.finding}@{self.instance}" if self.instance else self.finding

    @property
    def status(self) -> Kept:
        """Its status as a contract; a state that is merely worth knowing limits nothing."""
        if self.unknown:
            return Kept.UNKNOWN
        return Kept.LIMITED if self.severity is Severity.INFO else Kept.BROKEN


def broken(machine: Machine) -> Iterator[Outcome]:
    """Yield every violated expected state and limit, once for each row and subject."""
    known: dict[object, Found] = {}
    for check in checks(health.states(machine.matrix), health.limits(machine.matrix)):
        for subject in machine.subjects(check.duty.of):
            outcome = None if check.passes(subject.held, known) else _held(check.duty, subject, machine, known)
            if outcome:
                yield outcome


def _held(duty: State | Limit, subject: Subject, machine: Machine, known: dict[object, Found]) -> Outcome | None:
    """Return how a subject violates a row, or None if it does not, or the row does not apply."""
    seen = [one for one in members(subject.held, duty.path, known) if not duty.members or duty.members.search(one.name)]
    if not seen and isinstance(duty, State) and duty.known and not duty.path.listed:
        seen = [Member(duty.path.text, None)]
    if not seen:
        return None
    bound = _bound(duty, subject, machine) if isinstance(duty, Limit) else _other(duty, subject, machine)
    wrong = [one for one in seen if _wrong(duty, one.value, bound)]
    if not wrong or not applies(duty, subject, machine):
        return None
    worst = max(wrong, key=lambda one: figure(one.value) or 0.0)
    worst_value = cut(worst.value)
    words = {
        "found": worst_value,
        "bound": _shown_bound(duty, subject, bound),
        "member": worst.name,
        "members": _named(wrong, duty),
        "count": len(wrong),
        "total": len(seen),
        "gpus": ", ".join(one.mark or "" for one in machine.subjects("gpu")),
        "error": cut(text(subject.held, "error") or "no answer"),
    }
    return Outcome(
        component=duty.of,
        kind="state" if isinstance(duty, State) else "limit",
        finding=duty.finding,
        severity=duty.severity,
        instance=subject.mark,
        title=_title(subject, duty.what.format_map(words)),
        needs=f"{duty.path.text} {_wanted(duty, bound)}",
        found=_at(_named(wrong, duty) if len(seen) > 1 else worst_value, subject.mark),
        row=duty.row,
        grounds=tuple((duty.path.text.replace("[]", f"[{one.name}]", 1), one.value) for one in wrong[:SHOWN]),
        source=subject.source,
    )


def _title(subject: Subject, what: str) -> str:
    what = what.rstrip(".")  # of a line of the log
    return f"{subject.title}: {what}" if subject.title else what[:1].upper() + what[1:]


def _wrong(duty: State | Limit, value: JsonValue, bound: JsonValue) -> bool:
    if isinstance(duty, Limit):
        measured, against = figure(value), figure(bound)
        broken = measured is not None and against is not None and duty.bad.breaks(measured, against)
        return broken and (measured or 0.0) >= duty.least
    if value is None:
        return duty.known
    if duty.unlike and matches(duty.unlike, value):
        return True
    if duty.equal:
        return bound is not None and isinstance(value, bool) == isinstance(bound, bool) and value != bound
    return same(value, duty.never) or (duty.expect is not None and not same(value, duty.expect))


def _bound(duty: Limit, subject: Subject, machine: Machine) -> float | None:
    """Return a number's bound: a value, a rate over the uptime, or other facts."""
    if duty.value is None:
        least = _least(duty, subject)
        return None if least is None else least * duty.share - duty.margin
    if duty.per is None:
        return duty.value - duty.margin
    since = figure(machine.fact("linux-kernel", UPTIME))
    return duty.value * since / duty.per if since else None


def _other(duty: State, subject: Subject, machine: Machine) -> JsonValue:
    """Return the fact that another must equal, or None if unknown."""
    if duty.equal is None:
        return None
    if duty.equal_in:
        return machine.fact(duty.equal_in, duty.equal.text)
    return next(iter(values(subject.held, duty.equal)), None)


def _least(duty: Limit, subject: Subject) -> float | None:
    """Return the minimum, or maximum, of the facts that bound another, ignoring negative and null ones."""
    known = [figure(one) for path in duty.bound for one in values(subject.held, path)]
    found = [one for one in known if one is not None and one > 0]
    return (max if duty.most else min)(found, default=None)


def _shown_bound(duty: State | Limit, subject: Subject, bound: JsonValue) -> str:
    """Return a bound as a title shows it: before the margin, and another fact's state verbatim."""
    if isinstance(duty, State):
        return cut(bound)
    return _plain(duty.value if duty.value is not None else _least(duty, subject))


def _wanted(duty: State | Limit, bound: JsonValue) -> str:
    """Return a row's expectation in words."""
    if isinstance(duty, Limit):
        good = {"above": "at most", "at-least": "below", "below": "at least", "at-most": "above"}
        return f"{good[duty.bad.value]} {_plain(bound)}"
    if duty.equal:
        return cut(bound)
    if duty.expect is not None:
        return " or ".join(map(shown, duty.expect))
    if duty.never:
        return f"not {' or '.join(map(shown, duty.never))}"
    return f"without {duty.unlike.pattern}" if duty.unlike else "known"


def _named(wrong: Sequence[Member], duty: State | Limit) -> str:
    """Return the first few members that violate a row."""
    plain = isinstance(duty, State) and duty.expect == (True,)
    named = [one.name if plain else f"{one.name}: {cut(one.value)}" for one in wrong]
    more = f" and {len(named) - SHOWN} more" if len(named) > SHOWN else ""
    return ", ".join(named[:SHOWN]) + more


def siblings(machine: Machine) -> Iterator[Outcome]:
    """Yield each fact in which siblings differ: those unlike most of them, or all without a majority."""
    duties = health.alikes(machine.matrix)
    for component in dict.fromkeys(duty.of for duty in duties):
        groups: dict[tuple[JsonValue, ...], list[Subject]] = {}
        for one in machine.subjects(component):
            if one.kind:
                groups.setdefault(one.kind, []).append(one)
        for group in groups.values():
            for duty in duties if len(group) > 1 else ():
                if duty.of == component:
                    yield from _unlike(duty, group, machine)


def _unlike(duty: Alike, group: Sequence[Subject], machine: Machine) -> Iterator[Outcome]:
    said = [(one, value) for one in group if (value := single(one.held, duty.path)) is not None]
    if len(said) < len(group) and said and not from_text(machine.facts):
        yield from _unread(duty, group, said, machine)
    if all(value == said[0][1] for _, value in said):
        return  # most are alike
    said = [(one, value) for one, value in said if applies(duty, one, machine)]
    counted = Counter(shown(value) for _, value in said)
    if len(counted) < 2:  # noqa: PLR2004 - all alike
        return
    usual, times = counted.most_common(1)[0]
    if duty.usual and usual not in map(shown, duty.usual):
        return
    if times * 2 > len(said):
        yield from (_odd(duty, one, shown(value), usual, value) for one, value in said if shown(value) != usual)
    elif not duty.usual:
        yield _divided(duty, said)


def _unread(
    duty: Alike, group: Sequence[Subject], said: Sequence[tuple[Subject, JsonValue]], machine: Machine
) -> Iterator[Outcome]:
    """Yield those whose fact was asked for and is null without a reason, while most siblings have it."""
    usual = Counter(shown(value) for _, value in said).most_common(1)[0][0]
    for one in group if len(said) * 2 >= len(group) and (not duty.usual or usual in map(shown, duty.usual)) else ():
        *way, last = duty.path.names
        holder: JsonValue = one.held
        for name in way:
            holder = holder.get(name) if isinstance(holder, Mapping) else None
        asked = isinstance(holder, Mapping) and last in holder and holder[last] is None
        if asked and not text(one.held, "unavailable", duty.path.text) and applies(duty, one, machine):
            yield _odd(duty, one, "unknown", usual, None)


def _odd(duty: Alike, one: Subject, found: str, usual: str, value: JsonValue) -> Outcome:
    return Outcome(
        component=duty.of,
        kind="alike",
        finding=duty.finding,
        severity=duty.severity,
        instance=one.mark,
        title=f"{one.title}: {duty.what.format_map({'found': cut(found), 'needs': cut(usual)})}",
        needs=f"{duty.path.text} {cut(usual)}, as its siblings have",
        found=_at(cut(found), one.mark),
        row=duty.row,
        grounds=((duty.path.text, value),),
        source=one.source,
    )


def _divided(duty: Alike, said: Sequence[tuple[Subject, JsonValue]]) -> Outcome:
    """Return that siblings have two values and neither is usual: all of them are named."""
    by_value: dict[str, list[str]] = {}
    for one, value in said:
        by_value.setdefault(shown(value), []).append(one.mark or "")
    found = "; ".join(f"{cut(value)} at {', '.join(marks)}" for value, marks in by_value.items())
    first = said[0][0]
    return Outcome(
        component=duty.of,
        kind="alike",
        finding=duty.finding,
        severity=duty.severity,
        instance=None,
        title=f"{first.product or first.called}: {duty.path.text} differs between siblings: {found}"[:190],
        needs=f"{duty.path.text} equal on all siblings",
        found=found,
        row=duty.row,
        grounds=tuple((f"{duty.path.text} at {one.mark}", value) for one, value in said),
        source=first.source,
    )


def cut(value: JsonValue) -> str:
    """Return a value for a title, in one line and not too long."""
    said = " ".join(_plain(value).split())
    return said if len(said) <= MOST else f"{said[: MOST - 1]}…"


def _plain(value: JsonValue) -> str:
    """Return a value, a number without a needless fraction."""
    return f"{value:.10g}" if isinstance(value, float) else shown(value)


def _at(found: str, mark: str | None) -> str:
    return f"{found} at {mark}" if mark else found
