"""Requirements on a machine's health, stated by rows, and its Xids: each broken one is a contract and a finding."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from gpustack.diagnose.machine.events import APPLICATION, LINK, MEMORY, SUMMARY, because_said, chains, heard, said
from gpustack.diagnose.machine.values import items, number, text, told
from gpustack.diagnose.requirements import counts, states
from gpustack.diagnose.requirements.records import by_id, by_maker
from gpustack.diagnose.requirements.states import Outcome, cut
from gpustack.diagnose.requirements.subjects import Machine, Subject
from gpustack.matrix.subjects import health
from gpustack.matrix.subjects.codes import Number, xids
from gpustack.matrix.subjects.messages import patterns
from gpustack.model.report import Because, Confidence, Contract, Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts

SEVERITIES = tuple(Severity)
NEEDLESS = re.compile(r"_(?:ta|dmc)[\w.]*\b")  # firmware without which a GPU starts
MOST = 4  # messages as evidence


def outcomes(facts: Facts, matrix: Matrix) -> tuple[Outcome, ...]:
    """Return every requirement of the health table that is broken, limited or unknown."""
    machine = Machine(facts=facts, matrix=matrix)
    return (
        *counts.missing(machine),
        *counts.far(machine),
        *states.broken(machine),
        *states.siblings(machine),
        *logged(machine),
    )


def contracts(held: Iterable[Outcome]) -> Iterator[Contract]:
    """Yield the contract of each of them; a broken one names its finding."""
    for one in held:
        yield Contract(
            from_=one.component,
            to=one.component if one.kind != "count" else one.source,
            kind=one.kind,
            needs=one.needs,
            found=one.found,
            status=one.status,
            row=one.row,
            finding=None if one.unknown else one.key,
        )


def findings(held: Iterable[Outcome]) -> Iterator[Finding]:
    """Yield the finding of each broken one; several for one finding on one GPU are merged."""
    found: dict[str, list[Outcome]] = {}
    for one in held:
        if not one.unknown:
            found.setdefault(one.key, []).append(one)
    for group in found.values():
        yield _finding(sorted(group, key=lambda one: SEVERITIES.index(one.severity)))


def _finding(group: Sequence[Outcome]) -> Finding:
    """Return one finding with the most severe problem in its title, and the others in its detail."""
    first, record = group[0], by_id()[group[0].finding]
    maker = by_maker().get(first.component)
    return Finding(
        id=first.finding,
        instance=first.instance,
        severity=first.severity,
        layer=record.layer,
        component=first.component if maker else record.component,
        title=first.title[:190],
        detail=" ".join(f"{title}." for title in dict.fromkeys(one.title for one in group) if title != first.title),
        because=tuple(
            dict.fromkeys(
                Because(component=one.component, fact=fact, value=value, source=one.source)
                for one in group
                for fact, value in one.grounds
            )
        ),
        row=first.row,
        fix=record.fix(first.instance, maker),
        confidence=record.confidence if first.sure else Confidence.LIKELY,
    )


def said_outright(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Yield what a message alone says by the record of a finding, which is likely where nothing else is known."""
    maker = None if facts.find("gpu") else next((one for name, one in by_maker().items() if facts.find(name)), None)
    for name, record in by_id().items():
        lines = [one for one in said(facts, *record.said) if not NEEDLESS.search(one.line)]
        if lines and not heard(facts, *record.unless):
            rows = [row for row in patterns(matrix) if row.kind == lines[0].kind]
            row = next((one for one in rows if one.compiled().search(lines[0].line)), rows[0])
            yield Finding(
                id=name,
                severity=Severity.WARNING,
                layer=record.layer,
                component=record.component,
                title=row.says.rstrip("."),
                because=tuple(map(because_said, lines[:MOST])),
                row=row.row,
                fix=record.fix(None, maker),
                confidence=Confidence.LIKELY,
            )


# Those that the rules about memory, links, lost GPUs, the GSP, programs and recoveries speak of.
JUDGED = MEMORY | APPLICATION | {LINK, 79, 119, 120, SUMMARY}
# How much NVIDIA's action words weigh; what is not here asks for nothing, or names no action.
WEIGHTS = {
    **dict.fromkeys(("RESET_GPU", "RESTART_VM", "RESTART_BM"), Severity.ERROR),
    **dict.fromkeys(("CHECK_MECHANICALS", "CHECK_UVM", "UPDATE_SWFW", "WORKFLOW_NVLINK5_ERR"), Severity.WARNING),
    **dict.fromkeys(("RESTART_APP", "CONTACT_SUPPORT"), Severity.INFO),
}
AT_FAULT = frozenset({Severity.ERROR, Severity.WARNING})
FATAL = re.compile("fatal", re.IGNORECASE)  # "Non-fatal, Link 32 …" does not begin with it
BOARD = frozenset({"hw", "pcie"})  # layers of Xids that are a fault even where the catalogue asks for no action now
RECOVERED = 0  # what NVML answers where no recovery is asked for


def logged(machine: Machine) -> Iterator[Outcome]:
    """Yield what the kernel's log shows for this boot and earlier ones."""
    yield from _now(machine)
    yield from _before(machine)
    yield from _switches(machine)


def _before(machine: Machine) -> Iterator[Outcome]:
    """Yield each hardware Xid that occurred in more than one boot: a fault that returns is no accident."""
    earlier = items(told(machine.facts, "kernel-log"), "earlier_xids")
    if not earlier:
        return
    known = {one.number: one for one in xids(machine.matrix)}
    by_mark = {one.mark: one for one in machine.subjects("gpu")}
    now = {(chain.pci, code) for chain in chains(machine.facts) for code in chain.codes}
    for one in earlier:
        pci, code, starts = text(one, "pci") or "", number(one, "code") or 0, number(one, "starts") or 0
        xid, times = known.get(code), starts + ((pci, code) in now)
        grave = xid and code not in APPLICATION | {SUMMARY} and (code in JUDGED or _weight(xid, None) in AT_FAULT)
        if xid and grave and times > 1:
            again = _outcome(xid, pci, 1, by_mark.get(pci), Severity.WARNING)
            found = f"Xid {code} at {pci} in {times} starts of the machine"
            title = f"{again.title.partition(': ')[0]}: Xid {code}, {xid.name}, in {times} starts of the machine"
            yield replace(again, title=title, found=found, grounds=(("earlier_xids", found),))


def _switches(machine: Machine) -> Iterator[Outcome]:
    """Yield the errors that NVSwitches logged (SXids), once for each switch; fatal ones stop all GPUs."""
    found: dict[str, list[tuple[int, str]]] = {}
    for one in items(told(machine.facts, "kernel-log"), "sxids"):
        found.setdefault(text(one, "pci") or "", []).append((number(one, "code") or 0, text(one, "text") or ""))
    for pci, events in found.items():
        fatal = [one for one in events if FATAL.match(one[1])]
        code, words = (fatal or events)[-1]
        times = f", {len(events)} SXids in all" if len(events) > 1 else ""
        yield Outcome(
            component="nvswitch",
            kind="event",
            finding="nvlink-error",
            severity=Severity.ERROR if fatal else Severity.WARNING,
            instance=pci,
            title=f"NVSwitch at {pci}: SXid {code}, {cut(words)}{times}",
            needs="no SXid",
            found=f"SXid {code} at {pci}",
            row=health.judged(machine.matrix, "nvswitch.sxid").row,
            grounds=(("sxids", f"SXid {code} at {pci}: {words}"),),
            source="kernel log",
            sure=False,
        )


def _now(machine: Machine) -> Iterator[Outcome]:
    """Yield each Xid of this boot that requires action, once for each GPU, with the number of times it occurred."""
    times: dict[tuple[str, int], int] = {}
    for chain in chains(machine.facts):
        if chain.lead not in JUDGED:
            times[chain.pci, chain.lead] = times.get((chain.pci, chain.lead), 0) + chain.codes[chain.lead]
    if not times:
        return
    known = {one.number: one for one in xids(machine.matrix)}
    by_mark = {one.mark: one for one in machine.subjects("gpu")}
    for (pci, code), count in times.items():
        xid = known.get(code) or _unlisted(code, machine.matrix)
        weight = _weight(xid, by_mark.get(pci)) if code in known else Severity.WARNING
        if weight:
            yield _outcome(xid, pci, count, by_mark.get(pci), weight)


def _unlisted(code: int, matrix: Matrix) -> Number:
    """Return an Xid of which nobody has written down what it means."""
    row, words = health.judged(matrix, "kernel-log.xid").row, "not in NVIDIA's catalogue"
    like = replace(xids(matrix)[0], also=(), cause=None, action=None, bucket=None, whose=None, message=None)
    return replace(like, number=code, name=words, meaning=words, row=row)


def _weight(xid: Number, gpu: Subject | None) -> Severity | None:
    """Return the severity of an Xid, which is lower if the driver says that the GPU needs no recovery now."""
    if xid.bucket in {None, "IGNORE"}:
        return Severity.WARNING if xid.whose in BOARD else None
    weight = WEIGHTS.get(xid.bucket)
    recovered = gpu is not None and gpu.held.get("recovery_action") == RECOVERED
    return Severity.WARNING if weight is Severity.ERROR and recovered else weight


def _outcome(xid: Number, pci: str, count: int, gpu: Subject | None, weight: Severity) -> Outcome:
    title = gpu.title if gpu else f"The GPU at {pci}"
    times = f", {count} times" if count > 1 else ""
    action = f"; {xid.action}" if xid.action else ""
    return Outcome(
        component="kernel-log",
        kind="event",
        finding="gpu-xid",
        severity=weight,
        instance=pci,
        title=f"{title}: Xid {xid.number}, {xid.name}{times}{action}",
        needs="no Xid that asks for an action",
        found=f"Xid {xid.number} at {pci}{times}",
        row=xid.row,
        grounds=(("xids", f"Xid {xid.number} at {pci}: {xid.meaning}{times}"),),
        source="kernel log",
        sure=False,
    )
