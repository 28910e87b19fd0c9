"""Intel GPUs: the platform of a device, who drives it, and the SYCL runtime that torch's XPU builds ask for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpustack.matrix.tables import row

if TYPE_CHECKING:
    from gpustack.matrix import Matrix
    from gpustack.matrix.tables import Line
    from gpustack.model.report import Row

_BY_ITSELF = {"by itself": True, "only with xe.force_probe": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class IntelPlatform:
    """One platform. ``xe``: the module xe takes it by itself (None: unknown); ``legacy``: needs old packages."""

    name: str
    row: Row
    level_zero: str | None = None
    opencl: str | None = None
    xe: bool | None = None
    devices: frozenset[int] = frozenset()
    products: tuple[str, ...] = ()
    legacy: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class XpuBuild:
    """The oneAPI runtime that an XPU build of torch pins."""

    torch: str
    runtime: str
    row: Row


def platforms(matrix: Matrix) -> tuple[IntelPlatform, ...]:
    """Give every platform, those of the regular packages first, oldest first."""
    return (
        *matrix.rows("intel", "platforms", lambda line: _platform(line, legacy=False)),
        *matrix.rows("intel", "legacy_platforms", lambda line: _platform(line, legacy=True)),
    )


def platform_of(matrix: Matrix, device: int) -> IntelPlatform | None:
    """Give the platform of a PCI device number (vendor 8086), or None where no row states it."""
    return next((one for one in platforms(matrix) if device in one.devices), None)


def named(matrix: Matrix, product: str) -> IntelPlatform | None:
    """Give the platform of a product by its name (Arc A770), or None if unknown."""
    plain = " ".join(product.lower().replace("(r)", "").replace("(tm)", "").split())
    fitting = ((words, one) for one in platforms(matrix) for words in one.products if words.lower() in plain)
    return max(fitting, key=lambda found: len(found[0]), default=("", None))[1]


def window_rule(matrix: Matrix) -> Row | None:
    """Give the row that says what xe needs of Resizable BAR."""
    rules = matrix.rows("intel", "kernel", lambda line: row("intel", f"{line['module']}: {line['rule']}", line))
    return next((one for one in rules if "Resizable BAR" in one.text), None)


def product_of(matrix: Matrix, device: int) -> str | None:
    """Give the name of a PCI device number (vendor 8086) as the driver has it, or None where no row states it."""
    return next((name for name, devices in matrix.rows("intel", "products", _product) if device in devices), None)


def xpu_builds(matrix: Matrix) -> tuple[XpuBuild, ...]:
    """Give the oneAPI runtime of each torch, oldest first."""
    return matrix.rows("intel", "torch_xpu", _xpu_build)


def xpu_build_of(matrix: Matrix, torch: str) -> XpuBuild | None:
    """Give the oneAPI runtime of a torch (2.13.0+xpu), or None where no row states it."""
    minor = ".".join(torch.split(".")[:2])
    return next((one for one in xpu_builds(matrix) if one.torch == minor), None)


def _platform(line: Line, *, legacy: bool) -> IntelPlatform:
    which = "legacy1 packages" if legacy else "regular packages"
    level_zero = line.get("level_zero")
    served = f"Level Zero {level_zero}" if level_zero else "no Level Zero stated"
    return IntelPlatform(
        name=line["platform"],
        row=row("intel", f"{line['platform']}: {served} from the {which} of the compute runtime", line),
        level_zero=level_zero,
        opencl=line.get("opencl"),
        xe=_BY_ITSELF[line["xe"]] if "xe" in line else None,
        devices=frozenset(int(device, 16) for device in line.get("devices", ())),
        products=tuple(line.get("names", ())),
        legacy=legacy,
    )


def _product(line: Line) -> tuple[str, frozenset[int]]:
    return line["name"], frozenset(int(device, 16) for device in line["devices"])


def _xpu_build(line: Line) -> XpuBuild:
    text = f"torch {line['torch']} for XPU pins the oneAPI runtime {line['runtime']}"
    return XpuBuild(torch=line["torch"], runtime=line["runtime"], row=row("intel", text, line))
