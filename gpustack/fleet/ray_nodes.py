"""Asking the nodes of a Ray cluster: one task on each, placed there by its node's id."""

from __future__ import annotations

import importlib
import subprocess
from functools import cache
from typing import Any

from gpustack.errors import NothingSeenError, UsageError

LAST = 200  # letters of what a failing command said


@cache
def _ray() -> Any:  # noqa: ANN401 - Ray, which only this engine needs
    """Return Ray, connected to the cluster that this machine is part of."""
    try:
        ray = importlib.import_module("ray")
    except ImportError as error:
        raise UsageError("--engine ray needs Ray on this machine: pip install 'ray[default]'") from error
    try:
        ray.init(address="auto", logging_level="ERROR", log_to_driver=False)
    except Exception as error:
        raise NothingSeenError(f"no Ray cluster answers here: {' '.join(str(error).split())[:LAST]}") from error
    return ray


@cache
def _ids() -> dict[str, str]:
    """Return the id of each node that lives, by its name; nodes of one name have their id behind it."""
    alive = [one for one in _ray().nodes() if one.get("Alive")]
    names = [str(one["NodeName"]) for one in alive]
    return {
        name if names.count(name) == 1 else f"{name}-{one['NodeID'][:8]}": one["NodeID"]
        for name, one in zip(names, alive, strict=True)
    }


def names() -> tuple[str, ...]:
    """Return the names of all nodes that live; raises where no cluster answers."""
    return tuple(sorted(_ids()))


def reach(name: str, words: tuple[str, ...], seconds: float) -> tuple[bytes, str]:
    """Run words on a node; return what they wrote, and why they failed or an empty text."""
    ray = _ray()
    node = _ids().get(name)
    if node is None:
        return b"", "Ray has no node of this name that lives"
    strategies = importlib.import_module("ray.util.scheduling_strategies")
    place = strategies.NodeAffinitySchedulingStrategy(node_id=node, soft=False)
    task = ray.remote(num_cpus=0, max_retries=0, scheduling_strategy=place)(_run).remote(words, seconds)
    try:
        answer: tuple[bytes, str] = ray.get(task, timeout=seconds + 5)
    except Exception as error:  # noqa: BLE001 - Ray's errors have no common class, and a dead node is an answer
        ray.cancel(task, force=True)
        return b"", f"Ray: {type(error).__name__}: {' '.join(str(error).split())[:LAST]}"
    return answer


def _run(words: tuple[str, ...], seconds: float) -> tuple[bytes, str]:
    """Run on the node itself, where nothing of gpustack needs to be importable."""
    try:
        done = subprocess.run(words, capture_output=True, timeout=seconds, check=False, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        return b"", f"no answer within {seconds:g} s"
    except OSError as error:
        return b"", f"{words[0]} cannot be run: {error.strerror}"
    if done.returncode and b"{" not in done.stdout:
        return b"", f"{words[0]} ended with {done.returncode}: {done.stderr[-LAST:].decode('utf-8', 'replace')}"
    return done.stdout, ""
