"""What rows of the health table are checked on: GPUs, their links and slots, and the machine as a whole."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gpustack.diagnose.machine.intel import listed
from gpustack.diagnose.machine.inventory import PASSED_ON, from_text, gpus, ours, unasked
from gpustack.diagnose.machine.values import HERE, at, copies, everything, flag, items, number, table, text, texts, told
from gpustack.matrix.subjects import gpus as products
from gpustack.model import record
from gpustack.model.facts import Component, Facts, JsonValue, Status

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpustack.matrix import Matrix

DRIVER = ("nvml", "gpu", "nvlink", "libcuda")  # components whose probes ask NVML or CUDA
MAKERS = ("gpu", "amd-gpu", "intel-gpu")  # the GPUs of each maker
SERVER, SERVERS = "AMD Instinct", frozenset({"gfx908", "gfx90a", "gfx940", "gfx941", "gfx942", "gfx950"})
IDENTITY = ("uuid", "index", "minor")  # what no two GPUs share
NOTHING: Mapping[str, JsonValue] = {}
# What is a number or a flag in the schema, or holds nothing else.
NUMBERS = (
    *("memory", "pcie", "power", "temperature", "clocks", "ecc", "remap", "retired", "repair", "inforom"),
    *("performance_state", "recovery_action", "persistence", "nvlinks", "cores"),
)


@record
class Subject:
    """One thing that a row is about: a GPU's instance of a component, a port, or (``mark`` None) the only one.

    ``mark`` is the GPU's PCI address, or its key if unknown; ``gpu`` are that GPU's facts; ``called`` names what is
    not a GPU. Subjects of one ``kind`` are siblings; those without a kind have none.
    """

    component: str
    held: Mapping[str, JsonValue]
    mark: str | None = None
    product: str | None = None
    gpu: Mapping[str, JsonValue] = field(default_factory=dict)
    source: str = ""
    called: str = ""
    kind: tuple[JsonValue, ...] = ()

    @property
    def title(self) -> str:
        """Its display name."""
        if self.called or self.mark is None:
            return self.called
        return f"{self.product} at {self.mark}" if self.product else f"The GPU at {self.mark}"


@dataclass(frozen=True, kw_only=True)
class Machine:
    """The facts of one machine as subjects, with each component read once."""

    facts: Facts
    matrix: Matrix
    known: dict[str, tuple[Subject, ...]] = field(default_factory=dict)

    def subjects(self, component: str) -> tuple[Subject, ...]:
        """Return the subjects of a component."""
        if component not in self.known:
            self.known[component] = tuple(_SOURCES.get(component, _whole)(self, component))
        return self.known[component]

    def is_of(self, subject: Subject, classes: frozenset[str]) -> bool:
        """Return whether a subject's GPU, or any GPU for what is not one, is a product of these classes."""
        own = subject.mark and not subject.called
        names = {subject.product} if own else {one.product for maker in MAKERS for one in self.subjects(maker)}
        return any(products.class_of(self.matrix, name) in classes for name in names if name)

    def host(self) -> Mapping[str, JsonValue]:
        """Return the host's facts that conditions may name."""
        one = self.facts.host
        held = {"container": one.container, "virtualisation": one.virtualisation, "wsl": one.wsl}
        return {**held, "measured": not from_text(self.facts)}

    def fact(self, component: str, name: str) -> JsonValue:
        """Return a fact of the copy of a component that is in use."""
        return at(told(self.facts, component), name)

    def component(self, name: str) -> Component | None:
        """Return a component of the facts."""
        return self.facts.find(name)


def _gpus(machine: Machine, component: str) -> Iterator[Subject]:
    """Yield the GPUs that NVML lists; one without an address gets that of the only GPU that no list has."""
    facts = machine.facts
    listed = gpus(facts)
    placed = {text(gpu.copy.facts, "pci") for gpu in listed}
    missing = [copy.key for copy in ours(facts) if copy.key not in placed]
    lost = [gpu for gpu in listed if not text(gpu.copy.facts, "pci")]
    only = missing[0] if len(missing) == len(lost) == 1 else None
    source = _source(machine, component)
    slots = {one.key: at(one.facts, "subsystem") for one in copies(facts, "pci-display")}
    taken: set[str] = set()
    in_cuda = {text(one, "pci"): one for one in items(told(facts, "libcuda"), "devices")}
    for gpu in listed:
        retired = table(gpu.copy.facts, "retired")
        pages = sum(number(retired, kind) or 0 for kind in ("single_bit", "double_bit"))
        cuda = in_cuda.get(text(gpu.copy.facts, "pci"), NOTHING)
        more: dict[str, JsonValue] = {"status": gpu.copy.status.value, "unasked": unasked(gpu.copy), "cuda": cuda}
        more["misread"] = {name: value for name, value in _measured(gpu.copy.facts) if isinstance(value, str)}
        own = {f"{name} {one}": one for name in IDENTITY if (one := gpu.copy.facts.get(name)) is not None}
        more["shared"] = {name: str(one) for name, one in own.items() if name in taken}
        taken |= own.keys()
        more["unlisted_mib"] = _unlisted(gpu.copy.facts)
        more |= _spoken(machine, text(gpu.copy.facts, "pci"), "nvrm", "iommu_faults")
        held = {**gpu.copy.facts, **more, "retired": {**retired, "single_bit+double_bit": pages}}
        mark = gpu.mark if text(gpu.copy.facts, "pci") else only or gpu.mark
        name = text(gpu.copy.facts, "name")
        present = name and gpu.copy.status is Status.PRESENT
        kind = (held.get("device_id"), slots.get(mark), name) if present else ()
        yield Subject(component=component, held=held, mark=mark, product=name, gpu=held, source=source, kind=kind)


def _unlisted(held: Mapping[str, JsonValue]) -> int | None:
    """Return how much of a GPU's memory is in use beyond what its processes hold, if that is known of each."""
    used, processes = number(held, "memory", "used_mib"), items(held, "processes")
    listed = [number(one, "used_mib") for one in processes]
    known = used is not None and listed and None not in listed and flag(held, "pids_unreliable") is not True
    return (used or 0) - sum(one or 0 for one in listed) if known else None


def _measured(held: Mapping[str, JsonValue]) -> Iterator[tuple[str, JsonValue]]:
    """Yield the facts of a GPU that should be numbers or flags, whatever was recorded instead."""
    for name in NUMBERS:
        value = held.get(name)
        if isinstance(value, dict):
            yield from ((f"{name}.{part}", one) for part, one in value.items())
        else:
            yield name, value


def _links(machine: Machine, component: str) -> Iterator[Subject]:
    """Yield the NVLinks of each GPU; where they were asked for, none for a GPU that no answer names."""
    listed = machine.subjects("gpu")
    found: dict[str | None, Mapping[str, JsonValue]] = {}
    seen = machine.component(component)
    if seen is not None and seen.status in {Status.PRESENT, Status.ABSENT}:
        found = {one.mark: {"total": 0, "described": False} for one in listed}
    for copy in copies(machine.facts, component):
        index = number(copy.facts, "index")
        named = (
            one for one in listed if one.held.get("uuid") == copy.key or one.held.get("index") == index is not None
        )
        gpu, links = next(named, None), items(copy.facts, "links")
        known = sum(flag(link, "active") is not None for link in links) if links else None
        speeds = [speed for link in links if isinstance(speed := at(link, "speed_gbps"), int | float)]
        newest = {"newest": max(text(link, "version") or "" for link in links)} if links else {}
        more = {"answering": known, **({"fastest": max(speeds)} if speeds else {}), **newest}
        found[gpu.mark if gpu else copy.key] = {**copy.facts, **more}
    by_mark = {one.mark: one for one in listed}
    for mark, held in found.items():
        gpu = by_mark.get(mark) or Subject(component="gpu", held=NOTHING)
        yield Subject(
            component=component,
            held={**held, "expected": gpu.held.get("nvlinks")},
            mark=mark,
            product=gpu.product,
            gpu=gpu.held,
            source=_source(machine, component),
            kind=gpu.kind,
        )


def _slots(machine: Machine, component: str) -> Iterator[Subject]:
    """Yield the GPUs on the bus that this machine can use."""
    known = {one.mark: one for one in machine.subjects("gpu")}
    source = _source(machine, component)
    for copy in ours(machine.facts):
        gpu = known.get(copy.key) or Subject(component="gpu", held=NOTHING)
        product, kind = gpu.product, gpu.kind
        largest = max((number(bar, "bytes") or 0 for bar in items(copy.facts, "bars")), default=None)
        memory = number(gpu.held, "memory", "total_mib")
        held = {**copy.facts, "largest_bar": largest, "memory_bytes": memory << 20 if memory else None}
        yield Subject(
            component=component, held=held, mark=copy.key, product=product, gpu=gpu.held, source=source, kind=kind
        )


def _ports(machine: Machine, component: str) -> Iterator[Subject]:
    """Yield the ports of InfiniBand and RoCE cards; ports of one board and kind of network are siblings."""
    source = _source(machine, component)
    for copy in copies(machine.facts, component):
        layer, board = text(copy.facts, "link_layer"), text(copy.facts, "board")
        called = f"{'RoCE' if layer == 'Ethernet' else 'InfiniBand'} port {copy.key}"
        kind = (layer, board) if board and text(copy.facts, "pci") else ()
        yield Subject(component=component, held=copy.facts, mark=copy.key, source=source, called=called, kind=kind)


def _switches(machine: Machine, component: str) -> Iterator[Subject]:
    """Yield the NVSwitches on the bus."""
    source = _source(machine, component)
    for copy in copies(machine.facts, component):
        called = f"NVSwitch at {copy.key}"
        yield Subject(component=component, held=copy.facts, mark=copy.key, source=source, called=called)


def _library(machine: Machine, component: str) -> Iterator[Subject]:
    """Yield NVML with the slowest calls of it and of CUDA, how many GPUs it lists and there are, and persistence."""
    calls: dict[str, float] = {}
    for name in DRIVER:
        seen = machine.component(name)
        for call in seen.calls if seen else ():
            if call.seconds > calls.get(call.name, -1.0):
                calls[call.name] = call.seconds
    listed = machine.subjects("gpu")
    kept = {one.mark or "": one.held.get("persistence") for one in listed}
    more: dict[str, JsonValue] = {
        "calls": calls,
        "listed": len(listed),
        "on_bus": len(ours(machine.facts)),
        "persistence": kept,
        "persistence_off": not all(kept.values()),
    }
    for one in _whole(machine, component):
        yield Subject(component=component, held={**one.held, **more}, source=one.source)


def _others(machine: Machine, component: str) -> Iterator[Subject]:
    """Yield the GPUs of AMD or Intel that this machine can use, each with what Infinity Fabric joins it to."""
    source = _source(machine, component)
    ways = items(told(machine.facts, "infinity-fabric"), "links")
    masked = text(told(machine.facts, "level-zero"), "mask")
    here = {copy.key for copy in copies(machine.facts, component)}
    in_level_zero = set() if masked else here & {text(one, "pci") for one in listed(machine.facts)}
    for copy in copies(machine.facts, component):
        held, pci = copy.facts, text(copy.facts, "pci") or copy.key
        name = text(held, "name") or (SERVER if text(held, "gfx") in SERVERS else None)
        own = [number(one, "max_mbs") or 0 for one in ways if text(one, "from") == pci]
        more = _spoken(machine, pci, "amdgpu", "intel", "iommu_faults")
        more |= {"listed": pci in in_level_zero} if in_level_zero and component == "intel-gpu" else {}
        more |= {"links": len(own), "least_mbs": min(own, default=None)} if ways else {}
        kind = (held.get("device_id"), name) if name and held.get("device_id") else ()
        if text(held, "driver") not in PASSED_ON:
            whole = {**held, **more}
            yield Subject(component=component, held=whole, mark=pci, product=name, gpu=whole, source=source, kind=kind)


def _amdgpu(machine: Machine, component: str) -> Iterator[Subject]:
    """Yield AMD's module with the log's lines that name none of its GPUs, and the GPUs that only its nodes show."""
    known = {text(one.facts, "pci") for one in copies(machine.facts, "amd-gpu")}
    for whole in _whole(machine, component):
        lines = texts(told(machine.facts, "kernel-log"), "amdgpu")
        rest = tuple(line for line in lines if not any(_names(line, place) for place in known))
        nodes = {text(one, "pci"): text(one, "path") for one in items(whole.held, "nodes")}
        gone = {pci: path for pci, path in nodes.items() if pci and known and pci not in known}
        held = {**whole.held, "amdgpu": rest, "unknown": gone}
        yield Subject(component=component, held=held, source=whole.source)


def _spoken(machine: Machine, place: str | None, *names: str) -> dict[str, JsonValue]:
    """Return the lines of the kernel's log that name a GPU."""
    log = told(machine.facts, "kernel-log")
    return {name: tuple(line for line in texts(log, name) if _names(line, place)) for name in names}


def _names(line: str, place: str | None) -> bool:
    """Return whether a line names a PCI address, with its domain or, as the IOMMU's driver writes it, without."""
    short = (place or "").removesuffix(".0")
    return bool(short) and (short in line.lower() or f"[{short.partition(':')[2]}.0]" in line.lower())


def _whole(machine: Machine, component: str) -> Iterator[Subject]:
    """Yield the only copy of a component, or what a probe says of one that is needed and missing."""
    seen = machine.component(component)
    if seen is not None and (seen.status in HERE or seen.instances):
        copy = next(iter(copies(machine.facts, component) or seen.instances), None)
        status = (copy or seen).status.value
        yield Subject(component=component, held={**everything(copy or seen), "status": status}, source=seen.source)


def _source(machine: Machine, component: str) -> str:
    seen = machine.component(component)
    return seen.source if seen else ""


_SOURCES = {
    "gpu": _gpus,
    "nvlink": _links,
    "pci-display": _slots,
    "nvml": _library,
    "infiniband": _ports,
    "nvswitch": _switches,
    "amd-gpu": _others,
    "intel-gpu": _others,
    "amdgpu.ko": _amdgpu,
}
