"""AMD and Intel GPUs: the target or platform of a product, which software has code for it, and its driver."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpustack.matrix.subjects import rows_of
from gpustack.matrix.subjects.ranges import VersionRange
from gpustack.model import field, row
from gpustack.model.reading import key
from gpustack.model.rows import Stated, hexadecimal

if TYPE_CHECKING:
    from gpustack.matrix import Matrix
    from gpustack.model.report import Row

_NOISE = re.compile(r"\((?:tm|r)\)|[®™]")
_BARE = re.compile(r"^(?:radeon (?=\d{4})|(?=\d{4} (?:xtx?|gre)\b))")  # Radeon 7900 XTX means Radeon RX 7900 XTX
_TARGET = re.compile(r"gfx[0-9a-f]{3,4}")
NEVER = "has no entry"
_BY_ITSELF = {"by itself": True, "only with xe.force_probe": False}


def _devices(numbers: list[str]) -> frozenset[int]:
    return frozenset(map(hexadecimal, numbers))


@row
class GfxTarget(Stated):
    """One target, and the products that have it, by words in their names."""

    gfx: str
    generation: str
    names: tuple[str, ...]

    def __str__(self) -> str:
        return f"{', '.join(self.names)}: {self.gfx} ({self.generation})"


@row
class RocmSupport(Stated):
    """The targets that some releases of ROCm support, and how well (supported, deprecated, release-ready, built …)."""

    rocm: VersionRange
    level: str
    gfx: tuple[str, ...]

    def __str__(self) -> str:
        return f"ROCm {self.rocm}, {self.level}: {' '.join(self.gfx)}"


@row
class TorchRocmBuild(Stated):
    """One build of torch for a ROCm version; ``archs`` is empty if its GPU code was not read."""

    torch: str
    rocm: str
    archs: tuple[str, ...] = ()

    def __str__(self) -> str:
        code = f", with code for {' '.join(self.archs)}" if self.archs else ""
        return f"torch {self.torch} is built for ROCm {self.rocm}{code}"


@row
class DriverWindow(Stated):
    """The releases of ROCm that run on one release of amdgpu-dkms."""

    driver: str
    rocm: VersionRange

    def __str__(self) -> str:
        return f"amdgpu driver {self.driver} runs ROCm {self.rocm}"


@row
class DriverModule(Stated):
    """The version that the module of one amdgpu-dkms release reports."""

    driver: str
    module: str

    def __str__(self) -> str:
        return f"amdgpu driver {self.driver} brings module {self.module}"


@row
class Override(Stated):
    """The value of HSA_OVERRIDE_GFX_VERSION that treats a target as its nearest relative, and the result."""

    gfx: str
    value: str = field(metadata=key("override"))
    outcome: str

    def __str__(self) -> str:
        return f"{self.gfx} with HSA_OVERRIDE_GFX_VERSION={self.value}: {self.outcome}"


@row
class ChipsWithoutKfd(Stated):
    """Chips that the kernel's compute driver does not support; ``never``: under no condition."""

    chips: tuple[str, ...]
    rule: str

    @property
    def never(self) -> bool:
        """Whether it supports them under no condition."""
        return NEVER in self.rule

    def __str__(self) -> str:
        return f"{', '.join(self.chips)}: {self.rule}"


@row
class IntelPlatform(Stated):
    """One platform. ``xe``: the module xe binds to it by default (None: unknown)."""

    name: str = field(metadata=key("platform"))
    level_zero: str | None = None
    opencl: str | None = None
    xe: bool | None = field(default=None, metadata=key("xe", _BY_ITSELF.__getitem__))
    devices: frozenset[int] = field(default=frozenset(), metadata=key("devices", _devices))
    products: tuple[str, ...] = field(default=(), metadata=key("names"))

    @property
    def legacy(self) -> bool:
        """Whether it needs the old packages."""
        return self.part == "legacy_platforms"

    def __str__(self) -> str:
        served = f"Level Zero {self.level_zero}" if self.level_zero else "no Level Zero stated"
        which = "legacy1 packages" if self.legacy else "regular packages"
        return f"{self.name}: {served} from the {which} of the compute runtime"


@row
class IntelProduct(Stated):
    """The name that the driver gives some PCI device numbers."""

    name: str
    devices: frozenset[int] = field(metadata=key("devices", _devices))


@row
class KernelRule(Stated):
    """What a kernel module needs."""

    module: str
    rule: str

    def __str__(self) -> str:
        return f"{self.module}: {self.rule}"


@row
class XpuBuild(Stated):
    """The oneAPI runtime that an XPU build of torch pins."""

    torch: str
    runtime: str

    def __str__(self) -> str:
        return f"torch {self.torch} for XPU pins the oneAPI runtime {self.runtime}"


targets = rows_of("rocm", "gpus", GfxTarget)  # every target, oldest first
torch_builds = rows_of("rocm", "torch_builds", TorchRocmBuild)  # the builds of torch for ROCm, oldest first
# The chips that the kernel's compute driver does not support, or only under a condition.
without_kfd = rows_of("rocm", "without_kfd", ChipsWithoutKfd)
driver_windows = rows_of("rocm", "driver_windows", DriverWindow)  # which ROCm runs on which amdgpu-dkms, oldest first
# The versions of the modules of amdgpu-dkms, oldest first.
driver_modules = rows_of("rocm", "driver_modules", DriverModule)
overrides = rows_of("rocm", "overrides", Override)  # the values of HSA_OVERRIDE_GFX_VERSION that are in use
xpu_builds = rows_of("intel", "torch_xpu", XpuBuild)  # the oneAPI runtime of each torch, oldest first


def gfx_of(matrix: Matrix, name: str) -> GfxTarget | None:
    """Return the target of a product by its name (or by its own, such as gfx90a:xnack-), or None if unknown."""
    plain = " ".join(_NOISE.sub(" ", name.lower()).split())
    own = _TARGET.match(plain)
    if own:
        return next((one for one in targets(matrix) if one.gfx == own.group()), None)
    plain = re.sub(r"(?<=\d{4})(?=xtx?\b|gre\b)", " ", re.sub(r"^rx(?=\d)", "rx ", plain))  # rx6600xt is RX 6600 XT
    plain = _BARE.sub("rx ", plain)
    fitting = ((words, one) for one in targets(matrix) for words in one.names if _names(words, plain))
    return max(fitting, key=lambda found: len(found[0]), default=("", None))[1]


def support_of(matrix: Matrix, rocm: str) -> tuple[RocmSupport, ...]:
    """Return the targets that a release of ROCm supports, and to what degree; empty if no row states it."""
    return tuple(one for one in matrix.rows("rocm", "support", RocmSupport) if one.rocm.holds(rocm))


def torch_build_of(matrix: Matrix, torch: str, rocm: str) -> TorchRocmBuild | None:
    """Return the build of a torch release (2.4.1) for a ROCm version (6.1), or None if no row states it."""
    minor = ".".join(torch.split(".")[:2])
    return next((one for one in torch_builds(matrix) if (one.torch, one.rocm) == (minor, rocm)), None)


def driver_window_of(matrix: Matrix, driver: str) -> DriverWindow | None:
    """Return the window of a release of amdgpu-dkms (6.3.3, 30.10.1), or None if no row states it."""
    minor = ".".join(driver.split(".")[:2])
    return next((one for one in driver_windows(matrix) if one.driver == minor), None)


def override_of(matrix: Matrix, gfx: str) -> Override | None:
    """Return the override for a target, or None if no row states one."""
    return next((one for one in overrides(matrix) if one.gfx == gfx), None)


def _names(words: str, name: str) -> bool:
    return re.search(rf"(?<![\w]){re.escape(words)}(?![\w])", name) is not None


def platforms(matrix: Matrix) -> tuple[IntelPlatform, ...]:
    """Return every platform, oldest first, beginning with those that the regular packages support."""
    return (*matrix.rows("intel", "platforms", IntelPlatform), *matrix.rows("intel", "legacy_platforms", IntelPlatform))


def platform_of(matrix: Matrix, device: int) -> IntelPlatform | None:
    """Return the platform of a PCI device number (vendor 8086), or None if no row states it."""
    return next((one for one in platforms(matrix) if device in one.devices), None)


def window_rule(matrix: Matrix) -> Row | None:
    """Return the row about xe's requirements on Resizable BAR."""
    return next((one.row for one in matrix.rows("intel", "kernel", KernelRule) if "Resizable BAR" in str(one)), None)


def product_of(matrix: Matrix, device: int) -> str | None:
    """Return the driver's name for a PCI device number (vendor 8086), or None if no row states it."""
    return next((one.name for one in matrix.rows("intel", "products", IntelProduct) if device in one.devices), None)


def device_named(matrix: Matrix, name: str) -> int | None:
    """Return the PCI device number of an Intel GPU by its name, such as Arc A770, or None if no row names it."""
    plain = _product(name)
    named = ((_product(one.name), min(one.devices)) for one in matrix.rows("intel", "products", IntelProduct))
    return next((device for words, device in named if words == plain and plain not in {"", "arc"}), None)


def _product(name: str) -> str:
    """Return a product's name without the vendor and without words that every product name has."""
    return " ".join(word for word in name.lower().split() if word not in {"intel", "graphics", "gpu", "data", "center"})


def xpu_build_of(matrix: Matrix, torch: str) -> XpuBuild | None:
    """Return the oneAPI runtime of a torch release (2.13.0+xpu), or None if no row states it."""
    minor = ".".join(torch.split(".")[:2])
    return next((one for one in xpu_builds(matrix) if one.torch == minor), None)
