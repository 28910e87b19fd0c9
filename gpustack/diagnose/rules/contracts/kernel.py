"""The kernel's contracts: headers for building modules, the kernel that a module was made for, and a driver's reach."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.rules.compatibility import Fit
from gpustack.diagnose.rules.contracts.edges import edge, kernel_of, loaded
from gpustack.diagnose.rules.reading import copies, status, text, told, version
from gpustack.diagnose.rules.seen import driver_release
from gpustack.matrix.subjects import drivers
from gpustack.matrix.subjects.ranges import numbers
from gpustack.model.facts import Status
from gpustack.model.report import Kept

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts
    from gpustack.model.report import Contract


def draw(facts: Facts, matrix: Matrix) -> Iterator[Contract]:
    """Give the contracts with the running kernel."""
    running = kernel_of(facts)
    if not running:
        return
    yield from _headers(running, facts)
    made_for = (text(told(facts, "nvidia.ko"), "vermagic") or "").partition(" ")[0]
    if made_for:
        kept = Kept.OK if made_for == running else Kept.BROKEN
        yield edge("nvidia.ko", "linux-kernel", "vermagic", Fit(kept=kept, needs=made_for, found=running))
    yield from _reach(running, facts, matrix)


def _headers(running: str, facts: Facts) -> Iterator[Contract]:
    headers = status(facts, "kernel-headers")
    if headers in {Status.PRESENT, Status.ABSENT} and copies(facts, "dkms"):
        found = (version(facts, "kernel-headers") if headers is Status.PRESENT else None) or "none"
        kept = Kept.OK if found == running else Kept.BROKEN
        yield edge("dkms", "kernel-headers", "headers", Fit(kept=kept, needs=running, found=found))


def _reach(running: str, facts: Facts, matrix: Matrix) -> Iterator[Contract]:
    """Give whether a driver that is not in memory can be built for this kernel; nothing where no row speaks of it."""
    release = driver_release(facts)
    plain = numbers(running.partition("-")[0])
    if release is None or not plain or loaded(facts, "nvidia.ko"):
        return
    found = f"Linux {running}"
    fails, branch = (
        drivers.fails_with(matrix, release, ".".join(map(str, plain))),
        drivers.branch_of(matrix, release.branch),
    )
    if fails:
        fit = Fit(kept=Kept.BROKEN, needs=f"a kernel before Linux {fails.kernel}", found=found, row=fails.row)
        yield edge("nvidia-driver", "linux-kernel", "kernel", fit)
    elif branch and branch.kernel:
        least = ".".join(str(number) for number in branch.kernel)
        kept = Kept.OK if plain >= branch.kernel else Kept.BROKEN
        fit = Fit(kept=kept, needs=f"Linux {least} or newer", found=found, row=branch.row)
        yield edge("nvidia-driver", "linux-kernel", "kernel", fit)
