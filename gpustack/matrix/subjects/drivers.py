"""NVIDIA's driver branches: what each added and dropped, which GPUs it lists, which kernels it builds with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.matrix.subjects import gpus, rows_of
from gpustack.matrix.subjects.ranges import numbers
from gpustack.model import field, row
from gpustack.model.reading import key
from gpustack.model.rows import Stated
from gpustack.model.versions import CudaVersion, DriverRelease

if TYPE_CHECKING:
    from gpustack.matrix import Matrix


def _numbers(kernel: str) -> tuple[int, ...]:
    return numbers(kernel.partition("-")[0])


KEPT = frozenset({"LTS", "PB"})  # kinds of branches for long use: long-term support and production


@row
class Branch(Stated):
    """One branch from its first to its last release; ``end`` is the date or month when its support ends."""

    number: int = field(metadata=key("branch"))
    cuda: CudaVersion
    kind: str | None = None
    first: str | None = None
    end: str | None = None
    last: DriverRelease | None = None
    gained: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    windows: tuple[int, ...] = ()
    kernel: tuple[int, ...] = field(default=(), metadata=key("kernel", _numbers))

    def __str__(self) -> str:
        ends = f", supported until {self.end}" if self.end else ""
        return f"driver branch {self.number} runs CUDA up to {self.cuda}{ends}"


@row
class Listed(Stated):
    """The oldest driver release whose product list includes this GPU."""

    product: str
    driver: DriverRelease

    def __str__(self) -> str:
        return f"{self.product} is listed by driver {self.driver} and newer"


@row
class Build(Stated):
    """One driver release known to build with a kernel, or to fail; or whose own source names the kernel."""

    driver: DriverRelease
    kernel: str
    builds: bool = True

    def __str__(self) -> str:
        if self.part == "named":
            return f"the source of driver {self.driver} supports Linux {self.kernel}"
        return f"driver {self.driver} {'builds' if self.builds else 'does not build'} with Linux {self.kernel}"


branches = rows_of("driver_branches", "branches", Branch)  # every branch, oldest first
# The driver release that first lists each GPU, as far as the matrix knows it.
listings = rows_of("driver_branches", "listed", Listed)
# Which releases are known to build with which kernels, oldest release first.
builds = rows_of("driver_branches", "builds", Build)
# The newest kernel that a release's own source names, oldest release first.
named = rows_of("driver_branches", "named", Build)


def branch_of(matrix: Matrix, number: int) -> Branch | None:
    """Return one branch by its number, or None if the matrix does not know it."""
    return matrix.branches.get(number)


def series_of(matrix: Matrix, number: int) -> int:
    """Return the branch that releases of this number belong to: 580 for 581, which drivers for Windows have.

    A number that is not known to be Windows' own (435) is a branch itself.
    """
    known, below = for_windows(matrix, number), number - number % 5
    if number in matrix.branches:
        return number
    return known.number if known else below if below in matrix.branches else number


def ended(branch: Branch, day: str) -> bool | None:
    """Return whether a branch's support had ended by a date (YYYY-MM-DD), or None if its end is unknown.

    An end stated as a month means its last day.
    """
    return None if branch.end is None else branch.end < day[: len(branch.end)]


def for_windows(matrix: Matrix, number: int) -> Branch | None:
    """Return the Linux branch whose CUDA version a Windows driver of this branch number has, or None."""
    return next((one for one in branches(matrix) if number in one.windows), None)


def listed_since(matrix: Matrix, product: str) -> Listed | None:
    """Return the oldest driver release that lists a product, or None.

    If the variant (PCIe, Laptop GPU) has no row, the oldest release for its name counts; the variant may be newer.
    """
    name = product.lower().removeprefix("nvidia ")
    exact = next((one for one in listings(matrix) if one.product.lower() == name), None)
    alike = (one for one in listings(matrix) if gpus.plain(one.product) == gpus.plain(product))
    return exact or min(alike, key=lambda one: one.driver, default=None)


def fails_with(matrix: Matrix, driver: DriverRelease, kernel: str) -> Build | None:
    """Return the row stating that a release does not build with a kernel, or None if there is none.

    A failure also applies to older releases of the same branch and to newer kernels; one with a distribution's kernel
    (5.14.0-687.el9) applies only to that distribution's kernels.
    """
    wanted = _numbers(kernel)
    for one in builds(matrix):
        same = one.driver.branch == driver.branch and driver <= one.driver
        if same and not one.builds and "-" not in one.kernel and _numbers(one.kernel)[:2] <= wanted:
            return one
    return None


def newest_kernel(matrix: Matrix, driver: DriverRelease) -> Build | None:
    """Return the row of the newest kernel that a release is known to support, or None if none is known of its branch.

    A release supports what an older one of its branch does; what only a newer one names, it may not.
    """
    known = [one for one in (*named(matrix), *builds(matrix)) if one.builds and one.driver.branch == driver.branch]
    older = [one for one in known if one.driver <= driver] or sorted(known, key=lambda one: one.driver)[:1]
    return max(older, key=lambda one: _numbers(one.kernel)[:2], default=None)
