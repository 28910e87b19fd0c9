"""Keep Ray's tasks and actors away from nodes that the last ``gpustack fleet judge`` found broken, missing or slow.

ray.remote(train).options(label_selector=fit("nodes/fleet.sqlite")).remote()
"""

import json
import subprocess

import ray


def fit(store: str) -> dict[str, str]:
    """Return a label selector for Ray 2.45 or newer that excludes the nodes that the store holds back."""
    command = ["gpustack", "fleet", "gate", "--store", store, "--format", "json"]
    gate = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    if gate.returncode not in {0, 1}:
        raise RuntimeError(f"gpustack fleet gate ended with {gate.returncode}")
    held = json.loads(gate.stdout)["exclude"]
    out = [one["NodeID"] for one in ray.nodes() if one["Alive"] and one["NodeName"] in held]
    return {"ray.io/node-id": f"!in({','.join(out)})"} if out else {}
