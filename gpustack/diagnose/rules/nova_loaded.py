"""nova, the kernel's new driver for NVIDIA GPUs, holds the GPU.

Only one driver can hold a GPU. nova (nova_core, nova_drm) cannot run CUDA, and while it holds the GPU, NVIDIA's module
finds no device. Keep it from being loaded, build the initial file system anew, and restart.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpustack.diagnose.rules.holders import held_by, told_by
from gpustack.diagnose.rules.saying import said
from gpustack.model.report import Confidence

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts
    from gpustack.model.report import Finding

NAME = re.compile(r"nova([-_](core|drm))?\b", re.IGNORECASE)
HOLDER = re.compile(r"nova([-_]?(core|drm))?\b", re.IGNORECASE)  # the kernel names its driver NovaCore


def judge(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Give the finding where nova holds a GPU or is loaded in the place of NVIDIA's module."""
    yield from held_by("nova_core", NAME, "nova-loaded", facts)
    bound = tuple(one for one in said(facts, "gpu-bound-to") if HOLDER.match(one.values.get("driver", "")))
    named = (*said(facts, "nova-in-use", "nova-said"), *bound)
    yield from told_by("nova_core", named, facts, matrix, finding="nova-loaded", confidence=Confidence.CERTAIN)
