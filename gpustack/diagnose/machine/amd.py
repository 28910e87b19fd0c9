"""AMD's GPUs in the terms of the rules, as the kernel lists them: which compute, and whether we may use them.

Facts that come only from texts are not here; the rules about texts use those.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpustack.diagnose.machine.events import heard
from gpustack.diagnose.machine.inventory import PASSED_ON, from_text, on_bus
from gpustack.diagnose.machine.values import copies, flag, items, table, text, texts, told
from gpustack.model import record

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpustack.model.facts import Facts, Instance, JsonValue


MODULE, OVERRIDE = "amdgpu.ko", "HSA_OVERRIDE_GFX_VERSION"
SOFTWARE = ("rocm", "hip", "hsa-runtime")
KFD = "/dev/kfd"
DISCRETE = re.compile(r"Arc|Instinct|Radeon (?:RX|Pro|VII)|Data Center GPU|Navi|Vega (?:10|20)|Aldebaran|Ellesmere")


@record
class AmdGpu:
    """One AMD GPU, or one partition of it. ``kfd`` says whether the kernel enables it for computing."""

    mark: str
    name: str
    gfx: str | None
    kfd: bool
    integrated: bool
    driver: str | None
    copy: Instance

    @property
    def title(self) -> str:
        """Its display name, with its target."""
        return f"{self.name} ({self.gfx})" if self.gfx else self.name


def gpus(facts: Facts) -> tuple[AmdGpu, ...]:
    """Return the GPUs that this machine can use, without those passed through to a virtual machine."""
    seen = (_gpu(copy) for copy in copies(facts, "amd-gpu") if flag(copy.facts, "kfd") is not None)
    return tuple(gpu for gpu in seen if gpu.driver not in PASSED_ON) if not from_text(facts) else ()


def examined(facts: Facts) -> bool:
    """Return whether the kernel was asked about AMD's GPUs and answered."""
    return any(flag(copy.facts, "kfd") is not None for copy in copies(facts, "amd-gpu"))


def _gpu(copy: Instance) -> AmdGpu:
    held = copy.facts
    return AmdGpu(
        mark=copy.key,
        name=text(held, "name") or "AMD GPU",
        gfx=text(held, "gfx"),
        kfd=flag(held, "kfd") is True,
        integrated=flag(held, "integrated") is True,
        driver=text(held, "driver"),
        copy=copy,
    )


def computing(facts: Facts) -> tuple[AmdGpu, ...]:
    """Return the GPUs that ROCm can see, whether this user may access them or not."""
    return tuple(gpu for gpu in gpus(facts) if gpu.kfd and gpu.gfx)


def cards(facts: Facts) -> tuple[AmdGpu, ...]:
    """Return those that are not part of a processor."""
    return tuple(gpu for gpu in computing(facts) if not gpu.integrated)


def closed(facts: Facts) -> tuple[Mapping[str, JsonValue], ...]:
    """Return the existing device nodes of AMD's GPUs that this user may not both read and write."""
    if from_text(facts):
        return ()
    nodes = (table(node) for node in items(told(facts, MODULE), "nodes"))
    return tuple(
        node
        for node in nodes
        if flag(node, "exists") and (flag(node, "readable") is False or flag(node, "writable") is False)
    )


def ready(facts: Facts) -> bool | None:
    """Return whether a ROCm program finds a GPU it may use; None if unknown.

    It needs /dev/kfd and the render node of one GPU. GPUs all reserved for guests are fine.
    """
    here = computing(facts)
    if not here:
        return True if examined(facts) and not gpus(facts) else False if gpus(facts) else None
    nodes = {text(node, "path"): node for node in items(told(facts, MODULE), "nodes")}
    if not nodes:
        return None
    kernel = _usable(nodes.get(KFD))
    own = [_usable(nodes.get(text(gpu.copy.facts, "render"))) for gpu in here]
    if kernel is False or not {True, None} & {*own}:
        return False
    return True if kernel and True in own else None


def _usable(node: JsonValue) -> bool | None:
    """Return whether this user may access a node; None if not checked."""
    said = [flag(node, name) for name in ("exists", "readable", "writable")]
    return False if False in said else None if None in said else True


def alone(facts: Facts) -> bool:
    """Return whether ROCm or an AMD GPU is mentioned and nothing of NVIDIA, so that CUDA's errors are HIP's."""
    mentioned = copies(facts, "amd-gpu") or copies(facts, "rocm") or heard(facts, "rocm-named")
    return bool(mentioned) and not any(copies(facts, one) for one in ("gpu", "nvidia-driver", "cuda-toolkit"))


def foreign(facts: Facts) -> bool:
    """Return whether a text names an AMD or Intel GPU and nothing of NVIDIA, so that CUDA's libraries are of no use."""
    bus = [copy for copy in on_bus(facts, "amd", "intel") if DISCRETE.search(text(copy.facts, "name") or "")]
    others = bus or copies(facts, "amd-gpu") or copies(facts, "intel-gpu")
    nvidia = on_bus(facts, "nvidia") or any(copies(facts, one) for one in ("gpu", "nvidia-driver", "nvml"))
    return not facts.taken and bool(others) and not nvidia


def wanted(facts: Facts) -> bool:
    """Return whether something that computes on AMD's GPUs is installed."""
    rocm = any(copies(facts, name) for name in SOFTWARE)
    return rocm or any((copy.build or "").startswith("rocm") for copy in copies(facts, "pytorch"))


def logged(facts: Facts, *words: str) -> tuple[str, ...]:
    """Return the kernel log's lines about amdgpu and KFD, all or those with one of these words."""
    lines = texts(told(facts, "kernel-log"), "amdgpu")
    return tuple(line for line in lines if not words or any(word in line for word in words))


def override(facts: Facts) -> str | None:
    """Return the target that ROCm treats every GPU as, from its variable: 10.3.0 is gfx1030."""
    said = text(table(told(facts, "environment"), "variables"), OVERRIDE)
    parts = re.fullmatch(r"(\d{1,2})\.(\d{1,2})\.(\d{1,2})", said or "")
    return f"gfx{parts[1]}{int(parts[2]):x}{int(parts[3]):x}" if parts else None
