"""The proprietary kernel module cannot run this GPU.

From Blackwell on, NVIDIA's driver runs GPUs only with its open kernel module. With the proprietary one, the driver
loads and lists no such GPU. Install the open flavour, in branch 570 or newer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.rules import fixes
from gpustack.diagnose.rules.reading import because, because_of, number, text, told
from gpustack.diagnose.rules.seen import arch_on_bus, listed, ours
from gpustack.model.facts import Layer
from gpustack.model.report import Confidence, Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts


def judge(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Give each GPU that the proprietary module leaves out although NVML answers."""
    counted = number(told(facts, "nvml"), "gpu_count") is not None
    if text(told(facts, "nvidia.ko"), "flavour") != "proprietary" or not counted:
        return
    for copy in ours(facts):
        arch = arch_on_bus(copy, matrix)
        flavour = matrix.flavour(arch) if arch else None
        if flavour is None or flavour.closed != "impossible" or listed(facts, copy.key):
            continue
        yield Finding(
            id="closed-module-unsupported-gpu",
            instance=copy.key,
            severity=Severity.ERROR,
            layer=Layer.KERNEL_MODULE,
            component="nvidia.ko",
            title=f"The proprietary kernel module cannot run the {arch} GPU at {copy.key}; it needs the open one",
            because=(because(facts, "nvidia.ko", "flavour"), because_of(facts, "pci-display", copy, "device_id")),
            row=flavour.row,
            fix=fixes.rebuild(facts, "Install the open flavour of the kernel module.", *fixes.driver(facts, matrix)),
            confidence=Confidence.LIKELY,
        )
