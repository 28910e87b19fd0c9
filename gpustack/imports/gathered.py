"""Facts as they come together from texts: what is told first of a thing stands, what is told later adds to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gpustack.model.facts import Component, Environment, Facts, Host, Instance, JsonValue, Layer, Status

if TYPE_CHECKING:
    from gpustack.model.facts import Message

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


@dataclass
class Told:
    """One copy of a component as told so far."""

    source: str
    status: Status = Status.PRESENT
    version: str | None = None
    build: str | None = None
    path: str | None = None
    facts: dict[str, JsonValue] = field(default_factory=dict)


@dataclass
class Gathered:
    """What has been told so far, and of the machine as a whole.

    ``places`` are layer and maker of the stack's systems.
    """

    places: Mapping[str, tuple[Layer, str]] = field(default_factory=dict)
    host: dict[str, str] = field(default_factory=dict)
    copies: dict[str, dict[str, Told]] = field(default_factory=dict)
    messages: tuple[Message, ...] = ()

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
        """Take in what is told of one copy of a component; None and what is already known change nothing.

        ``also`` are facts whose names are no Python words.
        """
        held = self.copies.setdefault(component, {}).setdefault(key, Told(source, status))
        if source not in held.source.split(", "):
            held.source += f", {source}"
        held.version = held.version or version
        held.build = held.build or build
        held.path = held.path or path
        for name, value in {**facts, **(also or {})}.items():
            if value is not None and held.facts.get(name) is None:
                held.facts[name] = value

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
                )
                for key, told in held.items()
                if told.status in {Status.PRESENT, Status.FAILED}
            ),
        )
