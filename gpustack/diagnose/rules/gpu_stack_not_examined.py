"""There is a GPU whose stack gpustack has not examined.

The bus shows a GPU of AMD or Intel, and nothing was learnt of its kernel driver, libraries and frameworks: these facts
are of a version that did not look at them, the look failed, or a text tells of the bus alone. So nothing can be said of
them, well or ill.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.rules.reading import because_of, copies, text
from gpustack.diagnose.rules.seen import from_text, nvidia_here, on_bus
from gpustack.model.facts import Layer
from gpustack.model.report import Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts

MAKERS = {"amd": "AMD", "intel": "Intel"}


def judge(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """Give each GPU of another maker: not known on its own, a remark beside an NVIDIA GPU."""
    for copy in on_bus(facts, *MAKERS):
        vendor = text(copy.facts, "vendor") or "amd"
        maker = MAKERS[vendor]
        if copy.key in {text(one.facts, "pci") or one.key for one in copies(facts, f"{vendor}-gpu")}:
            continue
        yield Finding(
            id="gpu-stack-not-examined",
            instance=copy.key,
            severity=Severity.INFO if nvidia_here(facts) else Severity.UNKNOWN,
            layer=Layer.HARDWARE,
            component="pci-display",
            title=f"Nothing is told of the {maker} GPU at {copy.key} but its place on the bus"
            if from_text(facts)
            else f"The stack of the {maker} GPU at {copy.key} is not examined by this version",
            because=(
                because_of(facts, "pci-display", copy, "vendor_id"),
                because_of(facts, "pci-display", copy, "driver"),
            ),
        )
