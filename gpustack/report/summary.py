"""What all formats say about components and findings: their names, counts, groups and sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from gpustack.model import record
from gpustack.model.facts import Component, Instance, JsonValue, Status, Strength
from gpustack.model.versions import ComputeCapability, CudaVersion
from gpustack.report.page import TIMES

if TYPE_CHECKING:
    from gpustack.model.report import Because, Finding, Fix

MOST_NAMED = 4
MIB_IN_GIB = 1024
Family: TypeAlias = "tuple[Finding, tuple[Finding, ...]]"
MOST_ITEMS = 8


@record
class Entry:
    """One row: the name, what is worth knowing, and the path."""

    status: Status
    head: str
    notes: tuple[str, ...] = ()
    path: str | None = None


def entries(component: Component) -> tuple[Entry, ...]:
    """Return the rows of a component: one, or one for each kind of GPU present."""
    grouped = GROUPED.get(component.id)
    if grouped and component.status is Status.PRESENT and component.instances:
        return tuple(_groups(component, grouped))
    describe = SPECIFIC.get(component.id)
    told = describe(component.facts) if describe and component.status is Status.PRESENT else ()
    reason = (component.reason,) if component.reason and component.status is not Status.PRESENT else ()
    notes = (*told, *_ran(component.facts), *_copies(component), *reason)
    return (Entry(status=component.status, head=_head(component), notes=notes, path=component.path),)


def few(words: Iterable[str], most: int = MOST_NAMED) -> str:
    """Return the words with commas, and how many more there are."""
    known = list(words)
    rest = len(known) - most
    return ", ".join(known[:most]) + (f" and {rest} more" if rest > 0 else "")


def listed(words: Sequence[str]) -> str:
    """Return the words as a sentence names them, with "and" before the last."""
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def _head(component: Component) -> str:
    build = component.build if component.build and component.build not in (component.version or "") else None
    return " ".join(filter(None, (component.id, component.version, build and f"({build})")))


def _copies(component: Component) -> tuple[str, ...]:
    """Return the other copies: their versions, each with its count."""
    others = Counter(copy.version or copy.build or "unknown version" for copy in component.instances[1:])
    if not others:
        return ()
    named = few(f"{version} ({times} times)" if times > 1 else version for version, times in others.items())
    return (f"also here: {named}",)


def _groups(component: Component, describe: Callable[[Instance], tuple[str, str]]) -> Iterable[Entry]:
    """Yield a row for each set of instances with the same description."""
    alike: dict[tuple[str, str, Status], list[Instance]] = {}
    for one in component.instances:
        alike.setdefault((*describe(one), one.status), []).append(one)
    for (name, note, status), group in alike.items():
        count = f"{len(group)} {TIMES} " if len(component.instances) > 1 else ""
        yield Entry(status=status, head=f"{component.id} {count}{name}", notes=(note,) if note else ())


def _gpu(one: Instance) -> tuple[str, str]:
    facts = one.facts
    link, power = _map(facts, "pcie"), _map(facts, "power")
    capability = ComputeCapability.parse(str(facts.get("cc")))
    total, limit, mig = _map(facts, "memory").get("total_mib"), power.get("limit_watts"), _map(facts, "mig")
    notes = (
        capability.sm if capability else "",
        f"{total / MIB_IN_GIB:.0f} GiB" if isinstance(total, int | float) else "",
        f"PCIe {link['max_generation']} {TIMES}{link['max_width']}"
        if {"max_generation", "max_width"} <= set(link)
        else "",
        f"{limit:.0f} W" if isinstance(limit, int | float) else "",
        "MIG on" if mig.get("enabled") is True else "",
    )
    return str(facts.get("name") or one.key), ", ".join(filter(None, notes))


def _pci(one: Instance) -> tuple[str, str]:
    vendor, device = one.facts.get("vendor") or "unknown vendor", one.facts.get("device_id") or ""
    driver = one.facts.get("driver")
    return f"{vendor} {device}".strip(), f"driven by {driver}" if driver else "no kernel driver is bound"


def _nvlink(one: Instance) -> tuple[str, str]:
    return f"GPU with {one.facts.get('active', '?')} of {one.facts.get('total', '?')} links active", ""


def _process(one: Instance) -> tuple[str, str]:
    """Return a process's name and what it has mapped and holds; those that only hold a node open are merged."""
    facts, used = one.facts, one.facts.get("used_mib")
    called = facts.get("command") or facts.get("name") or "not seen from here"
    rows = [row for row in _rows(facts, "frameworks") if row.get("name")]
    frameworks = dict.fromkeys(" ".join(str(row[key]) for key in ("name", "version") if row.get(key)) for row in rows)
    held = f"{used / MIB_IN_GIB:.1f} GiB" if isinstance(used, int) else ""
    memory = held or ("" if _rows(facts, "gpus") else "holds a GPU's device node open")
    number = f"pid {facts.get('pid')}" if _rows(facts, "gpus") else ""
    notes = (str(facts.get("application") or ""), few(frameworks), memory, number)
    return f"{called}", ", ".join(filter(None, notes))


def _rows(facts: Mapping[str, JsonValue], name: str) -> list[Mapping[str, JsonValue]]:
    held = facts.get(name)
    return [row for row in held if isinstance(row, Mapping)] if isinstance(held, tuple) else []


def _map(facts: Mapping[str, JsonValue], name: str) -> Mapping[str, JsonValue]:
    held = facts.get(name)
    return held if isinstance(held, Mapping) else {}


def _ran(facts: Mapping[str, JsonValue]) -> tuple[str, ...]:
    """Return that it was run (--deep) and computed correctly on a GPU."""
    run = _map(facts, "exercise")
    return ("ran on the GPU",) if run.get("ok") is True and run.get("device") not in {None, "cpu"} else ()


def _module(facts: Mapping[str, JsonValue]) -> tuple[str, ...]:
    loaded = {True: "loaded", False: "on disk, not loaded"}.get(facts.get("loaded") is True, "")
    flavour = f"{facts['flavour']} flavour" if facts.get("flavour") else ""
    return tuple(filter(None, (loaded, flavour)))


def _libcuda(facts: Mapping[str, JsonValue]) -> tuple[str, ...]:
    cuda = CudaVersion.decode(facts.get("driver_cuda"))
    return (f"for CUDA up to {cuda}",) if cuda else ()


def _python(facts: Mapping[str, JsonValue]) -> tuple[str, ...]:
    return tuple(f"{word}{facts[name]}" for name, word in (("kind", ""), ("glibc", "glibc ")) if facts.get(name))


MODULES = ("nvidia.ko", "nvidia-uvm.ko", "nvidia-modeset.ko", "nvidia-drm.ko", "nvidia-peermem.ko")
GROUPED: Mapping[str, Callable[[Instance], tuple[str, str]]] = {
    "gpu": _gpu,
    "pci-display": _pci,
    "nvlink": _nvlink,
    "gpu-processes": _process,
}
SPECIFIC: Mapping[str, Callable[[Mapping[str, JsonValue]], tuple[str, ...]]] = {
    "linux-kernel": lambda facts: ("Secure Boot on",) * (facts.get("secure_boot") is True),
    "libcuda": _libcuda,
    "python": _python,
    **dict.fromkeys(MODULES, _module),
}


def families(findings: Sequence[Finding], root_keys: Sequence[str]) -> tuple[list[Family], list[Family]]:
    """Return the root causes and the other findings, each with all its consequences; every finding once."""
    by_key = {one.key: one for one in findings}
    roots = [by_key[key] for key in root_keys if key in by_key]
    heads = [one for one in findings if one.caused_by not in by_key]
    made: dict[str, Family] = {}
    told: set[str] = set()
    for head in (*roots, *heads, *findings):  # the last: findings that name each other as causes
        if head.key not in told:
            follow = tuple(one for one in consequences(head.key, findings) if one.key not in told)
            made[head.key] = (head, follow)
            told |= {head.key, *(one.key for one in follow)}
    first = [made.pop(one.key) for one in roots if one.key in made]
    return first, list(made.values())


def consequences(of: str, findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Return all direct and indirect consequences of the finding with this key, each once."""
    found: dict[str, Finding] = {}
    causes = [of]
    while causes:
        cause = causes.pop(0)
        new = [one for one in findings if one.caused_by == cause and one.key not in {*found, of}]
        found.update((one.key, one) for one in new)
        causes += [one.key for one in new]
    return tuple(found.values())


def alike(findings: Iterable[Finding]) -> Iterator[tuple[Finding, tuple[Finding, ...]]]:
    """Yield each finding with its equivalents on other instances: same id, same fix."""
    groups: list[list[Finding]] = []
    for finding in findings:
        group = next((held for held in groups if (held[0].id, held[0].fix) == (finding.id, finding.fix)), None)
        if group is None:
            groups.append([finding])
        else:
            group.append(finding)
    yield from ((group[0], tuple(group[1:])) for group in groups)


def grouped(among: Sequence[Family]) -> list[tuple[Finding, tuple[Finding, ...], list[Finding]]]:
    """Return the root findings, merged across instances, with all their consequences."""
    by_head = {head.key: follow for head, follow in among}
    return [
        (first, others, [one for head in (first, *others) for one in by_head[head.key]])
        for first, others in alike(head for head, _ in among)
    ]


def paragraphs(finding: Finding) -> list[str]:
    """Return what is known about a finding besides its title."""
    return [line for line in map(str.strip, finding.detail.splitlines()) if line]


def reasons(finding: Finding, *, strengths: bool = False) -> Iterator[str]:
    """Yield the evidence: each fact that the finding rests on with its source, and the row of the matrix.

    With ``strengths``, a fact that was not measured says how it was obtained.
    """
    for one in finding.because:
        weaker = strengths and one.strength is not Strength.MEASURED
        yield ground(one) + (f" ({one.strength.value})" if weaker else "")
    if finding.row:
        row = finding.row
        yield f"Rule: {row.text} ({row.source}, checked {row.checked})"


def strongest(finding: Finding, most: int) -> tuple[Because, ...]:
    """Return the most informative facts, each once: the best obtained, and present before missing ones."""
    once: dict[tuple[str, str, str], Because] = {}
    for one in finding.because:
        said = one.component == "message"  # one line can be several messages
        once.setdefault((one.component, "" if said else one.fact, str(one.value)), one)
    order = tuple(Strength)
    return tuple(sorted(once.values(), key=lambda one: (order.index(one.strength), one.value is None))[:most])


def heading(fix: Fix) -> str:
    """Return the heading of a fix: "Fix (needs root):"."""
    needs = " and ".join(["root"] * fix.needs_root + ["a reboot"] * fix.needs_reboot)
    return "Fix" + (f" (needs {needs})" if needs else "") + ":"


def one_line(command: str) -> str:
    """Return a command on one line: a newline inside a name must not start a second command."""
    return "\\n".join(command.splitlines())


def sentences(finding: Finding, follow: Sequence[Finding] = ()) -> Iterator[str]:
    """Yield all of a finding but its title, a line each: the facts, the evidence, the fix, and consequences."""
    yield from paragraphs(finding)
    if known := list(reasons(finding)):
        yield "How we know:"
        yield from (f"- {one}" for one in known)
    if fix := finding.fix:
        yield f"{heading(fix)} {fix.text}"
        yield from (f"    {one_line(command)}" for command in fix.commands)
        if fix.verify:
            yield f"Check: {one_line(fix.verify)}"
    if follow:
        yield "What follows from it:"
        yield from (f"- {one.title} [{one.key}]" for one in follow)


def worth(because: Because) -> str:
    """Return the value of a fact in readable form: a packed CUDA number as its version."""
    cuda = CudaVersion.decode(because.value) if because.fact == "driver_cuda" else None
    return f"up to CUDA {cuda}" if cuda else value(because.value)


def fact(because: Because) -> str:
    """Return a fact in words, without its source; a printed line is quoted verbatim."""
    held = worth(because)
    return f'"{held}"' if because.component == "message" else f"{because.component} {because.fact}: {held}"


def ground(because: Because) -> str:
    """Return one piece of evidence in words."""
    source = f", from {because.source}" if because.source else ""
    return f"{because.component} {because.fact}: {worth(because)}{source}"


def value(held: JsonValue) -> str:
    """Return a fact's value in words."""
    if held is None or isinstance(held, bool):
        return {None: "not found", True: "yes", False: "no"}[held]
    if isinstance(held, Mapping):
        return few((f"{name} {value(one)}" for name, one in held.items()), MOST_ITEMS) or "empty"
    if isinstance(held, tuple | list):
        return few(map(value, held), MOST_ITEMS) or "empty"
    return f"{held:g}" if isinstance(held, float) else str(held)
