"""A compat libcuda of a newer CUDA is loaded on a GPU that cannot use it (CUDA error 804).

Forward compatibility, a newer libcuda on an older kernel driver, is for data-centre GPUs. On GeForce and most
workstation cards CUDA refuses it. Take the compat folder off the library path and use a build for this driver, or bring
the driver up to date.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.rules.compat import refused

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts
    from gpustack.model.report import Finding

NOT_ON_THIS_GPU = 804


def judge(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Give the finding where cuInit says 804."""
    yield from refused("forward-compat-804", NOT_ON_THIS_GPU, "cannot be used on this GPU", facts, matrix)
