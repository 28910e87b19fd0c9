"""A GPU slows itself down because it is too hot.

The driver or the hardware holds the clocks back to keep the GPU below its limit, so programs run slower than they
could. Look at fans, air flow, dust and the temperature of the room; in a server, at the fan profile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.rules.throttling import HW_THERMAL, SW_THERMAL, held_back

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts
    from gpustack.model.report import Finding


def judge(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """Give each GPU that is held back for its temperature now."""
    advice = "Cool it: fans, air flow, dust, the room; in a server, the fan profile."
    bits, what = HW_THERMAL | SW_THERMAL, "is slowed down by heat"
    yield from held_back(facts, finding="gpu-overheat", bits=bits, what=what, advice=advice)
