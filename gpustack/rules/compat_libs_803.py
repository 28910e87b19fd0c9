"""A compat libcuda that does not pair with the kernel driver is found first (CUDA error 803).

The cuda-compat package brings a libcuda of a newer driver branch, for older kernel drivers of certain branches. Here it
is found before the driver's own and does not pair with the kernel module: it is older than the module, or the module's
branch is none that it was made for. Take it off the library path, or install the package that pairs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.rules.compat import refused

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts
    from gpustack.model.report import Finding

MISMATCH = 803


def judge(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Give the finding where cuInit says 803 and the libcuda that was loaded is a compat one."""
    yield from refused("compat-libs-803", MISMATCH, "does not pair with the kernel driver", facts, matrix)
