"""One node: what its files contain, read in a separate process before nodes are compared."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpustack.diagnose.engine import judge as judge_one
from gpustack.diagnose.requirements.states import UPTIME
from gpustack.errors import InputError
from gpustack.fleet import drift, nodes
from gpustack.fleet.outline import Outlines
from gpustack.matrix import Matrix
from gpustack.model.fleet import Told
from gpustack.model.report import Finding, Health, Severity
from gpustack.snapshots import read

if TYPE_CHECKING:
    from gpustack.fleet.drift import Measured

KINDS = {"gpu": "nvidia", "amd-gpu": "amd", "intel-gpu": "intel"}  # and who makes them
Value = Any  # decoded JSON
Said = tuple[str, tuple[Told, ...], tuple[str, ...]]  # a verdict, its findings and its root causes


@dataclass(frozen=True, slots=True)
class Seen:
    """What one process learnt about one node, before any comparison; each part is sent once.

    ``layout`` maps places to parts, ``parts`` are those that the process had not sent before.
    """

    name: str
    why: str | None = None
    judged: bytes = b""
    layout: drift.Layout = ()
    parts: Mapping[bytes, drift.Part] = field(default_factory=dict)
    kind: str = ""
    branch: str = ""
    taken: str = ""
    boot: str = ""
    figures: tuple[tuple[str, str, Measured], ...] = ()
    complaints: tuple[str, ...] = ()


_MATRIX: list[Matrix] = []
_OUTLINES: list[Outlines] = []
_SENT: dict[bytes, set[bytes]] = {}  # parts that this process has sent in the current run


def _matrix() -> Matrix:
    if not _MATRIX:
        _MATRIX.append(Matrix())
    return _MATRIX[0]


def look(run: bytes, batch: Iterable[nodes.Node]) -> list[Seen]:
    """Return what is known about some nodes; one whose file cannot be read is missing, with the reason.

    ``run`` identifies the run: a part of a machine is sent once in each.
    """
    if run not in _SENT:
        _SENT.clear()
    sent = _SENT.setdefault(run, set())
    if not _OUTLINES:
        _OUTLINES.append(Outlines(_matrix()))
    return [_seen(one, _OUTLINES[0], sent) for one in batch]


def _seen(node: nodes.Node, outlines: Outlines, sent: set[bytes]) -> Seen:
    if node.snapshot is None:
        return Seen(node.name, "it has a bench but no snapshot")
    try:
        outline, said = outlines.of(nodes.text(node.snapshot))
        if not isinstance(said, dict) or said.get("schema") != "gpustack.snapshot/1":
            return Seen(node.name, f"{node.snapshot.name} is not a gpustack snapshot")
        kind, branch = _kind(said), _branch(said)
    except InputError as error:
        return Seen(node.name, str(error))
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        return Seen(node.name, f"{node.snapshot.name} is damaged: {' '.join(str(error).split())[:100]}")
    new = {part.digest: part.stable for _, part in outline.parts if part.digest not in sent}
    sent.update(new)
    measured, complaints = _measured(node)
    return Seen(
        node.name,
        judged=outline.judged,
        layout=tuple((at, part.digest) for at, part in outline.parts if part.stable),
        parts=new,
        kind=kind,
        branch=branch,
        taken=str(said.get("taken") or ""),
        boot=_boot(said),
        figures=measured,
        complaints=complaints,
    )


def _measured(node: nodes.Node) -> tuple[tuple[tuple[str, str, Measured], ...], tuple[str, ...]]:
    """Return the figures of a node from all its benches, and which benches could not be read."""
    found: list[tuple[str, str, Measured]] = []
    wrong = []
    for take, path in enumerate(node.benches, 1):
        answer = _bench(node.name, take, path)
        if isinstance(answer, str):
            wrong.append(answer)
        else:
            found += answer
    return tuple(found), tuple(wrong)


def _bench(name: str, take: int, path: Path) -> list[tuple[str, str, Measured]] | str:
    """Return the figures of one bench, or why it could not be read."""
    try:
        return list(drift.taken(name, take, json.loads(nodes.text(path))))
    except (InputError, ValueError, TypeError, AttributeError, RecursionError) as error:
        return f"{path.name}: {' '.join(str(error).split())[:100]}"


def _component(said: Mapping[str, Value], name: str) -> Mapping[str, Value]:
    return next((one for one in said.get("components") or () if one.get("id") == name), {})


def _kind(said: Mapping[str, Value]) -> str:
    """Return the kind of a node: its GPUs by name and number, including those found only on the bus."""
    machine = (said.get("host") or {}).get("machine")
    where = f" ({machine})" if machine else ""
    slots = Counter(_vendor(one) for one in _component(said, "pci-display").get("instances") or ())
    for name, vendor in KINDS.items():
        copies = _component(said, name).get("instances") or ()
        names = Counter(str((one.get("facts") or {}).get("name") or name) for one in copies)
        if names:
            most, _ = names.most_common(1)[0]
            names[most] += max(0, slots[vendor] - names.total())
            return " and ".join(f"{count} x {called}" for called, count in sorted(names.items())) + where
    return f"{slots.total()} x {next(iter(slots))} GPU{where}" if slots else f"no GPU{where}"


def _vendor(slot: Mapping[str, Value]) -> str:
    return str((slot.get("facts") or {}).get("vendor") or "unknown")


def _branch(said: Mapping[str, Value]) -> str:
    version = str(_component(said, "nvidia-driver").get("version") or "")
    return version.partition(".")[0] or "unknown"


def _boot(said: Mapping[str, Value]) -> str:
    """Return when the kernel was started, in seconds since 1970: the only id of a boot that survives redaction."""
    up = (_component(said, "linux-kernel").get("facts") or {}).get(UPTIME)
    if not isinstance(up, int | float):
        return ""
    try:
        return str(round(datetime.fromisoformat(str(said.get("taken"))).timestamp() - up))
    except (ValueError, OverflowError):
        return ""


def judge(batch: Iterable[tuple[bytes, Path]]) -> list[tuple[bytes, Said]]:
    """Return the verdict, the findings and the root causes of the first node of each class."""
    return [(digest, _verdict(path)) for digest, path in batch]


def _verdict(path: Path) -> Said:
    try:
        report = judge_one(read(nodes.text(path), path.name), _matrix())
    except InputError as error:
        return Health.UNKNOWN.value, (_unread(str(error)),), ()
    told = tuple(_told(one) for one in report.findings if one.severity is not Severity.INFO)
    return report.verdict.status.value, told, report.verdict.root_causes


def _told(finding: Finding) -> Told:
    commands = tuple(str(one) for one in finding.fix.commands) if finding.fix else ()
    return Told(
        id=finding.id,
        key=finding.key,
        severity=finding.severity,
        title=finding.title,
        caused_by=finding.caused_by,
        fix=finding.fix.text if finding.fix else None,
        commands=commands,
    )


def _unread(why: str) -> Told:
    return Told(id="snapshot-unreadable", key="snapshot-unreadable", severity=Severity.UNKNOWN, title=why)
