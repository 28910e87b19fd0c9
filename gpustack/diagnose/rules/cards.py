"""What several probes saw of one GPU, put together: NVML's view, CUDA's, the kernel log's, and what its kind can do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from gpustack.diagnose.rules.reading import items, number, table, text, told
from gpustack.model.versions import ComputeCapability

if TYPE_CHECKING:
    from gpustack.matrix import Matrix
    from gpustack.model.facts import Component, Facts, Instance, JsonValue

PLAIN = frozenset({"fp32", "fp64"})  # done by the vector lanes as well, so no proof of tensor cores
BOTH_EDGES = 2


def whole(facts: Facts, matrix: Matrix) -> tuple[Component, ...]:
    """Give the components, each GPU with all that is known of it; nothing that NVML said is changed."""
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
    if arch is None or arch.tensor_cores is None:
        return {}
    return {"generation": arch.tensor_cores, "dtypes": tuple(name for name in arch.rates if name not in PLAIN)}


def _memory(copy: Instance, cuda: Mapping[str, JsonValue], matrix: Matrix) -> Mapping[str, JsonValue]:
    """Give the kind of memory, and its bandwidth in GB/s as it follows from clock and bus (both edges of the clock)."""
    clock, bits = number(cuda, "memory_clock_khz"), number(cuda, "bus_width_bits")
    kind = matrix.memory_of(text(copy.facts, "name") or "")
    known: dict[str, JsonValue] = {"type": kind} if kind else {}
    return {**known, "bandwidth_gb_s": round(BOTH_EDGES * clock * bits / 8e6, 1)} if clock and bits else known
