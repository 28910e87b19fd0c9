"""There is a GPU whose stack this version of gpustack does not examine.

The bus shows a GPU of AMD or Intel. Its kernel driver, libraries and frameworks are not looked at yet, so nothing can
be said of them, well or ill.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.model.facts import Layer
from gpustack.model.report import Finding, Severity
from gpustack.rules.reading import because_of, text
from gpustack.rules.seen import nvidia_here, on_bus

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts

MAKERS = {"amd": "AMD", "intel": "Intel"}


def judge(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """Give each GPU of another maker: not known on its own, a remark beside an NVIDIA GPU."""
    for copy in on_bus(facts, *MAKERS):
        maker = MAKERS[text(copy.facts, "vendor") or "amd"]
        yield Finding(
            id="gpu-stack-not-examined",
            instance=copy.key,
            severity=Severity.INFO if nvidia_here(facts) else Severity.UNKNOWN,
            layer=Layer.HARDWARE,
            component="pci-display",
            title=f"The stack of the {maker} GPU at {copy.key} is not examined by this version",
            because=(
                because_of(facts, "pci-display", copy, "vendor_id"),
                because_of(facts, "pci-display", copy, "driver"),
            ),
        )
