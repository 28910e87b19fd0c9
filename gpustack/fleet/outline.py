"""Which facts of a recorded machine decide its verdict, so that twins are judged once; and which identify it.

Numbers that only limits read count by the outcome of their limits: 31 °C and 47 °C are the same, 88 °C is not. What no
requirement and no rule reads (``informational`` in facts.toml), times and names do not count at all. Everything else
counts unchanged, so that an overlooked fact makes two classes, never a wrong verdict.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from hashlib import blake2b
from math import inf
from typing import TYPE_CHECKING, Any

from gpustack.diagnose import rule
from gpustack.diagnose.requirements.states import UPTIME
from gpustack.matrix.facts import Node, Schema
from gpustack.matrix.subjects import health
from gpustack.model import record

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpustack.matrix import Matrix

UUIDS = tuple(
    re.compile(f"{kind}-[0-9a-fA-F][0-9a-fA-F-]{{7,}}") for kind in ("GPU", "MIG")
)  # only one prefix each, for speed
ADDRESS = re.compile(r"[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-9a-fA-F]")  # of a PCI function
INSIDE = frozenset({"seconds", "calls", "facts", "instances"})
IN_USE = ("status", "version", "build")
MOST_KEPT = 5_000  # parts in memory
MOST_OF_ONE = 64  # values of a fact; one with more differs on every machine
EVERY, EACH = "[]", "*"
DROP = object()
Value = Any  # decoded JSON


@dataclass(slots=True)
class Step:
    """One place in the facts of a component, and how its value counts.

    ``limits`` and ``above`` decide a number; ``judged``: it affects the verdict; ``stable``: it identifies the machine.
    From ``rate`` on it counts as a rate over the machine's uptime.
    """

    component: str
    path: str
    node: Node | None
    judged: bool = True
    stable: bool = True
    limits: tuple[health.Limit, ...] = ()
    above: tuple[float, ...] = ()
    fleeting: bool = False
    rate: float = inf
    below: dict[str, Step] = field(default_factory=dict)
    values: set[str] = field(default_factory=set)

    def own(self, value: str) -> str:
        """Return a value; of a list with more values than one machine ever has, the rest is dropped."""
        self.values.add(value)
        if len(self.values) > MOST_OF_ONE:
            self.stable = False
        return value

    def outcome(self, value: float, held: Mapping[str, Value]) -> Value:
        """Return the outcome of the limits for a number; the number itself if its bounds are elsewhere."""
        answers = [value > one for one in self.above]
        for limit in self.limits:
            if limit.per is not None:
                continue  # below ``least``: not a rate
            if any(any(path.each) for path in limit.bound):
                return value  # bounded by a list's members
            bound = limit.value if limit.value is not None else _bound(limit, held)
            answers.append(bound is not None and limit.bad.breaks(float(value), bound - limit.margin))
        return answers


@dataclass(frozen=True, slots=True)
class Part:
    """The outline of one copy's facts: the judged ones as text, the identifying ones by place.

    ``timed``: a number in it is a rate, so it also depends on the uptime.
    """

    judged: str
    stable: tuple[tuple[str, str], ...]
    digest: bytes
    timed: bool = False

    @classmethod
    def of(cls, judged: str, stable: tuple[tuple[str, str], ...], *, timed: bool = False) -> Part:
        """Return a part with the digest of its identifying facts."""
        return cls(judged, stable, blake2b(str(stable).encode(), digest_size=8).digest(), timed)


@record
class Outline:
    """A digest of a machine's judged facts, and its parts by place: ``component[copy]/``."""

    judged: bytes
    parts: tuple[tuple[str, Part], ...] = field(repr=False)


def _named(matrix: Matrix, kind: str) -> Iterator[tuple[str, str]]:
    """Yield the component and the path of each fact of a kind."""
    rows = (row for row in matrix.table("fleet")["facts"] if row["kind"] == kind)
    return ((row["of"], name) for row in rows for name in row["names"])


class Outlines:
    """Makes outlines from the schema and rows of one matrix; parts that many machines share are made once."""

    def __init__(self, matrix: Matrix) -> None:
        """Determine which facts are limited, and which of them rows read unchanged."""
        self.schema = Schema(matrix)
        self.identity = {name for _, name in _named(matrix, "identity")}  # what no two machines share
        self.fleeting = {*_named(matrix, "fleeting")}  # numbers that decide no verdict but by their limits
        self.limits: dict[tuple[str, str], list[health.Limit]] = {}
        self.above: dict[tuple[str, str], list[float]] = {}
        self.exact: set[tuple[str, str]] = set()
        self.roots: dict[str, Step] = {}
        self.made: dict[tuple[str, str], Part] = {}
        self.timed = False
        self.whole = bool(rule.ADDED)  # rules of plugins may read any fact unchanged
        duties: tuple[health.Duty, ...] = (*health.states(matrix), *health.limits(matrix), *health.alikes(matrix))
        for duty in duties:
            if isinstance(duty, health.Limit):
                self.limits.setdefault((duty.of, duty.path.text), []).append(duty)
                self.exact.update((duty.of, one.text) for one in duty.bound)
            elif isinstance(duty, health.Alike) or (isinstance(duty, health.State) and (duty.expect or duty.never)):
                self.exact.add((duty.of, duty.path.text))
            for one in (*duty.when, *duty.either):
                of = {"fact": duty.of, "gpu": "gpu"}.get(one.place, one.place)
                if one.is_ is not None or one.isnt is not None:
                    self.exact.add((of, one.path.text))
                elif one.above is not None:
                    self.above.setdefault((of, one.path.text), []).append(one.above)

    def of(self, text: str) -> tuple[Outline, Mapping[str, Value]]:
        """Return the outline of a snapshot, and the decoded snapshot; raises ValueError if it is not one."""
        names: dict[str, str] = {}
        for uuid in UUIDS:
            text = uuid.sub(lambda one: names.setdefault(one[0], f"uuid-{len(names)}"), text)
        said = json.loads(text)
        host = {name: held for name, held in (said.get("host") or {}).items() if name != "hostname"}
        whole = {name: said.get(name) for name in ("schema", "not_seen", "messages", "deep", "environments")}
        own = tuple((name, str(one)) for name, one in host.items() if one is not None)
        parts = [("host/", Part.of(_text([host, whole]), own))]
        for component in said.get("components") or ():
            parts += self._component(component)
        judged = blake2b(digest_size=16)
        for at, part in parts:
            judged.update(f"{at}{part.judged}".encode())
        if any(part.timed for _, part in parts):
            judged.update(f"up {self._up(said)}".encode())
        return Outline(judged=judged.digest(), parts=tuple(parts)), said

    @staticmethod
    def _up(said: Mapping[str, Value]) -> list[Value]:
        """Return the machine's uptime, according to its kernel and each copy."""
        kernels = [one for one in said.get("components") or () if one.get("id") == "linux-kernel"]
        held = [copy for one in kernels for copy in (one, *(one.get("instances") or ()))]
        return [(one.get("facts") or {}).get(UPTIME) for one in held]

    def _component(self, component: Mapping[str, Value]) -> Iterator[tuple[str, Part]]:
        name, copies = str(component.get("id")), component.get("instances") or ()
        asked = component.get("calls") or ()
        calls = [[one.get("name"), one.get("outcome"), int(one.get("seconds") or 0)] for one in asked]
        plain = {key: held for key, held in component.items() if key not in INSIDE}
        own = tuple((key, str(plain[key])) for key in IN_USE if plain.get(key) is not None)
        yield f"{name}/", Part.of(_text([plain, calls]), own)
        facts = self._part(name, component.get("facts") or {})
        yield f"{name}//", Part.of(facts.judged, ()) if copies else facts
        for number, copy in enumerate(copies):
            held = {key: one for key, one in copy.items() if key != "facts"}
            place = (copy.get("facts") or {}).get("pci") or copy.get("key")
            at = f"{name}[{place if isinstance(place, str) and ADDRESS.fullmatch(place) else number}]/"
            version = (("version", str(copy["version"])),) if copy.get("version") else ()
            yield f"{at}/", Part.of(_text(held), version)
            yield at, self._part(name, copy.get("facts") or {})

    def _part(self, component: str, facts: Mapping[str, Value]) -> Part:
        """Return the outline of the facts of one copy."""
        text = _text(facts)
        key = (component, text)
        if key not in self.made:
            if len(self.made) > MOST_KEPT:
                self.made.clear()
            stable: list[tuple[str, str]] = []
            self.timed = False
            kept = self._walked(facts, self._root(component), "", facts, stable)
            self.made[key] = Part.of(
                blake2b(_text(kept).encode(), digest_size=16).hexdigest(), tuple(stable), timed=self.timed
            )
        return self.made[key]

    def _walked(
        self, value: Value, step: Step, shown: str, held: Mapping[str, Value], stable: list[tuple[str, str]]
    ) -> Value:
        """Return the judged part of a value (DROP: nothing), and add its identifying part to ``stable``."""
        if isinstance(value, dict):
            below = {}
            for name, one in value.items():
                at = f"{shown}.{name}" if shown else name
                kept = self._walked(one, step.below.get(name) or self._next(step, name), at, held, stable)
                if kept is not DROP:
                    below[name] = kept
            return below
        if isinstance(value, list):
            inner = step.below.get(EVERY) or self._next(step, EVERY)
            each = (self._walked(one, inner, f"{shown}[{place}]", held, stable) for place, one in enumerate(value))
            return [one for one in each if one is not DROP]
        numeric = isinstance(value, int | float) and not isinstance(value, bool)
        if step.stable and value is not None and not (numeric and (step.limits or step.fleeting or not step.judged)):
            stable.append((shown, step.own(str(value))))
        if not step.judged:
            return DROP
        if numeric and value >= step.rate:
            self.timed = True
            return value
        return step.outcome(value, held) if numeric and (step.limits or step.above or step.fleeting) else value

    def _root(self, component: str) -> Step:
        if component not in self.roots:
            self.roots[component] = Step(component, "", self.schema.roots.get(component))
        return self.roots[component]

    def _next(self, step: Step, name: str) -> Step:
        """Return the place below another, according to the schema and the rows."""
        path = f"{step.path}{EVERY}" if name == EVERY else f"{step.path}.{name}" if step.path else name
        nodes = step.node.below if step.node else {}
        node = nodes.get(name) or (nodes.get(EACH) if name != EVERY else None)
        fact, key = node.fact if node else None, (step.component, path)
        exact, informational = self.whole or key in self.exact, bool(fact and fact.informational)
        step.below[name] = Step(
            component=step.component,
            path=path,
            node=node,
            judged=self.whole or (name != UPTIME and (exact or not informational)),  # that only rates read
            stable=name not in self.identity,
            limits=() if exact else tuple(self.limits.get(key, ())),
            above=() if exact else tuple(self.above.get(key, ())),
            fleeting=not exact and key in self.fleeting,
            rate=min((one.least for one in self.limits.get(key, ()) if one.per is not None), default=inf),
        )
        return step.below[name]


def _bound(limit: health.Limit, held: Mapping[str, Value]) -> float | None:
    """Return the minimum (or maximum) of the known sibling facts that bound a number."""
    found = []
    for path in limit.bound:
        at: Value = held
        for name in path.names:
            at = at.get(name) if isinstance(at, dict) else None
        if isinstance(at, int | float) and not isinstance(at, bool) and at > 0:
            found.append(float(at))
    return (max if limit.most else min)(found, default=None)


_text = json.JSONEncoder(separators=(",", ":")).encode
