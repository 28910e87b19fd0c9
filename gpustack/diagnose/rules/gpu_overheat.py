"""A GPU slows itself down because it is too hot.

The driver or the hardware holds the clocks back to keep the GPU below its limit, so programs run slower than they
could. Look at fans, air flow, dust and the temperature of the room; in a server, at the fan profile.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpustack.diagnose.rules import amd_faults
from gpustack.diagnose.rules.saying import because_said, grounds, heard, said
from gpustack.diagnose.rules.throttling import HW_THERMAL, SW_THERMAL, held_back
from gpustack.diagnose.rules.told_machine import machine, more, whole, xids_named
from gpustack.model.command import sh
from gpustack.model.facts import Layer
from gpustack.model.report import Finding, Fix, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts
    from gpustack.model.report import Because

OFF = "machine-gone-said"
GONE = ("fallen-off-bus", "gpu-lost", "pcie-dead", "gpu-vanishes")
DENIED = re.compile(
    r"\b(?:no|not|never|isn't|wasn't|aren't|without|rul(?:es?|ed|ing) out|incorrectly|wrongly|falsely)\b[^.;\n]{0,40}"
    r"(?:overheat|hot\b|therm|temperature|throttl)"
    r"|\b(?:if|whenever|should)\b[^.;\n]{0,40}(?:exceed|overheat|throttl|reach|hot\b)",
    re.IGNORECASE,
)
ADVICE = "Cool it: fans, air flow, dust, thermal paste, the room; in a server, the fan profile."


def judge(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Give each GPU that is held back for its temperature now."""
    bits, what = HW_THERMAL | SW_THERMAL, "is slowed down by heat"
    yield from held_back(facts, finding="gpu-overheat", bits=bits, what=what, advice=ADVICE)
    yield from amd_faults.heat(facts)
    yield from _told(facts, matrix)


def _told(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Give the finding where a text speaks of heat, or names a temperature at the limit and a GPU that went away."""
    hot = [one for one in said(facts, "overheat") if not DENIED.search(one.line)]
    degrees = (*said(facts, "gpu-hot"), *(said(facts, "temperature-told") if heard(facts, OFF) else ()))
    lost = heard(facts, *GONE) or bool(xids_named(facts, 79))
    gone = lost or heard(facts, OFF)
    if not hot and not (degrees and gone):
        return
    most = max((whole(one.values.get("celsius")) for one in degrees), default=0)
    because: list[Because] = [because_said(one) for one in (*hot[:3], *degrees[:2])]
    yield Finding(
        id="gpu-overheat",
        severity=Severity.ERROR if gone else Severity.WARNING,
        layer=Layer.HARDWARE,
        component="gpu",
        title="A GPU is too hot" + (f" ({most} C)" if most else "") + _end(lost=lost, gone=gone),
        detail=machine(facts, matrix, "At its temperature limit a GPU cuts its clocks, then goes."),
        because=(*because, *grounds(facts, *GONE, OFF, most=2), *more(facts)),
        fix=Fix(text=ADVICE, commands=(sh("nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER"),), verify=sh("nvidia-smi")),
    )


def _end(*, lost: bool, gone: bool) -> str:
    """Give what came of the heat, in words."""
    if lost:
        return ", and was lost from the bus for it"
    return ", and goes off for it" if gone else " and slows itself down (thermal)"
