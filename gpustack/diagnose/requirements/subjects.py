"""What rows of the health table are checked on: GPUs, their links and slots, and the machine as a whole."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gpustack.diagnose.machine.inventory import from_text, gpus, ours, unasked
from gpustack.diagnose.machine.values import at, copies, everything, flag, items, number, table, text, told
from gpustack.matrix.subjects import gpus as products
from gpustack.model.facts import Status

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Component, Facts, JsonValue

DRIVER = ("nvml", "gpu", "nvlink", "libcuda")  # components whose probes ask NVML or CUDA
NOTHING: Mapping[str, JsonValue] = {}
# What is a number or a flag in the schema, or holds nothing else.
NUMBERS = (
    *("memory", "pcie", "power", "temperature", "clocks", "ecc", "remap", "retired", "repair", "inforom"),
    *("performance_state", "recovery_action", "persistence", "nvlinks", "cores"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
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
        names = {subject.product} if own else {one.product for one in self.subjects("gpu")}
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
    in_cuda = {text(one, "pci"): one for one in items(told(facts, "libcuda"), "devices")}
    for gpu in listed:
        retired = table(gpu.copy.facts, "retired")
        pages = sum(number(retired, kind) or 0 for kind in ("single_bit", "double_bit"))
        cuda = in_cuda.get(text(gpu.copy.facts, "pci"), NOTHING)
        more: dict[str, JsonValue] = {"status": gpu.copy.status.value, "unasked": unasked(gpu.copy), "cuda": cuda}
        more["misread"] = {name: value for name, value in _measured(gpu.copy.facts) if isinstance(value, str)}
        held = {**gpu.copy.facts, **more, "retired": {**retired, "single_bit+double_bit": pages}}
        mark = gpu.mark if text(gpu.copy.facts, "pci") else only or gpu.mark
        name = text(gpu.copy.facts, "name")
        present = name and gpu.copy.status is Status.PRESENT
        kind = (held.get("device_id"), slots.get(mark), name) if present else ()
        yield Subject(component=component, held=held, mark=mark, product=name, gpu=held, source=source, kind=kind)


def _measured(held: Mapping[str, JsonValue]) -> Iterator[tuple[str, JsonValue]]:
    """Yield the facts of a GPU that should be numbers or flags, whatever was recorded instead."""
    for name in NUMBERS:
        value = held.get(name)
        if isinstance(value, dict):
            yield from ((f"{name}.{part}", one) for part, one in value.items())
        else:
            yield name, value


def _links(machine: Machine, component: str) -> Iterator[Subject]:
    """Yield the NVLinks of each GPU."""
    named = {(one.held.get("uuid"), one.held.get("index")): one for one in machine.subjects("gpu")}
    source = _source(machine, component)
    for copy in copies(machine.facts, component):
        index = number(copy.facts, "index")
        fits = (one for (uuid, number_), one in named.items() if uuid == copy.key or number_ == index is not None)
        gpu = next(fits, None)
        mark = gpu.mark if gpu else copy.key
        product, of_gpu = (gpu.product, gpu.held) if gpu else (None, NOTHING)
        links = items(copy.facts, "links")
        known = sum(flag(link, "active") is not None for link in links) if links else None
        held = {**copy.facts, "answering": known}
        yield Subject(component=component, held=held, mark=mark, product=product, gpu=of_gpu, source=source)


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


def _whole(machine: Machine, component: str) -> Iterator[Subject]:
    """Yield the only copy of a component."""
    seen = machine.component(component)
    if seen is not None and seen.status in {Status.PRESENT, Status.FAILED}:
        copy = next(iter(copies(machine.facts, component)), None)
        yield Subject(component=component, held=everything(copy or seen), source=seen.source)


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
}
