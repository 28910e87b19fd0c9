"""A GPU is slowed down by its hardware: a power brake signal or a power fault.

The machine's board or power supply tells the GPU to draw less, or the GPU has seen its supply sag, and its clocks are
cut to half or less. Look at power supplies, their cables and the load on them, and at the server's own event log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.rules.throttling import HW_SLOWDOWN, HW_THERMAL, POWER_BRAKE, SW_THERMAL, held_back

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts
    from gpustack.model.report import Finding


def judge(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """Give each GPU that its hardware holds back now for another reason than heat."""
    yield from held_back(
        facts,
        finding="gpu-hw-slowdown",
        bits=HW_SLOWDOWN | POWER_BRAKE,
        unless=HW_THERMAL | SW_THERMAL,
        what="is slowed down by its hardware (power)",
        advice="Look at the power supplies, their cables and the load on them, and at the server's event log.",
    )
