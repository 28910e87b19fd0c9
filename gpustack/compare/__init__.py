"""Two reports side by side: what changed, which findings came and went, and on which change they rest."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePosixPath

from gpustack import __version__
from gpustack.model.difference import Changed, Difference, Side, Told, Turn
from gpustack.model.facts import Component, Instance, JsonValue, Layer, Status
from gpustack.model.report import Finding, Report, Severity, Tool

LAYERS = tuple(Layer)
SEVERITIES = tuple(Severity)
HERE = frozenset({Status.PRESENT, Status.FAILED})
NOT_HERE = frozenset({Status.ABSENT, Status.NOT_APPLICABLE})
FLEETING = frozenset({"gpu-processes", "kernel-log"})  # never twice the same; what is wrong in them is a finding
IN_USE = ("version", "build", "path")
PACKAGES = "packages"
VARIABLES = "environment"  # present where any variable is set
CHOSEN = "(the chosen Python)"
MINOR = re.compile(r"\bpython3\.\d+")
MOST_LETTERS = 200
SET = "variables."  # one that was set and is not any more has changed; any other fact was merely not told
# Systems of which every copy counts for itself: each GPU, and not only the first.
EACH = frozenset({"gpu", "amd-gpu", "intel-gpu", "pci-display", "nvlink", "torch-extensions", PACKAGES})
# By the names under which probes tell them; .* is all that is held below a name.
FACTS: Mapping[str, tuple[str, ...]] = {
    "gpu": (
        *("name", "cc", "vbios", "persistence", "compute_mode", "memory.total_mib", "pcie.max_generation"),
        *("pcie.max_width", "power.limit_watts", "ecc.enabled", "mig.enabled", "remap.pending", "recovery_action_name"),
    ),
    "amd-gpu": ("name", "gfx", "vbios", "driver", "memory.vram_total_mib", "power.limit_watts", "partition_mode"),
    "intel-gpu": ("device_id", "driver", "memory_bytes"),
    "pci-display": ("vendor", "device_id", "driver"),
    "nvlink": ("active", "total"),
    "linux-kernel": ("secure_boot", "lockdown", "iommu"),
    "nvidia.ko": ("loaded", "flavour", "version_loaded", "version_on_disk"),
    "nvidia-uvm.ko": ("loaded",),
    "nvidia-driver": ("libcuda", "libnvidia_ml", "module_loaded", "module_on_disk"),
    "libcuda": ("driver_cuda", "cu_init_name", "visible", "kind"),
    **dict.fromkeys(("nvidia-fabricmanager", "nvidia-persistenced"), ("running", "enabled")),
    "python": ("kind", "glibc"),
    "pytorch": ("cuda", "hip", "accelerator", "archs"),
    "jax": ("cuda", "accelerator"),
    "onnxruntime": ("cuda", "accelerator", "providers"),
    VARIABLES: ("variables.*",),
    "limits": ("shm_bytes", "memlock_bytes", "open_files"),
    "user": ("groups",),
}


def compare(before: Report, after: Report, paths: tuple[str, str] = ("", "")) -> Difference:
    """Return what is not the same about two reports, what matters first; ``paths`` are where they were read."""
    changed = changes(before, after)
    parts = {one.component for one in changed}
    # A finding is the same where only the folder of the chosen Python differs.
    then = {common(one.key, before): one for one in before.findings}
    now = {common(one.key, after): one for one in after.findings}
    told = [
        _told(then.get(key), now.get(key), parts)
        for key in dict.fromkeys((*now, *then))
        if key not in then or key not in now or then[key].severity is not now[key].severity
    ]
    findings = tuple(sorted(told, key=_weight))
    tied = (
        replace(one, matters=tuple(row.key for row in findings if one.component in row.because_of)) for one in changed
    )
    seen = {one.id for one in before.components} & {one.id for one in after.components}
    return Difference(
        tool=Tool(name="gpustack", version=__version__, matrix_date=after.tool.matrix_date),
        before=_side(before, paths[0]),
        after=_side(after, paths[1]),
        changes=tuple(sorted(tied, key=lambda one: not one.matters)),
        findings=findings,
        same=len(seen - parts),
    )


def changes(before: Report, after: Report) -> tuple[Changed, ...]:
    """Return everything that is not the same about two machines, the lowest layer first.

    What one of the two did not look at is not compared.
    """
    found: list[Changed] = []
    for what, layer in (("os", Layer.KERNEL), ("virtualisation", Layer.KERNEL), ("container", Layer.CONTAINER)):
        old, new = getattr(before.host, what), getattr(after.host, what)
        if old != new and ((old and new) or (before.taken and after.taken)):
            found.append(_changed("host", layer, what, old, new))
    then = {one.id: one for one in before.components}
    for one in after.components:
        if one.id in then and one.id not in FLEETING:
            found += _component(then[one.id], one, (before, after))
    return tuple(sorted(found, key=lambda one: LAYERS.index(one.layer)))


def _side(report: Report, path: str) -> Side:
    return Side(
        path=path,
        taken=report.taken,
        hostname=report.host.hostname,
        status=report.verdict.status,
        root_causes=report.verdict.root_causes,
    )


def _told(before: Finding | None, after: Finding | None, parts: set[str]) -> Told:
    known = [one for one in (after, before) if one]
    turn = Turn.CHANGED if len(known) > 1 else Turn.NEW if after else Turn.GONE
    rests = [name for one in known for name in (one.component, *(ground.component for ground in one.because))]
    first = known[0]
    return Told(
        **{name: getattr(first, name) for name in ("key", "id", "layer", "title", "caused_by")},
        turn=turn,
        before=before.severity if before else None,
        after=after.severity if after else None,
        because_of=tuple(name for name in dict.fromkeys(rests) if name in parts),
    )


def _weight(one: Told) -> tuple[int, bool, int]:
    gravest = min(SEVERITIES.index(severity) for severity in (one.before, one.after) if severity)
    return gravest, one.turn is Turn.GONE, LAYERS.index(one.layer)


def _component(then: Component, now: Component, reports: tuple[Report, Report]) -> Iterator[Changed]:
    """Yield what changed of one system."""
    both = {then.status, now.status}
    if now.id == VARIABLES and Status.UNKNOWN not in both:
        yield from _facts(now, then.facts, now.facts, None)
        return
    if both <= NOT_HERE or (Status.UNKNOWN in both and both & NOT_HERE) or both == {Status.UNKNOWN}:
        return
    if both & NOT_HERE:
        old, new = (one.version or one.status.value if one.status in HERE else None for one in (then, now))
        yield _changed(now.id, now.layer, "version", old, new)
        return
    if then.status is not now.status:
        old, new = (one.status.value + (f": {one.reason}" if one.reason else "") for one in (then, now))
        yield _changed(now.id, now.layer, "status", old, new)
    if both <= HERE:
        yield from _inside(then, now, reports)


def _inside(then: Component, now: Component, reports: tuple[Report, Report]) -> Iterator[Changed]:
    """Yield what changed of a system that is there both times: of the copy in use, and then of the others."""
    told: set[tuple[str, str | None, str | None]] = set()
    if now.id not in EACH:
        for what in IN_USE:
            old, new = getattr(then, what), getattr(now, what)
            if old and new and common(old, reports[0]) != common(new, reports[1]):
                told.add((what, old, new))
                yield _changed(now.id, now.layer, what, old, new)
        yield from _facts(now, then.facts, now.facts, None)
    for old_copy, new_copy in _paired(then.instances, now.instances, reports):
        for one in _copies(now, old_copy, new_copy):
            if (one.what, one.before, one.after) not in told:
                yield one
    if now.id == PACKAGES:
        old, new = distributions(reports[0]), distributions(reports[1])
        for name in sorted({*old, *new}):
            if old.get(name) != new.get(name):
                yield _changed(name, now.layer, "distribution", old.get(name), new.get(name))


def _copies(component: Component, old: Instance | None, new: Instance | None) -> Iterator[Changed]:
    """Yield what became of one copy of a system."""
    copy = new or old
    if copy is None:
        return
    where = place(copy)
    if old is None or new is None:
        gone, come = (described(one) if one else None for one in (old, new))
        yield _changed(component.id, component.layer, "copy", gone, come, where=where)
        return
    for what in ("version", "build"):
        then, now = getattr(old, what), getattr(new, what)
        if then and now and then != now:
            yield _changed(component.id, component.layer, what, then, now, where=where)
    if component.id in EACH:
        yield from _facts(component, old.facts, new.facts, where)


def _facts(
    component: Component, before: Mapping[str, JsonValue], after: Mapping[str, JsonValue], where: str | None
) -> Iterator[Changed]:
    """Yield the facts that are not the same; one that was reported only once is usually no change."""
    then, now = notable(component.id, before), notable(component.id, after)
    for what in dict.fromkeys((*then, *now)):
        told = (what in then and what in now) or what.startswith(SET)
        if told and then.get(what) != now.get(what):
            yield _changed(component.id, component.layer, what, then.get(what), now.get(what), where=where)


def _paired(
    then: Sequence[Instance], now: Sequence[Instance], reports: tuple[Report, Report]
) -> Iterator[tuple[Instance | None, Instance | None]]:
    """Yield the copies in pairs: those of one name, then what is left of one Python; None if there is none."""
    left = dict(enumerate(then))
    unpaired: list[Instance] = []
    for copy in now:
        name = identity(copy, reports[1])
        number = next((key for key, one in left.items() if identity(one, reports[0]) == name), None)
        if number is None:
            unpaired.append(copy)
        else:
            yield left.pop(number), copy
    for copy in unpaired:
        side = common(copy.environment, reports[1])
        number = next((key for key, one in left.items() if common(one.environment, reports[0]) == side), None)
        yield (left.pop(number) if number is not None else None), copy
    yield from ((one, None) for one in left.values())


def _changed(
    component: str, layer: Layer, what: str, before: str | None, after: str | None, *, where: str | None = None
) -> Changed:
    turn = Turn.NEW if before is None else Turn.GONE if after is None else Turn.CHANGED
    return Changed(component=component, layer=layer, what=what, turn=turn, before=before, after=after, where=where)


def notable(component: str, facts: Mapping[str, JsonValue]) -> dict[str, str]:
    """Return the facts of a system that are worth comparing, by their names, each as a text."""
    return {name: said for path in FACTS.get(component, ()) for name, said in _at(facts, path) if said is not None}


def distributions(report: Report) -> dict[str, str]:
    """Return what is installed in the chosen Python, by name."""
    chosen = report.environments[0].python if report.environments else None
    seen = next((one for one in report.components if one.id == PACKAGES), None)
    for copy in seen.instances if seen else ():
        held = copy.facts.get("distributions")
        if copy.environment in {chosen, None} and isinstance(held, Mapping):
            return {name: str(version) for name, version in held.items() if version is not None}
    return {}


def common(text: str | None, report: Report) -> str:
    """Return a text without what only tells where the chosen Python lies, and which minor version it is."""
    text = text or ""
    chosen = report.environments[0].python if report.environments else ""
    prefix = str(PurePosixPath(chosen).parent.parent)
    own = prefix not in {"/", ".", "/usr", "/usr/local"}
    text = text.replace(chosen, CHOSEN) if "/" in chosen else text
    return MINOR.sub("python3", text.replace(f"{prefix}/", f"{CHOSEN}/") if own else text)


def identity(copy: Instance, report: Report) -> tuple[str, str]:
    """Return what makes a copy the same copy in two reports: its Python, and its place or name."""
    pci = copy.facts.get("pci")
    name = pci if isinstance(pci, str) else copy.path or copy.key
    return common(copy.environment, report), common(name, report)


def place(copy: Instance) -> str:
    """Return where a copy is, for people: the address of a GPU, the path of a file, its Python."""
    pci = copy.facts.get("pci")
    return pci if isinstance(pci, str) else copy.path or copy.environment or copy.key


def described(copy: Instance) -> str:
    """Return a copy in a few words: its version, or the name that it has."""
    name = copy.facts.get("name")
    return copy.version or copy.build or (name if isinstance(name, str) else copy.status.value)


def _at(facts: Mapping[str, JsonValue], path: str) -> Iterator[tuple[str, str | None]]:
    held: JsonValue = facts
    names = path.split(".")
    for number, name in enumerate(names):
        if not isinstance(held, Mapping):
            return
        if name == "*":
            before = ".".join(names[:number])
            yield from ((f"{before}.{key}", _text(one)) for key, one in held.items())
            return
        held = held.get(name)
    yield path, _text(held)


def _text(held: JsonValue) -> str | None:
    """Return a value as a text; None if it is not told."""
    if held is None:
        return None
    if isinstance(held, bool):
        return "yes" if held else "no"
    if isinstance(held, tuple | list):
        return ", ".join(filter(None, map(_text, held))) or "none"
    if isinstance(held, Mapping):
        return ", ".join(f"{name} {_text(one)}" for name, one in held.items()) or "none"
    return (f"{held:g}" if isinstance(held, float) else str(held))[:MOST_LETTERS]
