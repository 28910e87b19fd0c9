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
OTHERS = ("amd-gpu", "intel-gpu")
LINK = {"speed": 16.0, "width": 16, "max_speed": 16.0, "max_width": 16}


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


def amd(count: int) -> dict[str, Any]:
    """Return a recorded machine with this many of its eight MI210, each with what sysfs says of a healthy one."""
    said = recorded("amd-healthy-mi210")
    found = part(said, "amd-gpu")
    del found["instances"][count:]
    for one in found["instances"]:
        one["facts"].update(
            name="AMD Instinct MI210",
            driver="amdgpu",
            vbios="113-D67301-063",
            partition_mode="SPX",
            memory={"vram_total_mib": 65520, "vram_used_mib": 10},
            link={**LINK, "slot": {"speed": 16.0, "width": 16}, "replays": 0},
            clocks={"max_core_mhz": 1700, "max_memory_mhz": 1600},
            ras={"uncorrected": 0, "corrected": 0, "blocks": {"umc": {"ue": 0, "ce": 0}}, "bad_pages": 0},
            temperature={"junction_c": 41.0, "junction_limit_c": 100.0, "memory_c": 44.0, "memory_limit_c": 95.0},
            power={"watts": 42.0, "limit_watts": 300.0},
        )
    here = {one["key"] for one in found["instances"]}
    module, fabric = (part(said, name)["instances"][0]["facts"] for name in ("amdgpu.ko", "infinity-fabric"))
    module["nodes"] = [one for one in module["nodes"] if one["pci"] in {None, *here}]
    fabric["links"] = [one for one in fabric["links"] if {one["from"], one["to"]} <= here]
    return said


def intel(count: int) -> dict[str, Any]:
    """Return a recorded machine of an Arc B580 with this many of a server's GPUs in its place."""
    said = recorded("intel-arc-b580")
    part(said, "intel-gpu")["instances"][0]["facts"].update(
        name="Intel Data Center GPU Flex 170",
        link={**LINK, "at": "gpu", "switch": False},
        firmware={"guc": {"state": "RUNNING"}, "huc": {"state": "RUNNING"}},
        nodes=[{"path": "/dev/dri/renderD128", "exists": True, "readable": True, "writable": True}],
        memory_bytes=16 << 30,
        memory_window_bytes=16 << 30,
        xe_cores=32,
    )
    add(said, "kernel-log", "kernel", {"readable": True})
    for name in ("intel-gpu", "pci-display"):
        here = part(said, name)["instances"]
        here[:] = [copy.deepcopy(here[0]) for _ in range(count)]
        for number, one in enumerate(here):
            one["key"] = one["facts"]["pci"] = pci(number)
    (driver,) = part(said, "level-zero")["instances"][0]["facts"]["drivers"]
    driver["devices"] = [{**driver["devices"][0], "pci": pci(number)} for number in range(count)]
    return said


def of(maker: str, count: int) -> dict[str, Any]:
    """Return the machine of two or eight GPUs of this maker that faults are planted in."""
    if maker != "gpu":
        return {"amd-gpu": amd, "intel-gpu": intel}[maker](count)
    return eight() if count > 2 else recorded()


def address(said: dict[str, Any], number: int, maker: str = "gpu") -> str:
    """Return the address of one of the machine's GPUs."""
    if maker == "gpu":
        return pci(number)
    found: str = part(said, maker)["instances"][number]["key"]
    return found


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
    held: Any = part(said, name)["instances"][gpu if name in {*GPUS, *OTHERS} else 0]["facts"]
    *way, last = path.replace("]", "").replace("[", ".").split(".")
    for step in way:
        held = held[int(step)] if isinstance(held, list) else held.setdefault(step, {})
    held[last] = value
