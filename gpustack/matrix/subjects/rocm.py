"""AMD GPUs under ROCm: the target of a product, who has code for it, and which kernel driver goes with which ROCm."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpustack.matrix.subjects.ranges import VersionRange
from gpustack.matrix.tables import row

if TYPE_CHECKING:
    from gpustack.matrix import Matrix
    from gpustack.matrix.tables import Line
    from gpustack.model.report import Row

_NOISE = re.compile(r"\((?:tm|r)\)|[®™]")
NEVER = "has no entry"
_TARGET = re.compile(r"gfx[0-9a-f]{3,4}")


@dataclass(frozen=True, slots=True, kw_only=True)
class GfxTarget:
    """One target and the products, by words of their names, that have it."""

    gfx: str
    generation: str
    names: tuple[str, ...]
    row: Row


@dataclass(frozen=True, slots=True, kw_only=True)
class RocmSupport:
    """The targets that some releases of ROCm support, and how much (supported, deprecated, release-ready, built …)."""

    rocm: VersionRange
    level: str
    gfx: tuple[str, ...]
    row: Row


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchRocmBuild:
    """One build of torch for a ROCm; ``archs`` is empty where its GPU code was not read."""

    torch: str
    rocm: str
    archs: tuple[str, ...]
    row: Row


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverWindow:
    """The releases of ROCm that run on one release of amdgpu-dkms."""

    driver: str
    rocm: VersionRange
    row: Row


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverModule:
    """What the module of one release of amdgpu-dkms calls its version."""

    driver: str
    module: str
    row: Row


@dataclass(frozen=True, slots=True, kw_only=True)
class Override:
    """The value of HSA_OVERRIDE_GFX_VERSION that takes a target for its nearest relative, and what comes of it."""

    gfx: str
    value: str
    outcome: str
    row: Row


@dataclass(frozen=True, slots=True, kw_only=True)
class ChipsWithoutKfd:
    """Chips that the kernel's compute driver does not take; ``never``: under no condition."""

    chips: tuple[str, ...]
    never: bool
    row: Row


def targets(matrix: Matrix) -> tuple[GfxTarget, ...]:
    """Give every target, oldest first."""
    return matrix.rows("rocm", "gpus", _target)


def gfx_of(matrix: Matrix, name: str) -> GfxTarget | None:
    """Give the target of a product by its name (or by its own, such as gfx90a:xnack-), or None if unknown."""
    plain = " ".join(_NOISE.sub(" ", name.lower()).split())
    own = _TARGET.match(plain)
    if own:
        return next((one for one in targets(matrix) if one.gfx == own.group()), None)
    fitting = ((words, one) for one in targets(matrix) for words in one.names if _names(words, plain))
    return max(fitting, key=lambda found: len(found[0]), default=("", None))[1]


def support_of(matrix: Matrix, rocm: str) -> tuple[RocmSupport, ...]:
    """Give what a release of ROCm supports, and how much; empty where no row states it."""
    return tuple(one for one in matrix.rows("rocm", "support", _support) if one.rocm.holds(rocm))


def torch_builds(matrix: Matrix) -> tuple[TorchRocmBuild, ...]:
    """Give the builds of torch for ROCm, oldest first."""
    return matrix.rows("rocm", "torch_builds", _torch_build)


def torch_build_of(matrix: Matrix, torch: str, rocm: str) -> TorchRocmBuild | None:
    """Give the build of a torch (2.4.1) for a ROCm (6.1), or None where no row states it."""
    minor = ".".join(torch.split(".")[:2])
    return next((one for one in torch_builds(matrix) if (one.torch, one.rocm) == (minor, rocm)), None)


def without_kfd(matrix: Matrix) -> tuple[ChipsWithoutKfd, ...]:
    """Give the chips that the kernel's compute driver takes not at all, or under a condition."""
    return matrix.rows("rocm", "without_kfd", _chips)


def driver_windows(matrix: Matrix) -> tuple[DriverWindow, ...]:
    """Give which ROCm runs on which amdgpu-dkms, oldest first."""
    return matrix.rows("rocm", "driver_windows", _window)


def driver_window_of(matrix: Matrix, driver: str) -> DriverWindow | None:
    """Give the window of a release of amdgpu-dkms (6.3.3, 30.10.1), or None where no row states it."""
    minor = ".".join(driver.split(".")[:2])
    return next((one for one in driver_windows(matrix) if one.driver == minor), None)


def driver_modules(matrix: Matrix) -> tuple[DriverModule, ...]:
    """Give the versions of the modules of amdgpu-dkms, oldest first."""
    return matrix.rows("rocm", "driver_modules", _module)


def overrides(matrix: Matrix) -> tuple[Override, ...]:
    """Give the values of HSA_OVERRIDE_GFX_VERSION that are in use."""
    return matrix.rows("rocm", "overrides", _override)


def override_of(matrix: Matrix, gfx: str) -> Override | None:
    """Give the override for a target, or None where no row states one."""
    return next((one for one in overrides(matrix) if one.gfx == gfx), None)


def _names(words: str, name: str) -> bool:
    return re.search(rf"(?<![\w]){re.escape(words)}(?![\w])", name) is not None


def _target(line: Line) -> GfxTarget:
    text = f"{', '.join(line['names'])}: {line['gfx']} ({line['generation']})"
    return GfxTarget(
        gfx=line["gfx"], generation=line["generation"], names=tuple(line["names"]), row=row("rocm", text, line)
    )


def _support(line: Line) -> RocmSupport:
    text = f"ROCm {line['rocm']}, {line['level']}: {' '.join(line['gfx'])}"
    return RocmSupport(
        rocm=VersionRange.parse(line["rocm"]),
        level=line["level"],
        gfx=tuple(line["gfx"]),
        row=row("rocm", text, line),
    )


def _torch_build(line: Line) -> TorchRocmBuild:
    archs = tuple(line.get("archs", ()))
    text = f"torch {line['torch']} is built for ROCm {line['rocm']}" + (
        f", with code for {' '.join(archs)}" * bool(archs)
    )
    return TorchRocmBuild(torch=line["torch"], rocm=line["rocm"], archs=archs, row=row("rocm", text, line))


def _window(line: Line) -> DriverWindow:
    text = f"amdgpu driver {line['driver']} runs ROCm {line['rocm']}"
    return DriverWindow(driver=line["driver"], rocm=VersionRange.parse(line["rocm"]), row=row("rocm", text, line))


def _module(line: Line) -> DriverModule:
    text = f"amdgpu driver {line['driver']} brings module {line['module']}"
    return DriverModule(driver=line["driver"], module=line["module"], row=row("rocm", text, line))


def _chips(line: Line) -> ChipsWithoutKfd:
    chips = tuple(line["chips"])
    return ChipsWithoutKfd(
        chips=chips, never=NEVER in line["rule"], row=row("rocm", f"{', '.join(chips)}: {line['rule']}", line)
    )


def _override(line: Line) -> Override:
    text = f"{line['gfx']} with HSA_OVERRIDE_GFX_VERSION={line['override']}: {line['outcome']}"
    return Override(gfx=line["gfx"], value=line["override"], outcome=line["outcome"], row=row("rocm", text, line))
