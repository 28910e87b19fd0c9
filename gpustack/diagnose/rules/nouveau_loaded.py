"""nouveau, the kernel's own driver for NVIDIA GPUs, holds the GPU.

Only one driver can hold a GPU. While nouveau does, NVIDIA's module finds no device, and nothing of CUDA works. Keep
nouveau from being loaded, build the initial file system anew, since it is loaded from there, and restart.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpustack.diagnose.rules.holders import held_by, told_by
from gpustack.diagnose.rules.saying import heard, said
from gpustack.model.report import Confidence

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts
    from gpustack.model.report import Finding

NAME = re.compile(r"nouveau\b")
SAID = ("probe-conflict-nouveau", "nouveau-in-use")


def judge(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Give the finding where nouveau holds a GPU or is loaded in the place of NVIDIA's module."""
    yield from held_by("nouveau", NAME, "nouveau-loaded", facts)
    bound = tuple(one for one in said(facts, "gpu-bound-to") if NAME.match(one.values.get("driver", "")))
    named = (*said(facts, *SAID), *bound)
    yield from told_by("nouveau", named, facts, matrix, finding="nouveau-loaded", confidence=Confidence.CERTAIN)
    if not named and not heard(facts, "nova-in-use", "nova-said", "gpu-bound-to"):
        unnamed = said(facts, "probe-not-called", "nouveau-said")
        yield from told_by("nouveau", unnamed, facts, matrix, finding="nouveau-loaded", confidence=Confidence.LIKELY)
