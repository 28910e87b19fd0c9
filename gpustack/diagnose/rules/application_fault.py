"""A program on a GPU failed by its own doing; the stack is well.

The driver writes an Xid for faults of programs too: an address that is not mapped (31), an illegal instruction or index
(13), and what follows when such a program ends (43, 45). Neither GPU nor driver is at fault. Run the program under
compute-sanitizer; only where one GPU fails under many sound programs, test the GPU.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.rules.events import faults_of_programs
from gpustack.model.facts import Layer
from gpustack.model.report import Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts


def judge(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Give each GPU on which programs failed by themselves since the start; never a fault of the host."""
    for event in faults_of_programs(facts):
        known = matrix.xids.get(event.code)
        name = f" ({known.name})" if known else ""
        times = f", {event.count} times" if event.count > 1 else ""
        program = f"The program {event.process}" if event.process else "A program"
        yield Finding(
            id="application-fault",
            instance=event.pci,
            severity=Severity.INFO,
            layer=Layer.APPLICATION,
            component="kernel-log",
            title=f"{program} failed on the GPU at {event.pci}: Xid {event.code}{name}{times}",
            detail=f"{known.meaning}; {known.advice}." if known and known.advice else "",
            because=(event.because,),
            row=known.row if known else None,
        )
