"""The GPU's contracts: the driver branches that run it, the first release that lists it, the module's flavour."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gpustack.diagnose.rules.compatibility import Fit, windows_release
from gpustack.diagnose.rules.contracts.edges import asked, edge
from gpustack.diagnose.rules.reading import text, told
from gpustack.diagnose.rules.seen import arch_on_bus, driver_release, gpus, loaded_release, on_windows, ours
from gpustack.matrix.subjects import drivers
from gpustack.model.report import Kept

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts
    from gpustack.model.report import Contract
    from gpustack.model.rows import Flavour
    from gpustack.model.versions import ComputeCapability, DriverRelease


class Kind(NamedTuple):
    """GPUs of one architecture, by its first word; ``product`` is the name of one that is merely asked about.

    ``chip`` is the compute capability where that is known: Blackwell Ultra is younger than Blackwell.
    """

    arch: str
    product: str | None = None
    chip: ComputeCapability | None = None


def draw(facts: Facts, matrix: Matrix) -> Iterator[Contract]:
    """Give how the GPUs go with driver and module, one contract a kind; Jetsons have drivers of their own."""
    release = loaded_release(facts) or (driver_release(facts) if not ours(facts) else None)
    branch = _branch(release, facts, matrix)
    flavour = text(told(facts, "nvidia.ko"), "flavour")
    kinds = tuple(_kinds(facts, matrix))
    for arch in dict.fromkeys(kind.arch for kind in kinds):
        if branch:
            yield from _branches([kind for kind in kinds if kind.arch == arch], branch, matrix)
        rule = matrix.flavour(arch)
        if rule and flavour in {"open", "proprietary"}:
            yield _module(rule, arch, flavour)
    for product in dict.fromkeys(kind.product for kind in kinds if kind.product):
        if release and not on_windows(facts):
            yield from _listed(product, release, matrix)


def _kinds(facts: Facts, matrix: Matrix) -> Iterator[Kind]:
    """Give the kinds of GPUs, of those on the bus and of those that the driver lists; a listed one is known to it."""
    for copy in ours(facts):
        arch = arch_on_bus(copy, matrix)
        if arch:
            yield Kind(arch.partition(" ")[0])
    for gpu in gpus(facts):
        known = matrix.arch(gpu.capability) if gpu.capability else None
        if known and not known.embedded:
            product = text(gpu.copy.facts, "name") if asked(gpu.copy) else None
            yield Kind(known.name.partition(" ")[0], product, gpu.capability)


def _branch(release: DriverRelease | None, facts: Facts, matrix: Matrix) -> int | None:
    """Return the branch of the driver; that of Windows is numbered otherwise and has a row of which it is."""
    on_host = windows_release(facts)
    known = drivers.for_windows(matrix, on_host.branch) if on_host else None
    return known.number if known else release.branch if release and not on_windows(facts) else None


def _branches(kinds: Sequence[Kind], branch: int, matrix: Matrix) -> Iterator[Contract]:
    """Give how GPUs of one architecture go with the driver: each chip by its own row where that states more."""
    span = matrix.span(kinds[0].arch)
    for chip in dict.fromkeys(kind.chip for kind in kinds if kind.chip) or (None,):
        first, last, row = (span.first or 0, span.last, span.row) if span else (0, None, None)
        own = matrix.arch(chip) if chip else None
        if own and (own.first_branch or 0) > first:
            first, row = own.first_branch or 0, own.row
        if row:
            ends = (f"from {first}" if first else "", f"up to {last}" if last else "")
            needs = f"a driver branch {' '.join(end for end in ends if end)}"
            kept = Kept.OK if first <= branch <= (last or branch) else Kept.BROKEN
            fit = Fit(kept=kept, needs=needs, found=f"branch {branch}", row=row)
            yield edge("gpu", "nvidia-driver", "branch", fit)


def _listed(product: str, release: DriverRelease, matrix: Matrix) -> Iterator[Contract]:
    """Give that a driver is older than the first that lists the product: it may know the chip all the same."""
    since = drivers.listed_since(matrix, product)
    if since and release < since.driver:
        needs = f"driver {since.driver} or newer to be listed"
        fit = Fit(kept=Kept.UNKNOWN, needs=needs, found=f"driver {release}", row=since.row)
        yield edge("gpu", "nvidia-driver", "listed", fit)


def _module(rule: Flavour, arch: str, flavour: str) -> Contract:
    allowed = rule.open if flavour == "open" else rule.closed
    needs = f"a kernel module for {arch}: open {rule.open}, proprietary {rule.closed}"
    kept = Kept.BROKEN if allowed == "impossible" else Kept.OK
    return edge("gpu", "nvidia.ko", "flavour", Fit(kept=kept, needs=needs, found=flavour, row=rule.row))
