"""nvidia-uvm, the module for unified memory, is not there, and CUDA cannot start without it.

NVML and nvidia-smi work without it, so the driver looks well. It is loaded by the first CUDA program of root, or at the
start of the machine; in a container its device node must be passed in. Load it and make its node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.rules import fixes
from gpustack.diagnose.rules.reading import because, flag, items, status, text, told
from gpustack.diagnose.rules.saying import grounds, heard, said
from gpustack.diagnose.rules.seen import from_text, nvidia_here, starts
from gpustack.diagnose.rules.told_machine import machine, more, works
from gpustack.model.command import sh
from gpustack.model.facts import Layer, Status
from gpustack.model.report import Confidence, Finding, Fix, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts

NODE = "/dev/nvidia-uvm"
MODULE = "nvidia-uvm.ko"


FAILS = ("cuinit-999", "cuda-unknown-error", "no-device", "cuinit-3", "init-error")


def judge(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Give the finding where CUDA does not start, nvidia.ko is loaded, and nvidia-uvm or its node is not there."""
    yield from _told(facts, matrix)
    yield from _seen(facts)


def _told(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Give the finding where a text says that the module or its node is missing, or lists modules without it."""
    missing = said(facts, "uvm-missing")
    left_out = heard(facts, *FAILS) and (_listed_without(facts) or _made_by_root(facts))
    if heard(facts, "cuda-available-true") or not (missing or left_out) or (left_out and works(facts) and not missing):
        return
    node = any("/dev/nvidia-uvm" in one.line for one in missing)
    yield Finding(
        id="nvidia-uvm-missing",
        severity=Severity.ERROR,
        layer=Layer.KERNEL_MODULE,
        component=MODULE,
        title=f"{NODE}, the node of nvidia_uvm, is not there, and CUDA cannot start without it"
        if node
        else "nvidia_uvm (nvidia-uvm) is not loaded, and CUDA cannot start without it",
        detail=machine(facts, matrix, "NVML and graphics work without it, so the driver looks well."),
        because=(*grounds(facts, "uvm-missing"), *grounds(facts, *FAILS, most=2), *more(facts)),
        fix=_fix(facts),
        confidence=Confidence.CERTAIN if missing else Confidence.LIKELY,
    )


def _made_by_root(facts: Facts) -> bool:
    """Tell whether CUDA starts for root alone, who may load the module and make its node on the way."""
    return heard(facts, "works-as-root") and heard(facts, "cuinit-999", "cuda-unknown-error")


def _listed_without(facts: Facts) -> bool:
    """Tell whether a text lists the modules in memory or the nodes, and nvidia-uvm is not among them."""
    nodes = said(facts, "nodes-listed")
    if nodes and not any("uvm" in one.line or "uvm" in one.values.get("rest", "") for one in nodes):
        return True
    listed = from_text(facts) and flag(told(facts, "nvidia.ko"), "loaded") and facts.find("nvidia-drm.ko") is not None
    return bool(listed) and facts.find(MODULE) is None


def _fix(facts: Facts) -> Fix:
    return Fix(
        text=f"{fixes.place(facts)}Load nvidia_uvm and make its device node, now and at each start (a line nvidia-uvm "
        "in /etc/modules-load.d/); for a container, pass the node in.",
        commands=(sh("sudo modprobe nvidia_uvm"), sh("sudo nvidia-modprobe -c 0 -u")),
        needs_root=True,
        verify=sh("gpustack doctor"),
    )


def _seen(facts: Facts) -> Iterator[Finding]:
    """Give the finding for a machine that was looked at."""
    uvm = told(facts, MODULE)
    nodes = [node for node in items(uvm, "nodes") if text(node, "path") == NODE]
    out = status(facts, MODULE) is Status.ABSENT or flag(uvm, "loaded") is False
    no_node = any(flag(node, "exists") is False for node in nodes)
    if not nvidia_here(facts) or starts(facts) is not False or not flag(told(facts, "nvidia.ko"), "loaded"):
        return
    if out or no_node:
        yield Finding(
            id="nvidia-uvm-missing",
            severity=Severity.ERROR,
            layer=Layer.KERNEL_MODULE,
            component=MODULE,
            title="nvidia-uvm is not loaded, and CUDA cannot start without it" if out else f"{NODE} does not exist",
            because=(
                because(facts, MODULE, "loaded"),
                because(facts, MODULE, "nodes"),
                because(facts, "libcuda", "cu_init"),
            ),
            fix=_fix(facts),
        )
