"""A compat libcuda that does not pair with the kernel driver is found first (CUDA error 803).

The cuda-compat package brings a libcuda of a newer driver branch, for older kernel drivers of certain branches, which
newer ones name in a note of their own. Here it is found before the driver's own and does not pair with the kernel
module: it is older than the module, or the module's branch is none that it was made for. Take it off the library path,
or install the package that pairs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.rules import compat_said
from gpustack.diagnose.rules.compat import asked, refused, winner
from gpustack.diagnose.rules.seen import driver_release

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts
    from gpustack.model.report import Finding

MISMATCH = 803


def judge(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Give the finding where cuInit says 803 with a compat libcuda, or where that one's own note foretells it."""
    told = compat_said.finding("compat-libs-803", MISMATCH, facts, matrix)
    if told:
        yield told
        return
    found, driver = winner(facts), driver_release(facts)
    foretold = asked(facts) is None and found and driver and found.pairs(driver) is False
    if found and (asked(facts) == MISMATCH or foretold):
        what = "does not pair with the kernel driver"
        yield refused("compat-libs-803", MISMATCH, what, facts, matrix)
