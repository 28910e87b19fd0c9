"""An NVLink between GPUs, or to a switch, has failed since the start.

The driver writes Xid 74 for the GPU, and switches write SXids of their own: the fault may be at either end, and one
fault is often written at both. Programs that used the link have died. Reset the GPUs on that link; where it comes back,
seat the bridge or board again, and have the part exchanged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.rules import fixes
from gpustack.diagnose.rules.events import LINK, xids
from gpustack.model.command import GPU, sh
from gpustack.model.facts import Layer
from gpustack.model.report import Finding, Fix, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts


def judge(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Give one finding for all GPUs that wrote Xid 74: both ends of a link write it."""
    events = list(xids(facts, LINK))
    if not events:
        return
    row, where = matrix.xids.get(LINK), ", ".join(event.pci for event in events)
    switches = f", and switches wrote {events[0].links} SXids" if events[0].links else ""
    yield Finding(
        id="nvlink-error",
        severity=Severity.WARNING,
        layer=Layer.HARDWARE,
        component="nvlink",
        title=f"NVLink failed at {where}{switches}",
        because=tuple(event.because for event in events),
        row=row.row if row else None,
        fix=Fix(
            text=f"{fixes.place(facts)}Stop the programs on these GPUs and reset them together.",
            commands=(sh("sudo nvidia-smi --gpu-reset -i {gpus}", gpus=GPU(",".join(event.pci for event in events))),),
            needs_root=True,
            verify=sh("nvidia-smi nvlink --status"),
        ),
    )
