"""Benchmarks that take several GPUs: which of them work together, and what to say where there is only one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpustack.bench.suite import Bench
    from gpustack.model.bench import Device

AGAIN = "gpustack bench 'p2p.*' 'nccl.*'"
SHOWN = "CUDA_VISIBLE_DEVICES"


def tasks(several: Sequence[Bench], gpus: Sequence[int]) -> dict[int, list[Bench]]:
    """Give for each GPU what its child runs: the pairs whose first it is, and the first GPU's what takes all."""
    works = {
        gpu: [
            replace(bench, company=(other,))
            for bench in several
            if bench.scope == "pair"
            for other in gpus
            if other != gpu
        ]
        for gpu in gpus
    }
    last = [replace(bench, company=tuple(gpus[1:])) for bench in several if bench.scope == "all"]
    works[gpus[0]] = [*works[gpus[0]], *last]
    return {gpu: work for gpu, work in works.items() if work}


def alone(environ: Mapping[str, str], devices: Sequence[Device]) -> tuple[str, str]:
    """Give why benchmarks that take several GPUs are skipped with one, and what to type to have them."""
    if len(devices) > 1:
        named = " ".join(f"--gpu {device.index}" for device in devices)
        return "one GPU was named, and this takes two or more", f"{AGAIN} {named}"
    if SHOWN in environ:
        return f"{SHOWN} shows one GPU, and this takes two or more", f"env -u {SHOWN} {AGAIN}"
    return "CUDA shows one GPU, and this takes two or more", "nvidia-smi topo -m"
