"""The contracts inside NVIDIA's driver: its modules and libraries must all be of the release that is in memory."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gpustack.diagnose.rules.compatibility import Fit
from gpustack.diagnose.rules.contracts.edges import edge
from gpustack.diagnose.rules.reading import number, text, told
from gpustack.diagnose.rules.seen import loaded_release
from gpustack.model.report import Kept
from gpustack.model.versions import DriverRelease

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts
    from gpustack.model.report import Contract

MODULES = ("nvidia-uvm.ko", "nvidia-modeset.ko", "nvidia-drm.ko", "nvidia-peermem.ko")


def draw(facts: Facts, _matrix: Matrix) -> Iterator[Contract]:
    """Give how modules and libraries go with nvidia.ko."""
    loaded = loaded_release(facts)
    if loaded is None:
        return
    for module in MODULES:
        release = DriverRelease.parse(text(told(facts, module), "version_loaded"))
        if release:
            yield edge(module, "nvidia.ko", "release", _same(release, loaded))
    driver = told(facts, "nvidia-driver")
    works = number(told(facts, "nvml"), "code") == 0
    for library, name in (("libcuda", "libcuda"), ("libnvidia-ml", "libnvidia_ml")):
        release = DriverRelease.parse(text(driver, name))
        if release and not facts.host.wsl:
            same = _same(release, loaded)
            yield edge(library, "nvidia.ko", "release", replace(same, kept=Kept.OK) if works else same)


def _same(needs: DriverRelease, found: DriverRelease) -> Fit:
    return Fit(kept=Kept.OK if needs == found else Kept.BROKEN, needs=str(needs), found=str(found))
