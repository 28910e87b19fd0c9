"""The machine as one of its Pythons sees it, and whether another one can use the GPU."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from gpustack.diagnose.machine import exercised
from gpustack.diagnose.machine.values import items, number, table, text, told
from gpustack.model.command import PATH, PYTHON, Command, for_python, sh
from gpustack.model.facts import Component, Environment, Facts, Instance, JsonValue, Layer, Status
from gpustack.model.report import Because, Confidence, Finding, Fix, Severity
from gpustack.model.versions import ComputeCapability

if TYPE_CHECKING:
    from gpustack.matrix import Matrix

    Works = Mapping[str, Mapping[str, bool | None]]


def alone(facts: Facts) -> Facts:
    """Return the facts without anything in a discovered Python; unchanged if there was none."""
    found = {one.python for one in facts.environments if one.found}
    if not found:
        return facts
    return replace(
        facts,
        components=tuple(_without(component, found) for component in facts.components),
        environments=tuple(one for one in facts.environments if not one.found),
    )


def each(facts: Facts) -> tuple[Facts, ...]:
    """Return the machine once for each of its Pythons, the chosen one first, with only that Python's messages."""
    names = [one.python for one in facts.environments]
    return tuple(_with(facts, name, {*names} - {name}) for name in names) if len(names) > 1 else (facts,)


def inside(finding: Finding, python: str) -> Finding:
    """Return a finding about a Python other than the chosen one: it names that Python, and its commands use it."""
    mark, fix = finding.instance or finding.component, finding.fix
    if python in mark:
        return finding
    if fix:
        own = partial(for_python, python=PYTHON(python))
        fix = replace(fix, commands=tuple(map(own, fix.commands)), verify=fix.verify and own(fix.verify))
    return replace(finding, instance=f"{mark}:{python}", title=f"{finding.title} (in {python})", fix=fix)


def _with(facts: Facts, python: str, others: AbstractSet[str]) -> Facts:
    elsewhere = tuple(f":{other}{exercised.RUN}" for other in others)
    return replace(
        facts,
        components=tuple(_without(component, others) for component in facts.components),
        environments=tuple(one for one in facts.environments if one.python == python),
        messages=tuple(one for one in facts.messages if not one.origin.endswith(elsewhere)),
    )


def _without(component: Component, found: AbstractSet[str]) -> Component:
    kept = tuple(copy for copy in component.instances if copy.environment not in found)
    if len(kept) == len(component.instances):
        return component
    used = next((copy for copy in kept if copy.status is Status.PRESENT), None)
    return replace(
        component,
        status=Status.PRESENT if used else kept[0].status if kept else Status.ABSENT,
        version=used.version if used else None,
        build=used.build if used else None,
        path=used.path if used else None,
        facts=used.facts if used else {},
        instances=kept,
    )


PLAIN = frozenset({"fp32", "fp64"})  # the vector lanes do this as well, so it does not prove tensor cores
BOTH_EDGES = 2


def whole(facts: Facts, matrix: Matrix) -> tuple[Component, ...]:
    """Return the components, each GPU with everything known about it; NVML's own facts are unchanged."""
    return tuple(_completed(one, facts, matrix) if one.id == "gpu" else one for one in facts.components)


def _completed(component: Component, facts: Facts, matrix: Matrix) -> Component:
    copies = tuple(replace(copy, facts={**_more(copy, facts, matrix), **copy.facts}) for copy in component.instances)
    same = next(
        (new.facts for old, new in zip(component.instances, copies, strict=True) if old.facts == component.facts), None
    )
    return replace(component, instances=copies, facts=same or component.facts)


def _more(copy: Instance, facts: Facts, matrix: Matrix) -> dict[str, JsonValue]:
    pci = text(copy.facts, "pci")
    devices = items(told(facts, "libcuda"), "devices")
    cuda = next((table(device, "attributes") for device in devices if pci and text(device, "pci") == pci), {})
    events = [event for event in items(told(facts, "kernel-log"), "xids") if pci and text(event, "pci") == pci]
    more: dict[str, JsonValue] = {
        "cuda": cuda,
        "tensor_cores": _tensor_cores(copy, matrix),
        "memory_kind": _memory(copy, cuda, matrix),
    }
    return {**{name: held for name, held in more.items() if held}, "xids": tuple(events)}


def _tensor_cores(copy: Instance, matrix: Matrix) -> Mapping[str, JsonValue]:
    capability = ComputeCapability.parse(text(copy.facts, "cc"))
    arch = matrix.arch(capability) if capability else None
    generation = arch.tensor_cores_of(text(copy.facts, "name") or "") if arch else None
    if arch is None or generation is None:
        return {}
    return {"generation": generation, "dtypes": tuple(name for name in arch.rates if name not in PLAIN)}


def _memory(copy: Instance, cuda: Mapping[str, JsonValue], matrix: Matrix) -> Mapping[str, JsonValue]:
    """Return the kind of memory, and its bandwidth in GB/s from clock and bus width (both edges of the clock)."""
    clock, bits = number(cuda, "memory_clock_khz"), number(cuda, "bus_width_bits")
    kind = matrix.memory_of(text(copy.facts, "name") or "")
    known: dict[str, JsonValue] = {"type": kind} if kind else {}
    return {**known, "bandwidth_gb_s": round(BOTH_EDGES * clock * bits / 8e6, 1)} if clock and bits else known


ID = "another-environment-works"


def among(facts: Facts, works: Works) -> Finding | None:
    """The chosen Python cannot use the GPU, but another one on this machine can.

    Each environment has its own packages: a build without GPU code, or for another CUDA version, in one of them says
    nothing about the next. Run the program with the Python that works, or make that environment the active one; or fix
    the chosen one as the findings about it say.
    """
    if not facts.environments:
        return None
    chosen, *others = facts.environments
    mine = works.get(chosen.python, {})
    able = [one for one in others if True in works.get(one.python, {}).values()]
    if not able or True in mine.values() or (mine and False not in mine.values()):
        return None
    shared = [one for one in able if any(works[one.python].get(name) for name, here in mine.items() if here is False)]
    return _finding(chosen, (shared or able)[0], len(able), works)


def _finding(chosen: Environment, other: Environment, count: int, works: Works) -> Finding:
    names = [name for name, able in works[other.python].items() if able]
    mine = [name for name, able in works.get(chosen.python, {}).items() if able is False]
    here = f"{' and '.join(mine)} cannot" if mine else "nothing is installed that would"
    return Finding(
        id=ID,
        severity=Severity.INFO,
        layer=Layer.ENVIRONMENT,
        component="python",
        title=f"{' and '.join(names)} can use the GPU in {other.python}; in the chosen Python {here}",
        detail=f"The chosen Python is {chosen.python}."
        + (f" {count} Pythons here can use the GPU." if count > 1 else ""),
        because=tuple(
            Because(component=name, fact=f"works in {one.python}", value=able, source="the contracts of its build")
            for one in (chosen, other)
            for name, able in works.get(one.python, {}).items()
        ),
        fix=Fix(
            text=f"Use that environment ({other.kind}), or fix the chosen one.",
            commands=_use(other),
            verify=sh("gpustack doctor --python {python}", python=PYTHON(other.python)),
        ),
        confidence=Confidence.LIKELY,
    )


def _use(other: Environment) -> tuple[Command, ...]:
    if other.kind == "venv" and other.prefix:
        return (sh(". {prefix}/bin/activate", prefix=PATH(other.prefix)),)
    if other.kind == "conda" and other.prefix:
        return (sh("conda activate {prefix}", prefix=PATH(other.prefix)),)
    return (sh("{python} PROGRAM.py", python=PYTHON(other.python)),)
