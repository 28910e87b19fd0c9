"""Recorded machines with more GPUs, and with faults planted in them."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpustack.snapshots import read

if TYPE_CHECKING:
    from gpustack.model.facts import Facts

HOSTS = Path(__file__).parents[1] / "hosts"
GPUS = ("gpu", "nvlink", "pci-display")


def recorded(name: str = "recorded-h200-x2") -> dict[str, Any]:
    """Return the facts of a recorded machine as JSON."""
    said: dict[str, Any] = json.loads((HOSTS / f"{name}.json").read_text("utf-8"))["facts"]
    return said


def facts(said: dict[str, Any]) -> Facts:
    """Return facts parsed from JSON."""
    return read(json.dumps(said))


def eight() -> dict[str, Any]:
    """Return the recorded machine of two GPUs extended to eight: each has its own UUID, address and number."""
    said = recorded()
    for name in GPUS:
        found = part(said, name)
        found["instances"] = [numbered(found["instances"][0], number) for number in range(8)]
    part(said, "nvml")["instances"][0]["facts"]["gpu_count"] = 8
    module = part(said, "nvidia.ko")["instances"][0]["facts"]
    gpus, nodes = module["gpus"], module["nodes"]
    module["gpus"] = [{**gpus[0], "pci": pci(number), "minor": number} for number in range(8)]
    module["nodes"] = [nodes[0], *({**nodes[1], "path": f"/dev/nvidia{number}"} for number in range(8))]
    cuda = part(said, "libcuda")["instances"][0]["facts"]
    cuda["devices"] = [
        {**copy.deepcopy(cuda["devices"][0]), "ordinal": number, "pci": pci(number)} for number in range(8)
    ]
    for name in (*GPUS, "nvml", "nvidia.ko", "libcuda"):
        part(said, name)["facts"] = part(said, name)["instances"][0]["facts"]
    return said


def pci(number: int) -> str:
    """Return the address of a GPU of these machines."""
    return f"0000:00:{6 + number:02x}.0"


def part(said: dict[str, Any], name: str) -> dict[str, Any]:
    """Return one component."""
    found: dict[str, Any] = next(one for one in said["components"] if one["id"] == name)
    return found


def numbered(instance: dict[str, Any], number: int) -> dict[str, Any]:
    """Return an instance changed into that of another GPU."""
    made = copy.deepcopy(instance)
    made["key"] = pci(number) if made["key"].startswith("0000:") else f"GPU-{number + 1}"
    inside = made["facts"]
    if "index" in inside:
        inside["index"] = number
    if "uuid" in inside:
        inside.update(uuid=f"GPU-{number + 1}", pci=pci(number), minor=number)
    return made


def add(said: dict[str, Any], name: str, layer: str, held: dict[str, Any]) -> None:
    """Add a component with one copy."""
    one = {"key": "0", "version": None, "build": None, "path": None, "environment": None, "status": "present"}
    whole = {"id": name, "layer": layer, "vendor": "any", "status": "present", "version": None, "build": None}
    more: dict[str, Any] = {
        "path": None,
        "facts": held,
        "source": "a probe",
        "reason": None,
        "seconds": 0.0,
        "calls": [],
    }
    said["components"].append({**whole, **more, "instances": [{**one, "facts": held}]})


def add_ports(said: dict[str, Any], count: int = 4) -> None:
    """Add network cards of one kind with a port each, all of them in use."""
    port = {
        "link_layer": "InfiniBand",
        "state": "ACTIVE",
        "physical": "LinkUp",
        "rate_gbps": 400.0,
        "width": 4,
        "firmware": "28.39.1002",
        "board": "MT_0000000838",
        "pci": "0000:65:00.0",
        "lanes": 16,
        "max_lanes": 16,
        "errors": {"link_downed": 1, "symbol_error": 3},
    }
    add(said, "infiniband", "hardware", {})
    (one,) = part(said, "infiniband")["instances"]
    ports = [{**one, "key": f"mlx5_{number}/1", "facts": copy.deepcopy(port)} for number in range(count)]
    part(said, "infiniband")["instances"] = ports


def put(said: dict[str, Any], name: str, gpu: int, path: str, value: object) -> None:
    """Set a fact of one GPU's instance of a component; ``links[3]`` is a member of a list."""
    held: Any = part(said, name)["instances"][gpu if name in GPUS else 0]["facts"]
    *way, last = path.replace("]", "").replace("[", ".").split(".")
    for step in way:
        held = held[int(step)] if isinstance(held, list) else held.setdefault(step, {})
    held[last] = value
