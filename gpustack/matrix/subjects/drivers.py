"""NVIDIA's driver branches: what each gained and dropped, which GPUs it lists, with which kernels it builds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpustack.matrix.subjects.gpus import plain
from gpustack.matrix.subjects.spans import numbers
from gpustack.matrix.tables import needed, row
from gpustack.model.versions import CudaVersion, DriverRelease

if TYPE_CHECKING:
    from gpustack.matrix import Matrix
    from gpustack.matrix.tables import Line
    from gpustack.model.report import Row


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """One branch from its first to its last release; ``end`` is the day or month when its support ends."""

    number: int
    cuda: CudaVersion
    row: Row
    kind: str | None = None
    first: str | None = None
    end: str | None = None
    last: DriverRelease | None = None
    gained: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    windows: tuple[int, ...] = ()
    kernel: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """The oldest driver release whose list of products has this GPU."""

    product: str
    driver: DriverRelease
    row: Row


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """One driver release that was seen to build with a kernel, or not to."""

    driver: DriverRelease
    kernel: str
    builds: bool
    row: Row


def branches(matrix: Matrix) -> tuple[Branch, ...]:
    """Give every branch, oldest first."""
    return matrix.rows("driver_branches", "branches", _branch)


def branch_of(matrix: Matrix, number: int) -> Branch | None:
    """Give one branch by its number, or None where the matrix does not know it."""
    return next((one for one in branches(matrix) if one.number == number), None)


def ended(branch: Branch, day: str) -> bool | None:
    """Tell whether support of a branch had ended on a day (YYYY-MM-DD), or None where its end is not known.

    An end that is stated as a month is its last day.
    """
    return None if branch.end is None else branch.end < day[: len(branch.end)]


def for_windows(matrix: Matrix, number: int) -> Branch | None:
    """Give the Linux branch whose CUDA version a Windows driver of this branch number has, or None."""
    return next((one for one in branches(matrix) if number in one.windows), None)


def listings(matrix: Matrix) -> tuple[Listed, ...]:
    """Give since when the driver lists a GPU, for the GPUs of which the matrix knows it."""
    return matrix.rows("driver_branches", "listed", _listed)


def listed_since(matrix: Matrix, product: str) -> Listed | None:
    """Give the oldest driver release that lists a product, or None.

    Where the variant itself (PCIe, Laptop GPU) has no row, the oldest of its name counts: it may have come later.
    """
    name = product.lower().removeprefix("nvidia ")
    exact = next((one for one in listings(matrix) if one.product.lower() == name), None)
    alike = (one for one in listings(matrix) if plain(one.product) == plain(product))
    return exact or min(alike, key=lambda one: one.driver, default=None)


def builds(matrix: Matrix) -> tuple[Build, ...]:
    """Give which releases were seen to build with which kernels, oldest release first."""
    return matrix.rows("driver_branches", "builds", _build)


def named(matrix: Matrix) -> tuple[Build, ...]:
    """Give the newest kernel that a release's own source names, oldest release first."""
    return matrix.rows("driver_branches", "named", _named)


def fails_with(matrix: Matrix, driver: DriverRelease, kernel: str) -> Build | None:
    """Give the row that says why a release will not build with a kernel, or None where no row says so.

    A failure holds for the older releases of the same branch and for newer kernels; a kernel of a distribution
    (5.14.0-687.el9) only for that distribution's kernels.
    """
    wanted = _kernel(kernel)
    for one in builds(matrix):
        same = one.driver.branch == driver.branch and driver <= one.driver
        if same and not one.builds and "-" not in one.kernel and _kernel(one.kernel)[:2] <= wanted:
            return one
    return None


def _kernel(text: str) -> tuple[int, ...]:
    return numbers(text.partition("-")[0])


def _branch(line: Line) -> Branch:
    text = f"driver branch {line['branch']} runs CUDA up to {line['cuda']}"
    return Branch(
        number=int(line["branch"]),
        cuda=needed(CudaVersion.parse(line["cuda"])),
        kind=line.get("kind"),
        first=line.get("first"),
        end=line.get("end"),
        last=needed(DriverRelease.parse(line["last"])) if "last" in line else None,
        gained=tuple(line.get("gained", ())),
        dropped=tuple(line.get("dropped", ())),
        windows=tuple(line.get("windows", ())),
        kernel=_kernel(line.get("kernel", "")),
        row=row("driver_branches", text + (f", supported until {line['end']}" if "end" in line else ""), line),
    )


def _listed(line: Line) -> Listed:
    text = f"{line['product']} is listed by driver {line['driver']} and newer"
    driver = needed(DriverRelease.parse(line["driver"]))
    return Listed(product=line["product"], driver=driver, row=row("driver_branches", text, line))


def _build(line: Line) -> Build:
    told = "builds" if line["builds"] else "does not build"
    text = f"driver {line['driver']} {told} with Linux {line['kernel']}"
    driver = needed(DriverRelease.parse(line["driver"]))
    return Build(driver=driver, kernel=line["kernel"], builds=line["builds"], row=row("driver_branches", text, line))


def _named(line: Line) -> Build:
    text = f"the source of driver {line['driver']} names Linux {line['kernel']}"
    driver = needed(DriverRelease.parse(line["driver"]))
    return Build(driver=driver, kernel=line["kernel"], builds=True, row=row("driver_branches", text, line))
