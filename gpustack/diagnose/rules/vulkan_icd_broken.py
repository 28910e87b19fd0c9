"""A driver is registered for Vulkan whose library is not there.

Each manifest in the loader's folders (vulkan/icd.d), or named by VK_DRIVER_FILES, names the library of one driver. The
loader passes over what it cannot load, and says so only when it is asked to (VK_LOADER_DEBUG=all). Mostly a driver was
removed and its manifest stayed, or a container was given the manifest without the library.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.rules.registered import broken
from gpustack.model.command import sh

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts
    from gpustack.model.report import Finding


def judge(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """Give each registered driver that is not there."""
    yield from broken(facts, "vulkan", "vulkan-icd-broken", sh("vulkaninfo --summary"))
