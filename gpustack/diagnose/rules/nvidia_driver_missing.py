"""There is an NVIDIA GPU and no NVIDIA driver.

The GPU is on the PCI bus, but neither the kernel module nor the driver's libraries are installed, so no program can use
it. Install the driver that your distribution or NVIDIA offers for it, and restart. An old GPU needs an old branch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.rules import fixes
from gpustack.diagnose.rules.reading import because, because_of, flag, status, text, told
from gpustack.diagnose.rules.seen import arch_on_bus, driver_works, ours, user_release
from gpustack.model.facts import Layer, Status
from gpustack.model.report import Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts, Instance
    from gpustack.model.report import Fix, Row

GONE = frozenset({Status.ABSENT, Status.NOT_APPLICABLE})


def judge(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Give the finding where a GPU is there and nothing of the driver is."""
    here = ours(facts)
    if not here or not missing(facts):
        return
    copy = here[0]
    arch = arch_on_bus(copy, matrix)
    span = matrix.span(arch) if arch else None
    yield Finding(
        id="nvidia-driver-missing",
        severity=Severity.ERROR,
        layer=Layer.DRIVER,
        component="nvidia-driver",
        title=f"There is an NVIDIA GPU ({_name(copy, arch)}) and no NVIDIA driver",
        detail="Neither the kernel module nor the driver's libraries were found, so no program can use the GPU.",
        because=(
            because_of(facts, "pci-display", copy, "device_id"),
            because_of(facts, "pci-display", copy, "driver"),
            because(facts, "nvidia.ko", "loaded"),
        ),
        row=_row(span.row if span else None, last=span.last if span else None),
        fix=_fix(facts, matrix, span.last if span else None),
    )


def missing(facts: Facts) -> bool:
    """Tell whether neither the module nor the driver's libraries are here, both having been looked for."""
    module, driver = status(facts, "nvidia.ko"), status(facts, "nvidia-driver")
    bound = any(text(copy.facts, "driver") == "nvidia" for copy in ours(facts))
    loaded = flag(told(facts, "nvidia.ko"), "loaded") or bound
    return module in GONE and driver in GONE and not (loaded or user_release(facts) or driver_works(facts))


def _name(copy: Instance, arch: str | None) -> str:
    device = f"10de:{(text(copy.facts, 'device_id') or '0x????')[2:]}"
    return f"{arch}, {device} at {copy.key}" if arch else f"{device} at {copy.key}"


def _row(row: Row | None, last: int | None) -> Row | None:
    return row if last else None


def _fix(facts: Facts, matrix: Matrix, last: int | None) -> Fix:
    branch = f"branch {last}, the last that runs this GPU" if last else "which also keeps nouveau away"
    return fixes.rebuild(facts, f"Install NVIDIA's driver, {branch}, and restart.", *fixes.driver(facts, matrix, last))
