"""Intel's GPUs as rules see them: which are present, which driver owns them, what Level Zero lists."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from gpustack.diagnose.machine.inventory import Build, builds, on_bus
from gpustack.diagnose.machine.values import copies, flag, items, number, status, table, text, told
from gpustack.matrix.subjects import amd_intel
from gpustack.model.facts import Facts, Instance, JsonValue, Status

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpustack.matrix import Matrix


INTEL_GPU, LEVEL_ZERO, RUNTIME = "intel-gpu", "level-zero", "intel-compute-runtime"
MODULES = frozenset({"i915", "xe"})


def cards(facts: Facts) -> tuple[Instance, ...]:
    """Return the GPUs that can compute: bound to one of Intel's modules, with firmware that started."""
    return tuple(
        copy
        for copy in copies(facts, INTEL_GPU)
        if text(copy.facts, "driver") in MODULES and not table(copy.facts, "survivability")
    )


def discrete(facts: Facts) -> tuple[Instance, ...]:
    """Return the discrete ones."""
    return tuple(copy for copy in cards(facts) if flag(copy.facts, "integrated") is False)


def alone(facts: Facts) -> bool:
    """Return whether the machine has only Intel GPUs, at least one of which can compute."""
    return bool(cards(facts)) and not on_bus(facts, "nvidia", "amd")


def closed(facts: Facts) -> tuple[Mapping[str, JsonValue], ...]:
    """Return the render nodes of GPUs that can compute which this login cannot both read and write."""
    nodes = (table(node) for copy in cards(facts) for node in items(copy.facts, "nodes"))
    return tuple(
        node
        for node in nodes
        if flag(node, "exists") and (flag(node, "readable") is False or flag(node, "writable") is False)
    )


def xpu_builds(facts: Facts) -> tuple[Build, ...]:
    """Return the frameworks that are built for Intel's GPUs."""
    return tuple(build for build in builds(facts) if build.accelerator == "xpu")


def listed(facts: Facts) -> tuple[Mapping[str, JsonValue], ...]:
    """Return the GPUs that Level Zero lists."""
    drivers = items(told(facts, LEVEL_ZERO), "drivers")
    devices = (table(device) for driver in drivers for device in items(driver, "devices"))
    return tuple(device for device in devices if text(device, "kind") == "gpu")


def starts(facts: Facts) -> bool | None:
    """Return whether Level Zero starts and lists a GPU; None if it was not tried."""
    if status(facts, LEVEL_ZERO) is Status.ABSENT:
        return False
    code = number(told(facts, LEVEL_ZERO), "ze_init")
    return None if code is None else bool(code == 0 and listed(facts))


def completed(copy: Instance, facts: Facts, matrix: Matrix) -> Instance:
    """Return a GPU with its name, platform and what Level Zero reports; measured facts are unchanged."""
    device = next((one for one in listed(facts) if text(one, "pci") == text(copy.facts, "pci")), {})
    more = _more(copy, device, matrix)
    return replace(copy, facts={**copy.facts, **more}) if more else copy


def device_of(copy: Instance) -> int | None:
    """Return a GPU's PCI device number."""
    digits = text(copy.facts, "device_id") or ""
    return int(digits, 16) if re.fullmatch("0x[0-9a-fA-F]{4}", digits) else None


def _more(copy: Instance, device: Mapping[str, JsonValue], matrix: Matrix) -> dict[str, JsonValue]:
    """Return what the bus alone does not show."""
    device_number = device_of(copy)
    known = amd_intel.platform_of(matrix, device_number) if device_number is not None else None
    product = amd_intel.product_of(matrix, device_number) if device_number is not None else None
    more: dict[str, JsonValue] = {
        "name": text(device, "name") or product,
        "platform": known.name if known else None,
        "xe_cores": number(device, "xe_cores"),
        "memory_bytes": number(device, "memory_bytes"),
    }
    return {name: held for name, held in more.items() if held is not None and copy.facts.get(name) is None}


def name_of(copy: Instance) -> str:
    """Return a GPU's display name, with its address."""
    return f"{text(copy.facts, 'name') or 'Intel GPU'} at {copy.key}"
