"""What of a system is worth comparing: the facts that stay as they are while nobody changes anything."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpustack.model.facts import Instance, JsonValue
    from gpustack.model.report import Report

PACKAGES = "packages"
VARIABLES = "environment"  # present where any variable is set
CHOSEN = "(the chosen Python)"
MINOR = re.compile(r"\bpython3\.\d+")
SEPARATORS = re.compile(r"[-_.]+")
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
    "nvidia-fabricmanager": ("running", "enabled"),
    "nvidia-persistenced": ("running", "enabled"),
    "python": ("kind", "glibc"),
    "pytorch": ("cuda", "hip", "accelerator", "archs"),
    "jax": ("cuda", "accelerator"),
    "onnxruntime": ("cuda", "accelerator", "providers"),
    VARIABLES: ("variables.*",),
    "limits": ("shm_bytes", "memlock_bytes", "open_files"),
    "user": ("groups",),
}


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


def plain(distribution: str) -> str:
    """Return the name of a distribution as PyPA compares names: flash_attn is flash-attn."""
    return SEPARATORS.sub("-", distribution).lower()


def common(text: str, report: Report) -> str:
    """Return a text without what only tells where the chosen Python lies, and which minor version it is."""
    chosen = report.environments[0].python if report.environments else ""
    prefix = str(PurePosixPath(chosen).parent.parent)
    own = prefix not in {"/", ".", "/usr", "/usr/local"}
    text = text.replace(chosen, CHOSEN) if "/" in chosen else text
    return MINOR.sub("python3", text.replace(f"{prefix}/", f"{CHOSEN}/") if own else text)


def identity(copy: Instance, report: Report) -> tuple[str | None, str]:
    """Return what makes a copy the same copy in two reports: its Python, and its place or name."""
    pci = copy.facts.get("pci")
    name = pci if isinstance(pci, str) else copy.path or copy.key
    return (common(copy.environment, report) if copy.environment else None, common(name, report))


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
