"""What messages of programs and the kernel say about the machine besides the fault: releases, GPUs, codes."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from gpustack.imports import gathered, joins
from gpustack.imports.gathered import HERE, IN_WORDS, NAMED, Gathered
from gpustack.imports.messages import Found
from gpustack.matrix.subjects.messages import STATUS, patterns
from gpustack.model.facts import Status, Strength

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from gpustack.matrix import Matrix
    from gpustack.matrix.subjects.messages import Pattern
    from gpustack.model.facts import Facts, JsonValue, Message

# Kinds of messages in people's own words: such a line may say more, and is also read as words.
BY_PEOPLE = frozenset(
    {
        *("container-told", "docker-snap", "docker-desktop", "daemon-reload", "host-smi-works", "wsl-smi-works"),
        *("gpu-count", "no-such-gpu", "mig-enabled-said", "mig-several-said", "works-as-root", "user-fails"),
        *("linux-driver-package", "linux-driver-said", "pip-torch-plain"),
        *("fabric-manager-version", "suspend", "hang", "setvars", "driver-older-than-needed"),
        *(
            "driver-told",
            "libcuda-file",
            "libcuda-place",
            "ldconfig-libcuda",
            "docker-run",
            "runfile",
            "compat-folder",
            "ld-library-path",
            "ld-library-path-added",
            "ld-library-path-said",
        ),
    }
)


def told(message: Message) -> bool:
    """Return whether a message is in people's own words."""
    return message.kind in BY_PEOPLE or message.kind.endswith(("-said", "-told", "-named", "-version"))


def read(found: Sequence[Found], into: Gathered, matrix: Matrix) -> None:
    """Read messages and the facts that they imply."""
    taken = [
        one._replace(message=replace(one.message, strength=Strength.STATED)) if told(one.message) else one
        for one in found
    ]
    messages = tuple(one.message for one in taken)
    into.messages = (*into.messages, *messages)
    for one in taken:
        into.strength = one.message.strength
        for (component, copy), facts in _implied(one, matrix).items():
            _take(component, copy, facts, one.message, into)
    into.strength = Strength.MESSAGE
    xids: list[JsonValue] = [
        _xid(one) for one in messages if one.kind == "xid" and one.values.get("code", "").isdecimal()
    ]
    kernel = [one.line for one in messages if one.kind in KERNEL]
    if xids or kernel:
        into.tell("kernel-log", messages[0].origin)
        log = into.copies["kernel-log"][HERE].facts
        known = log.get("xids")
        log["xids"] = (*(known if isinstance(known, tuple) else ()), *xids)
    into.strength = Strength.PRINTED


def implied(facts: Facts, matrix: Matrix) -> Facts:
    """Return the facts that a machine's messages imply, each from the row of its kind that matches its line."""
    into = Gathered(places={name: (one.layer, one.vendor) for name, one in matrix.systems.items()})
    into.machine(container=facts.host.container, wsl="yes" if facts.host.wsl else None)
    rows: dict[str, list[Pattern]] = {one.kind: [] for one in facts.messages}
    for row in patterns(matrix) if rows else ():
        if row.kind in rows:
            rows[row.kind].append(row)
    found = ((one, _row(one, rows[one.kind])) for one in facts.messages)
    read([Found(one, row, whole=True) for one, row in found if row], into, matrix)
    joins.join(into, matrix)
    return into.facts()


def _row(message: Message, rows: Sequence[Pattern]) -> Pattern | None:
    """Return the row that a message was recognised by: the one of its kind matching its line, or the only one."""
    fitting = (row for row in rows if row.compiled().search(message.line))
    return next(fitting, rows[0] if len(rows) == 1 else None)


def _implied(found: Found, matrix: Matrix) -> dict[tuple[str, str], dict[str, JsonValue]]:
    """Return the facts that a message implies, by component and copy."""
    held: dict[tuple[str, str], dict[str, JsonValue]] = {}
    for implied in found.row.facts:
        for component, copy, path, value in implied.filled(found.message.values, matrix):
            held.setdefault((component, copy), {})[path] = value
    return held


def _take(component: str, copy: str, facts: dict[str, JsonValue], message: Message, into: Gathered) -> None:
    """Store what a message implies about one copy; a failure is ignored if the copy is known to work."""
    origin = f"{message.origin} {IN_WORDS}" if told(message) else message.origin
    if component == "gpu":
        copy = _named_gpu(origin, str(facts.pop("name", "")), into)
    status = Status(facts.pop(STATUS, Status.PRESENT))
    if status is Status.FAILED and into.knows(component):
        return
    named = {name: str(facts.pop(name)) for name in NAMED if name in facts}
    into.tell(component, origin, copy, status=status, also=nested(facts), **named)


def _named_gpu(origin: str, said: str, into: Gathered) -> str:
    """Read a GPU's name, merge it with the GPU of that name, and return its key."""
    name = re.sub(r"^(?:.*?(?:Warning|Error): *|.*\bYour )", "", said).strip()
    same = (key for key, held in into.copies.get("gpu", {}).items() if str(held.facts.get("name")).endswith(name))
    key = next(same, None) or str(len(into.copies.get("gpu", {})))
    gathered.gpu(origin, name, into, key)
    return key


def nested(facts: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return facts by path as nested tables."""
    held: dict[str, Any] = {}
    for path, value in facts.items():
        *above, name = path.split(".")
        place = held
        for one in above:
            place = place.setdefault(one, {})
        place[name] = value
    return held


def _xid(message: Message) -> JsonValue:
    pci = re.sub(r"^PCI:", "", message.values.get("pci", "")).lower()
    pci = pci if "." in pci else f"{pci}.0"
    text = message.values.get("text", "")
    pid = re.search(r"pid='?(\d{1,9})", text)
    return {"pci": pci, "code": int(message.values["code"][:9]), "text": text, "pid": int(pid[1]) if pid else None}


KERNEL = frozenset({"probe-not-called", "open-module-unsupported", "no-nvidia-gpu", "rminit-failed", "api-mismatch"})
