"""GPUs that one list has and another lacks: the bus, the kernel module, NVML, CUDA, the kernel's log.

What hides a GPU on purpose is accounted for: virtual machines, excluded GPUs, containers, CUDA_VISIBLE_DEVICES, MIG and
the compute mode. If a GPU may have been hidden, the requirement is unknown and yields no finding.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpustack.diagnose.machine.inventory import PASSED_ON, from_text, gpus, on_windows, ours
from gpustack.diagnose.machine.processes import withheld
from gpustack.diagnose.machine.values import at, copies, flag, items, number, text, texts, told
from gpustack.diagnose.requirements.states import Outcome
from gpustack.matrix.subjects import health
from gpustack.model.facts import Facts, Status
from gpustack.model.report import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.diagnose.requirements.subjects import Machine
    from gpustack.matrix.subjects.health import Count

STARTS = re.compile(r"([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]).{0,200}?RmInitAdapter failed", re.IGNORECASE)
UUID = re.compile(r"GPU-[0-9A-Za-z-]*")
UNREAD = re.compile(r"(?!NVMLError_NotSupported).")
DATA_CENTRE = frozenset({"datacenter"})
NAMES = {"bus": "the PCI bus", "module": "the kernel module", "nvml": "NVML", "cuda": "CUDA", "failed": "the log"}
NAMES["nodes"] = "the device nodes that can be opened"
ENDS = {"bus": "pci-display", "module": "nvidia.ko", "nvml": "nvml", "cuda": "libcuda", "failed": "kernel-log"}
ENDS["nodes"] = "nvidia.ko"


def far(machine: Machine) -> Iterator[Outcome]:
    """Yield each GPU without a network card below its switch or at its processor, if other GPUs have one there."""
    ports = [one for one in machine.subjects("infiniband") if text(one.held, "state") == "ACTIVE"]
    slots = machine.subjects("pci-display")
    if not ports or not machine.is_of(ports[0], DATA_CENTRE):
        return
    by_node = {one.mark: number(one.held, "numa_node") for one in slots}
    nodes = {number(one.held, "numa_node") for one in ports} - {None}
    known = nodes and None not in by_node.values()
    far_ = {mark for mark, node in by_node.items() if node not in nodes} if known else set()
    below = {bridge for one in ports for bridge in texts(one.held, "bridges")[:-1]}
    above = {one.mark: [text(held, "pci") for held in items(one.held, "bridges")][:-1] for one in slots}
    behind = {mark for mark, bridges in above.items() if bridges and not below & set(bridges)}
    far_ |= behind if behind != set(above) else set()
    for one in slots if far_ != set(by_node) else ():
        if one.mark in far_:
            node = by_node[one.mark]
            where = f"NUMA node {node}" if known and node not in nodes else "its PCI Express switch"
            yield Outcome(
                component="pci-display",
                kind="state",
                finding="gpu-far-from-network",
                severity=Severity.WARNING,
                instance=one.mark,
                title=f"{one.title}: no network card in use at {where}; other GPUs have one near",
                needs="a network card near it, as its siblings have",
                found=f"none at {where}",
                row=health.judged(machine.matrix, "pci-display.near").row,
                grounds=(("numa_node", node), ("bridges[].pci", ", ".join(filter(None, above[one.mark])) or None)),
                source=one.source,
                sure=False,
            )


def missing(machine: Machine) -> Iterator[Outcome]:
    """Yield each GPU that a row expects in a list which lacks it."""
    facts = machine.facts
    if from_text(facts):
        return  # a text need not name every GPU
    shown = ("nvml", "cuda") if on_windows(facts) else tuple(NAMES)  # in WSL none is on the bus
    lists = {name: _listed(name, facts) if name in shown else None for name in NAMES}
    unnamed = sum(text(gpu.copy.facts, "pci") is None for gpu in gpus(facts))
    for row in health.counts(machine.matrix):
        every, among = lists[row.every], lists[row.among]
        gone = [pci for pci in every or () if among is not None and pci not in among]
        if row.among == "nvml" and len(gone) <= unnamed:
            continue  # listed without its address: it does not answer, which is a finding of its own
        for pci in gone:
            yield _outcome(row, pci, lists, machine)


def _listed(name: str, facts: Facts) -> frozenset[str] | None:
    """Return the addresses in a list, or None if it was not read or is empty."""
    if name == "bus":
        seen = facts.find("pci-display")
        real = (copy for copy in ours(facts) if not flag(copy.facts, "virtual_function"))
        return frozenset(copy.key for copy in real) if seen and seen.status is Status.PRESENT else None
    if name == "module":
        known = items(told(facts, "nvidia.ko"), "gpus")
        return frozenset(pci for one in known if (pci := text(one, "pci"))) or None
    if name == "nodes":
        nodes = items(told(facts, "nvidia.ko"), "nodes")
        opened = {text(one, "path") for one in nodes if flag(one, "exists") and flag(one, "readable")}
        minors = {gpu.mark: number(gpu.copy.facts, "minor") for gpu in gpus(facts)}
        return (
            frozenset(pci for pci, minor in minors.items() if f"/dev/nvidia{minor}" in opened | {"/dev/nvidiaNone"})
            or None
        )
    if name == "failed":
        lines = texts(told(facts, "kernel-log"), "nvrm")
        return frozenset(found[1].lower() for line in lines if (found := STARTS.search(line)))
    return _in_cuda(facts) if name == "cuda" else _in_nvml(facts)


def _in_nvml(facts: Facts) -> frozenset[str] | None:
    """Return what NVML lists if it works; that it lists no GPU at all has its own finding."""
    listed = frozenset(pci for gpu in gpus(facts) if (pci := text(gpu.copy.facts, "pci")))
    return listed if listed and number(told(facts, "nvml"), "code") == 0 else None


def _in_cuda(facts: Facts) -> frozenset[str] | None:
    """Return what CUDA lists if it starts."""
    libcuda = told(facts, "libcuda")
    devices = items(libcuda, "devices")
    asked = number(libcuda, "cu_init") == 0 and isinstance(at(libcuda, "devices"), tuple)
    if not asked or text(libcuda, "error") or not all(text(one, "pci") for one in devices):
        return None
    return frozenset(pci for one in devices if (pci := text(one, "pci")))


def _outcome(row: Count, pci: str, lists: dict[str, frozenset[str] | None], machine: Machine) -> Outcome:
    facts = machine.facts
    product = next((gpu.name for gpu in gpus(facts) if gpu.mark == pci), None)
    lines = [line for line in texts(told(facts, "kernel-log"), "nvrm") if pci in line.lower() and STARTS.search(line)]
    hidden = None if lines else _hidden(row, pci, facts)
    title = f"{product} at {pci}" if product else f"The GPU at {pci}"
    why = f" ({lines[-1][:90]})" if lines and row.every != "failed" else ""
    grounds = [(f"GPUs of {NAMES[name]}", ", ".join(sorted(lists[name] or ()))) for name in (row.every, row.among)]
    return Outcome(
        component=ENDS[row.every],
        kind="count",
        finding=row.finding,
        severity=row.severity,
        instance=pci,
        title=f"{title}: {row.what}{why}",
        needs=f"every GPU of {NAMES[row.every]} in {NAMES[row.among]}",
        found=f"{pci} is missing" + (f"; {hidden}" if hidden else ""),
        row=row.row,
        grounds=(*grounds, *(("nvrm", line) for line in lines[-1:])),
        source=ENDS[row.among],
        unknown=hidden is not None,
        sure=bool(lines) or not facts.host.container,
    )


def _hidden(row: Count, pci: str, facts: Facts) -> str | None:
    """Return what may hide a GPU from a list on purpose, or None."""
    if row.among == "nodes":
        return None  # who lists a GPU has opened it
    if row.among == "cuda":
        return _hidden_from_cuda(pci, facts)
    if row.among in {"bus", "module"}:
        return f"a container may not show all of {NAMES[row.among]}" if facts.host.container else None
    held = {text(one, "pci"): one for one in items(told(facts, "nvidia.ko"), "gpus")}.get(pci)
    passed_on = any(
        copy.key == pci and text(copy.facts, "driver") in PASSED_ON for copy in copies(facts, "pci-display")
    )
    given_to_others = withheld(facts) or at(told(facts, "libcuda"), "visible") is not None
    reasons = (
        (passed_on, "a virtual machine has it"),
        (flag(held, "excluded"), "the module is configured to leave it out"),
        (given_to_others, "a scheduler may have given it to another job"),
        (facts.host.container and not _given(number(held, "minor"), facts), "the container may not have been given it"),
    )
    return next((why for hides, why in reasons if hides), None)


def _given(minor: int | None, facts: Facts) -> bool:
    """Return whether a container has the device node of a GPU, as it has for each GPU passed to it."""
    nodes = items(told(facts, "nvidia.ko"), "nodes")
    return minor is not None and any(
        text(node, "path") == f"/dev/nvidia{minor}" and flag(node, "exists") and flag(node, "readable")
        for node in nodes
    )


def _hidden_from_cuda(pci: str, facts: Facts) -> str | None:
    listed = gpus(facts)
    if any(flag(gpu.copy.facts, "mig", "enabled") for gpu in listed):
        return "CUDA lists MIG instances"
    if any(UNREAD.match(text(gpu.copy.facts, "unavailable", "mig.enabled") or "") for gpu in listed):
        return "whether MIG is on could not be read"
    own = next((gpu.copy for gpu in listed if gpu.mark == pci), None)
    if own and text(own.facts, "compute_mode") == "prohibited":
        return "its compute mode is prohibited"
    visible = at(told(facts, "libcuda"), "visible")
    if visible is None:
        return None
    names = [name.strip() for name in str(visible).split(",")]
    uuid = text(own.facts, "uuid") if own else None
    if uuid and all(UUID.fullmatch(name) for name in names) and any(uuid.startswith(name) for name in names):
        return None
    everything = {str(number) for number in range(len(listed))} <= set(names)
    return None if everything else f"CUDA_VISIBLE_DEVICES is {str(visible)[:40]}"
