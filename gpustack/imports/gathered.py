"""Facts as they come together from texts: what is told first of a thing stands, what is told later adds to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from gpustack.model.facts import (
    Component,
    Environment,
    Facts,
    Host,
    Instance,
    JsonValue,
    Layer,
    Status,
    Strength,
    Unseen,
)

if TYPE_CHECKING:
    from gpustack.model.facts import Message

IN_WORDS = "(in words)"  # how the source of what people wrote themselves ends
NAMED = ("version", "build", "path")
# Facts that one machine has one of, and that do not change while it runs.
SETTLED = frozenset({"version", "version_loaded", "version_on_disk", "flavour", "cuda_version", "driver_cuda"})
HERE = ""  # the key of the one copy of a thing that has no name of its own
# Layer and maker of what is no system of the stack: (id, layer, vendor).
OTHERS: Mapping[str, tuple[Layer, str]] = {
    "python": (Layer.ENVIRONMENT, "any"),
    "packages": (Layer.ENVIRONMENT, "any"),
    "environment": (Layer.ENVIRONMENT, "any"),
    "user": (Layer.ENVIRONMENT, "any"),
    "gcc": (Layer.COMPILER, "any"),
    "clang": (Layer.COMPILER, "any"),
    "docker": (Layer.CONTAINER, "any"),
    "container": (Layer.CONTAINER, "any"),
    "pci-display": (Layer.HARDWARE, "any"),
    "kernel-log": (Layer.KERNEL, "any"),
    "nouveau": (Layer.KERNEL_MODULE, "any"),
    "nvml": (Layer.DRIVER, "nvidia"),
}


class Learnt(NamedTuple):
    """A fact's value, how it was learnt, and where."""

    value: JsonValue
    strength: Strength
    source: str

    def differs(self, other: Learnt) -> bool:
        """Return whether two values cannot both hold; one may be the other cut short (580 and 580.95.05)."""
        one, two = str(self.value), str(other.value)
        return not (one.startswith(two) or two.startswith(one))


def conflict(component: str, name: str, used: Learnt, other: Learnt) -> Unseen:
    """Return that two sources disagree on a fact, and which of them is used."""
    why = f"{other.source} has {other.value} ({other.strength.value})"
    why += f"; {used.source} has {used.value} ({used.strength.value}), which is stronger evidence and is used"
    return Unseen(what=f"{component} {name}", why=why)


@dataclass
class Told:
    """One copy of a component as told so far."""

    source: str
    status: Status = Status.PRESENT
    version: str | None = None
    build: str | None = None
    path: str | None = None
    facts: dict[str, JsonValue] = field(default_factory=dict)
    strengths: dict[str, Strength] = field(default_factory=dict)

    def get(self, name: str) -> Learnt | None:
        """Return a fact with how it was learnt, or None where it is not known."""
        value = getattr(self, name) if name in NAMED else self.facts.get(name)
        return None if value is None else Learnt(value, self.strengths.get(name, Strength.PRINTED), self.source)

    def put(self, name: str, learnt: Learnt) -> None:
        """Keep a fact."""
        self.strengths[name] = learnt.strength
        if name in NAMED:
            setattr(self, name, learnt.value)
        else:
            self.facts[name] = learnt.value


@dataclass
class Gathered:
    """What has been told so far, and of the machine as a whole.

    ``places`` are layer and maker of the stack's systems.
    """

    places: Mapping[str, tuple[Layer, str]] = field(default_factory=dict)
    host: dict[str, str] = field(default_factory=dict)
    copies: dict[str, dict[str, Told]] = field(default_factory=dict)
    messages: tuple[Message, ...] = ()
    conflicts: list[Unseen] = field(default_factory=list)
    strength: Strength = Strength.PRINTED  # of what is told now

    def tell(
        self,
        component: str,
        source: str,
        key: str = HERE,
        *,
        version: str | None = None,
        build: str | None = None,
        path: str | None = None,
        status: Status = Status.PRESENT,
        also: Mapping[str, JsonValue] | None = None,
        **facts: JsonValue,
    ) -> None:
        """Take in what is told of one copy of a component; None changes nothing, nor does what is known as surely.

        ``also`` are facts whose names are no Python words.
        """
        held = self.copies.setdefault(component, {}).setdefault(key, Told(source, status))
        strength = Strength.STATED if source.endswith(IN_WORDS) else self.strength
        named = {"version": version or None, "build": build or None, "path": path or None}
        for name, value in {**named, **facts, **(also or {})}.items():
            known, new = held.get(name), Learnt(value, strength, source)
            # A failure is no weaker than what works elsewhere: a container's is told beside its machine's.
            stronger = known is not None and held.status is status and strength.beats(known.strength)
            if value is not None and (known is None or stronger):
                held.put(name, new)
            if value is not None and known and name in SETTLED and known.differs(new):
                self._disagree(component, name, *((new, known) if stronger else (known, new)))
        if source not in held.source.split(", "):
            held.source += f", {source}"

    def _disagree(self, component: str, name: str, used: Learnt, other: Learnt) -> None:
        """Note that a tool printed what no message agrees with; people speak of other machines and times as well."""
        if used.strength is Strength.PRINTED and other.strength is Strength.MESSAGE:
            self.conflicts.append(conflict(component, name, used, other))

    def machine(self, **said: str | None) -> None:
        """Take in what is told of the machine: hostname, os, kernel, machine, virtualisation, container, wsl."""
        for name, value in said.items():
            if value:
                self.host.setdefault(name, value)

    def knows(self, component: str) -> bool:
        """Tell whether anything was told of a component."""
        return component in self.copies

    def version(self, component: str) -> str | None:
        """Give the version of the first copy that has one."""
        return next((told.version for told in self.copies.get(component, {}).values() if told.version), None)

    def fact(self, component: str, name: str) -> JsonValue:
        """Give a fact of the first copy that has it."""
        held = self.copies.get(component, {}).values()
        return next((told.facts[name] for told in held if told.facts.get(name) is not None), None)

    @property
    def count(self) -> int:
        """How much was told so far: it grows with whatever is taken in."""
        told = sum(len(one.facts) + len(one.source) + 1 for held in self.copies.values() for one in held.values())
        return told + len(self.host) + len(self.messages)

    def facts(self) -> Facts:
        """Give the facts of the machine that all was told of."""
        python = self.version("python")
        environments = (Environment(python="python", kind="", version=python),) if python else ()
        return Facts(
            taken="",
            host=Host(
                hostname=self.host.get("hostname"),
                os=self.host.get("os"),
                kernel=self.host.get("kernel"),
                machine=self.host.get("machine"),
                virtualisation=self.host.get("virtualisation"),
                container=self.host.get("container"),
                wsl=self.host.get("wsl") == "yes",
            ),
            components=tuple(self._component(name, held) for name, held in self.copies.items()),
            environments=environments,
            not_seen=tuple(dict.fromkeys(self.conflicts)),
            messages=self.messages,
        )

    def _component(self, name: str, held: Mapping[str, Told]) -> Component:
        layer, vendor = self.places.get(name) or OTHERS.get(name) or (Layer.LIBRARY, "any")
        first = next(iter(held.values()))
        sources = dict.fromkeys(part for told in held.values() for part in told.source.split(", "))
        return Component(
            id=name,
            layer=layer,
            vendor=vendor,
            status=first.status,
            version=first.version,
            build=first.build,
            path=first.path,
            facts=first.facts,
            source=", ".join(sources),
            instances=tuple(
                Instance(
                    key=key or name,
                    version=told.version,
                    build=told.build,
                    path=told.path,
                    status=told.status,
                    facts=told.facts,
                    strengths={
                        name: told.strengths.get(name, Strength.PRINTED) for name in (*_named(told), *told.facts)
                    },
                )
                for key, told in held.items()
                if told.status in {Status.PRESENT, Status.FAILED}
            ),
        )


def _named(told: Told) -> tuple[str, ...]:
    return tuple(name for name in NAMED if getattr(told, name) is not None)
