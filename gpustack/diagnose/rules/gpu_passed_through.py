"""An NVIDIA GPU is held for a virtual machine.

Its PCI device is bound to vfio-pci or another driver that keeps it for guests, so this machine's own programs cannot
use it. That is how passing a GPU through works, and no fault. To use it here, unbind it for NVIDIA's driver to take.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.rules.reading import because_of, text
from gpustack.diagnose.rules.seen import PASSED_ON, on_bus
from gpustack.model.facts import Layer
from gpustack.model.report import Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts


def judge(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """Give each GPU that is held for a guest."""
    for copy in on_bus(facts, "nvidia"):
        if (driver := text(copy.facts, "driver")) in PASSED_ON:
            yield Finding(
                id="gpu-passed-through",
                instance=copy.key,
                severity=Severity.INFO,
                layer=Layer.HARDWARE,
                component="pci-display",
                title=f"The GPU at {copy.key} is held for a virtual machine by {driver}",
                because=(because_of(facts, "pci-display", copy, "driver"),),
            )
