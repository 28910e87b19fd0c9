"""What readers found, collected by component, and what each text says about the platform."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gpustack.imports.own_reports import SETTLED, Learnt, conflict
from gpustack.matrix.subjects.gpus import maker
from gpustack.model.facts import Component, Environment, Facts, Host, Instance, JsonValue, Layer, Status, Strength

if TYPE_CHECKING:
    from gpustack.model.facts import Message, Unseen

IN_WORDS = "(in words)"  # the suffix of the source of people's own words
NAMED = ("version", "build", "path")
HERE = ""  # the key of the only copy of an unnamed thing
# Layer and vendor of components outside the stack: (id, layer, vendor).
OTHERS: Mapping[str, tuple[Layer, str]] = {
    "python": (Layer.ENVIRONMENT, "any"),
    "packages": (Layer.ENVIRONMENT, "any"),
    "environment": (Layer.ENVIRONMENT, "any"),
    "user": (Layer.ENVIRONMENT, "any"),
    "gcc": (Layer.COMPILER, "any"),
    "clang": (Layer.COMPILER, "any"),
    "docker": (Layer.CONTAINER, "any"),
    **dict.fromkeys(("container", "image"), (Layer.CONTAINER, "any")),
    "pci-display": (Layer.HARDWARE, "any"),
    "kernel-log": (Layer.KERNEL, "any"),
    "nouveau": (Layer.KERNEL_MODULE, "any"),
    "nvml": (Layer.DRIVER, "nvidia"),
}
PLATFORM = re.compile(
    r"(?P<system>Linux|Windows|macOS|Darwin)-(?P<release>[\w.+~]{1,80}(?:-[\w.+~]{1,80}){0,12}?)(?:-(?P<machine>x86_64"
    r"|aarch64|arm64|ppc64le|AMD64|SP\d))?"
    r"(?:-with-(?P<libc>glibc|musl|debian|Ubuntu|centos|redhat)[-]?(?P<libc_version>[\d.]{1,20})?(?:[^\s\d.]\S*)?)?$"
)
NAMES = (
    *(("ubuntu", "ubuntu"), ("debian", "debian"), ("linux ?mint", "linuxmint"), ("pop!?[ _]?os", "pop")),
    *(("fedora", "fedora"), ("centos", "centos"), ("red hat", "rhel"), ("rhel", "rhel"), ("rocky", "rocky")),
    *(("alma ?linux", "almalinux"), ("oracle linux", "ol"), ("amazon linux", "amzn"), ("arch linux", "arch")),
    *(("manjaro", "manjaro"), ("kali", "kali"), ("endeavouros", "endeavouros"), ("cachyos", "cachyos")),
    *(("opensuse leap", "opensuse-leap"), ("gentoo", "gentoo"), ("opensuse tumbleweed", "opensuse-tumbleweed")),
    *(("opensuse", "opensuse"), ("sles|suse", "sles"), ("nixos", "nixos"), ("tencentos", "tencentos")),
    *(("proxmox", "debian"), ("truenas", "debian")),
)


@dataclass
class Told:
    """What is known so far about one copy of a component."""

    source: str
    status: Status = Status.PRESENT
    version: str | None = None
    build: str | None = None
    path: str | None = None
    facts: dict[str, JsonValue] = field(default_factory=dict)
    strengths: dict[str, Strength] = field(default_factory=dict)

    def get(self, name: str) -> Learnt | None:
        """Return a fact with how it was obtained, or None if it is unknown."""
        value = getattr(self, name) if name in NAMED else self.facts.get(name)
        return None if value is None else Learnt(value, self.strengths.get(name, Strength.PRINTED), self.source)

    def put(self, name: str, learnt: Learnt) -> None:
        """Store a fact."""
        self.strengths[name] = learnt.strength
        if name in NAMED:
            setattr(self, name, learnt.value)
        else:
            self.facts[name] = learnt.value


@dataclass
class Gathered:
    """Everything known so far, including about the machine as a whole.

    ``places`` are the layer and vendor of the stack's systems.
    """

    places: Mapping[str, tuple[Layer, str]] = field(default_factory=dict)
    host: dict[str, str] = field(default_factory=dict)
    copies: dict[str, dict[str, Told]] = field(default_factory=dict)
    messages: tuple[Message, ...] = ()
    words: set[str] = field(default_factory=set)
    conflicts: list[Unseen] = field(default_factory=list)
    strength: Strength = Strength.PRINTED  # of what is being read

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
        """Store what is known about one copy of a component; None and what is already as certain change nothing.

        ``also`` are facts whose names are not Python identifiers.
        """
        held = self.copies.setdefault(component, {}).setdefault(key, Told(source, status))
        strength = Strength.STATED if source.endswith(IN_WORDS) else self.strength
        named = {"version": version or None, "build": build or None, "path": path or None}
        for name, value in {**named, **facts, **(also or {})}.items():
            known, new = held.get(name), Learnt(value, strength, source)
            # A failure weighs as much as success elsewhere: a container's is kept beside its machine's.
            stronger = known is not None and held.status is status and strength.beats(known.strength)
            if value is not None and (known is None or stronger):
                held.put(name, new)
            if value is not None and known and name in SETTLED and known.differs(new):
                self._disagree(component, name, *((new, known) if stronger else (known, new)))
        if source not in held.source.split(", "):
            held.source += f", {source}"

    def _disagree(self, component: str, name: str, used: Learnt, other: Learnt) -> None:
        """Note that a tool's output disagrees with all messages; people also speak of other machines and times."""
        if used.strength is Strength.PRINTED and other.strength is Strength.MESSAGE:
            self.conflicts.append(conflict(component, name, used, other))

    def machine(self, **said: str | None) -> None:
        """Store what is known about the machine: hostname, os, kernel, machine, virtualisation, container, wsl."""
        for name, value in said.items():
            if value:
                self.host.setdefault(name, value)

    def knows(self, component: str) -> bool:
        """Return whether anything is known about a component."""
        return component in self.copies

    def version(self, component: str) -> str | None:
        """Return the version of the first copy that has one."""
        return next((told.version for told in self.copies.get(component, {}).values() if told.version), None)

    def fact(self, component: str, name: str) -> JsonValue:
        """Return a fact of the first copy that has it."""
        held = self.copies.get(component, {}).values()
        return next((told.facts[name] for told in held if told.facts.get(name) is not None), None)

    @property
    def count(self) -> int:
        """How much is known so far: it grows with each stored fact."""
        told = sum(len(one.facts) + len(one.source) + 1 for held in self.copies.values() for one in held.values())
        return told + len(self.host) + len(self.messages) + len(self.words)

    def facts(self) -> Facts:
        """Return the facts of the machine that all of it describes."""
        python = self.version("python")
        environments = (Environment(python="python", version=python),) if python else ()
        return Facts(
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
            words=tuple(sorted(self.words)),
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


def named(said: str) -> bool:
    """Return whether a text names a known operating system."""
    return (
        bool(re.search(r"windows|macos|darwin|\bwin[ _-]?(?:7|8|10|11)\b", said, re.IGNORECASE))
        or _id(said) is not None
    )


def _id(said: str) -> str | None:
    low = said.lower()
    return next((known for words, known in NAMES if re.search(rf"\b(?:{words})(?![a-z])", low)), None)


def system(origin: str, said: str, into: Gathered) -> None:
    """Store the name of an operating system, such as "Ubuntu 22.04.4 LTS (x86_64)"."""
    if not said:
        return
    plain = re.sub(r" \((?:x86_64|aarch64|arm64|AMD64|64-bit)\)", "", said.partition(";")[0])[:120]
    plain = re.sub(r"^(?:GNU/)?Linux (?=[A-Z])", "", plain)
    plain = re.sub(r"^([Uu]buntu) ?(\d\d)(04|10)$", r"\1 \2.\3", plain)  # as NVIDIA's repositories are named
    plain = re.sub(r"^(?:Microsoft )?[Ww]in(?:dows)?[ _-]?(?=1[01]\b|[78]\b)", "Windows ", plain)
    if into.host.get("os") == "Windows" and "windows" in plain.lower():
        into.host["os"] = plain
    into.machine(os=plain)
    machine = re.search(r"\b(x86_64|aarch64|arm64)\b", said)
    into.machine(machine=machine[1] if machine else None)
    name = _id(said)
    number = re.search(r"\d+(?:\.\d+)?", plain)
    if name:
        into.tell("linux-kernel", origin, os_id=name, os=said, os_version=number[0] if number else None)


def kernel(origin: str, release: str, into: Gathered) -> None:
    """Store the release of the running kernel."""
    into.machine(kernel=release, wsl="yes" if "microsoft" in release.lower() else None)
    into.tell("linux-kernel", origin, version=release)


def platform(origin: str, said: str, into: Gathered) -> None:
    """Store a platform as Python writes it: Linux-6.8.0-40-generic-x86_64-with-glibc2.35."""
    match = PLATFORM.match(said.strip())
    if not match:
        return
    into.machine(machine=match["machine"] if match["machine"] not in {"SP0", "SP1"} else None)
    if match["system"] == "Linux":
        kernel(origin, match["release"], into)
    else:
        release = match["release"] if match["system"] != "Windows" else match["release"].partition("-")[0]
        into.machine(os=f"{'macOS' if match['system'] != 'Windows' else 'Windows'} {release}")
    if match["libc"] == "glibc" and match["libc_version"]:
        into.tell("python", origin, glibc=match["libc_version"])


def libc(origin: str, said: str, into: Gathered) -> None:
    """Store the C library, such as glibc-2.35."""
    match = re.match(r"glibc[- ]?(\d+\.\d+)", said)
    if match:
        into.tell("python", origin, glibc=match[1])


def gpu(origin: str, said: str, into: Gathered, key: str, uuid: str | None = None) -> None:
    """Store a GPU under the name that a driver or a person uses."""
    name = re.sub(r"\((?:UUID|id|driver)[^()]{0,80}\)$", "", said.rstrip()).rstrip().strip(" .|")
    made = maker(name)
    if made == "nvidia":
        into.tell("gpu", origin, key, name=name, uuid=uuid, index=int(key) if key.isdecimal() else None)
    else:
        into.tell(f"{made}-gpu", origin, key, name=name)


def pci(said: str) -> str:
    """Return a PCI address as the kernel writes it: 0000:01:00.0."""
    low = said.lower()
    domain, _, rest = low.partition(":")
    if low.count(":") == 1:
        return f"0000:{low}"
    return f"{domain[-4:]}:{rest}" if rest.count(":") == 1 else low


def uuid(said: str | None) -> str | None:
    """Return the UUID of a GPU, or None for anything else, such as a removed one."""
    return said if said and re.match(r"(?:GPU|MIG)-(?:GPU-)?[0-9a-fA-F]{8}-", said) else None
