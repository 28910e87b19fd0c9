"""``python -m tools.fleet DIR --nodes 10000``: snapshots and benches of nodes with eight H200, and the planted faults.

Each node is the recorded host with two H200, its GPUs copied to make eight, with noise as measured (temperature,
power, clocks; figures with a coefficient of variation of 0.8 %, occasionally 3 %). Planted faults are broken drivers,
lost GPUs, drift of kernel and VBIOS, slow cards (5 to 15 %) and silent nodes; ``planted`` says which node has which
fault, and ``labels`` which rack it is in.
"""

from __future__ import annotations

import argparse
import copy
import gzip
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HOSTS = Path(__file__).resolve().parents[2] / "tests" / "hosts"
GPUS = 8
# Figures of one H200 as measured (docs/evidence), in their units, and the maximum of each.
FIGURES = {
    "pcie.h2d.pinned": (55.5, "GB/s", 63.0),
    "pcie.d2h.pinned": (55.3, "GB/s", 63.0),
    "hbm.read": (4721.0, "GB/s", 4917.0),
    "hbm.write": (4715.0, "GB/s", 4917.0),
    "hbm.copy": (4290.0, "GB/s", 4917.0),
    "gemm.bf16": (779.0, "TFLOP/s", 989.0),
    "launch.kernel": (2.3, "us", None),
}
SHARES = {"driver": 0.002, "lost": 0.002, "kernel": 0.0043, "vbios": 0.0043, "slow": 0.004, "silent": 0.001}
Json = Any


def fleet(folder: Path, count: int, seed: int, *, benches: int = 2) -> dict[str, list[str]]:
    """Write a fleet, and return which nodes have which fault; slow cards are ``node/gpu``."""
    draw = random.Random(seed)  # noqa: S311 - a fleet that can be made again, nothing secret
    base = json.loads((HOSTS / "recorded-h200-x2.json").read_text("utf-8"))["facts"]
    names = [f"gpu{number:05d}" for number in range(1, count + 1)]
    planted = {what: draw.sample(names, max(1, round(count * share))) for what, share in SHARES.items()}
    folder.mkdir(parents=True, exist_ok=True)
    slow: dict[str, int] = {name: draw.randrange(GPUS) for name in planted["slow"]}
    silent = set(planted["silent"])
    eight = _eight(base)
    for name in names:
        if name in silent:
            continue
        what = {kind for kind, held in planted.items() if name in held}
        _put(folder / f"{name}.json.gz", _node(eight, name, what, draw))
        by = 1 - draw.uniform(0.05, 0.15)
        for take in range(1, benches + 1):
            suffix = "bench" if take == 1 else f"bench.{take}"
            _put(folder / f"{name}.{suffix}.json.gz", _bench(slow.get(name), by, draw))
    (folder / "missing.json").write_text(json.dumps(dict.fromkeys(sorted(silent), "no answer within 60 s")))
    planted["slow"] = [f"{name}/{gpu}" for name, gpu in slow.items()]
    (folder / "planted").write_text(json.dumps(planted, indent=1))
    places = {name: {"rack": f"rack{at // 16:04d}", "switch": f"leaf{at // 32:03d}"} for at, name in enumerate(names)}
    (folder / "labels").write_text(json.dumps(places))
    return planted


def _eight(base: Json) -> Json:
    """Return the recorded host with eight GPUs instead of two."""
    made = copy.deepcopy(base)
    made["host"].update({"virtualisation": None, "container": None})  # a container may just lack a GPU
    for component in made["components"]:
        name = component["id"]
        if name in {"gpu", "pci-display", "nvlink"}:
            first = component["instances"][0]
            component["instances"] = [_renumbered(name, first, number) for number in range(GPUS)]
        if name == "nvml" and component["instances"]:
            component["instances"][0]["facts"]["gpu_count"] = GPUS
        if name == "nvml":
            component["facts"]["gpu_count"] = GPUS
        if name in {"libcuda", "nvidia.ko"}:
            for facts in (component["facts"], *(one["facts"] for one in component["instances"])):
                for held in ("devices", "gpus"):
                    if facts.get(held):
                        facts[held] = [_device(facts[held][0], number) for number in range(GPUS)]
                if facts.get("nodes"):
                    one = next(node for node in facts["nodes"] if node["path"] == "/dev/nvidia0")
                    rest = [node for node in facts["nodes"] if node["path"] not in {"/dev/nvidia0", "/dev/nvidia1"}]
                    facts["nodes"] = [*rest, *({**one, "path": f"/dev/nvidia{number}"} for number in range(GPUS))]
    return made


def _renumbered(name: str, first: Json, number: int) -> Json:
    one = copy.deepcopy(first)
    address, uuid = f"0000:00:{6 + number:02x}.0", f"GPU-{number + 1}"
    facts = one["facts"]
    one["key"] = {"gpu": one["key"] if one["key"] != "GPU-1" else uuid, "nvlink": uuid}.get(name, address)
    for key, value in (("index", number), ("minor", number), ("pci", address), ("uuid", uuid)):
        if key in facts:
            facts[key] = value
    if name == "gpu":
        one["key"] = uuid
    return one


def _device(first: Json, number: int) -> Json:
    one = copy.deepcopy(first)
    for key, value in (("ordinal", number), ("minor", number), ("pci", f"0000:00:{6 + number:02x}.0")):
        if key in one:
            one[key] = value
    if "uuid" in one:
        one["uuid"] = f"GPU-{number + 1}"
    return one


def _node(eight: Json, name: str, what: set[str], draw: random.Random) -> Json:
    node = copy.deepcopy(eight)
    parts = {one["id"]: one for one in node["components"]}
    node["host"]["hostname"] = name
    up = draw.randint(3_000, 9_000_000) + draw.randint(0, 99) / 100
    for one in (parts["linux-kernel"], *parts["linux-kernel"]["instances"]):
        one["facts"]["uptime_s"] = up
    for gpu in parts["gpu"]["instances"]:
        facts = gpu["facts"]
        heat = draw.randint(27, 38)
        facts["temperature"].update({"gpu_c": heat, "margin_c": 87 - heat, "memory_c": heat + draw.randint(2, 6)})
        facts["power"]["watts"] = round(draw.uniform(72, 84), 3)
        facts["memory"]["free_mib"] -= draw.randint(0, 3)
        facts["pcie"]["replays"] = draw.choice((0, 0, 0, 1, 2))
        facts["ecc"]["corrected_aggregate"] = draw.choice((0, 0, 0, 0, 3, 17))
    if "kernel" in what:
        node["host"]["kernel"] = "6.18.40-fc-v650-gpu"
        for one in (parts["linux-kernel"], *parts["linux-kernel"]["instances"]):
            one["version"] = "6.18.40"
    if "vbios" in what:
        parts["gpu"]["instances"][draw.randrange(GPUS)]["facts"]["vbios"] = "96.00.74.00.01"
    if "driver" in what:
        broken = json.loads((HOSTS / "module-mismatch-update.json").read_text("utf-8"))["facts"]
        return {**broken, "host": {**broken["host"], "hostname": name}}
    if "lost" in what:
        gone = draw.randrange(GPUS)
        for component in ("gpu", "nvlink"):
            del parts[component]["instances"][gone]
        for one in (parts["nvml"], *parts["nvml"]["instances"]):
            one["facts"]["gpu_count"] = GPUS - 1
    return node


def _bench(slow: int | None, by: float, draw: random.Random) -> Json:
    return {"schema": "gpustack.bench/1", "results": list(_results(slow, by, draw))}


def _results(slow: int | None, by: float, draw: random.Random) -> Iterator[Json]:
    for id_, (usual, unit, ceiling) in FIGURES.items():
        for gpu in range(GPUS):
            spread = 0.03 if draw.random() < 0.001 else 0.008  # noqa: PLR2004 - heavy tails, as they were measured
            value = usual * max(0.5, 1 + draw.gauss(0, spread))
            if gpu == slow and not id_.startswith(("pcie", "launch")):
                value *= by
            yield {
                "id": id_,
                "device": gpu,
                "unit": unit,
                "verdict": "ok",
                "median": round(value, 3),
                "interval": [round(value * 0.998, 3), round(value * 1.002, 3)],
                "ratio": round(value / ceiling, 4) if ceiling else None,
            }


def _put(path: Path, said: Json) -> None:
    path.write_bytes(gzip.compress(json.dumps(said).encode(), 1, mtime=0))


def main() -> None:
    """Make the fleet that the command line describes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--benches", type=int, default=2)
    asked = parser.parse_args()
    planted = fleet(asked.folder, asked.nodes, asked.seed, benches=asked.benches)
    print(json.dumps({what: len(held) for what, held in planted.items()}))


if __name__ == "__main__":
    main()
