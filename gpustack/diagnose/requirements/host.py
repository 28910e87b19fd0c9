"""What GPU, kernel, kernel module and driver require of each other."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from gpustack.diagnose.machine.inventory import (
    arch_on_bus,
    driver_release,
    from_text,
    gpus,
    loaded_release,
    on_windows,
    ours,
)
from gpustack.diagnose.machine.values import copies, number, status, text, told, version
from gpustack.diagnose.requirements.fits import Fit, asked, edge, kernel_of, loaded, windows_release
from gpustack.matrix.subjects import drivers
from gpustack.matrix.subjects.ranges import numbers
from gpustack.model.facts import Facts, Status
from gpustack.model.report import Contract, Kept
from gpustack.model.versions import ComputeCapability, DriverRelease

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from gpustack.matrix import Matrix
    from gpustack.model.rows import Flavour


def kernel_draw(facts: Facts, matrix: Matrix) -> Iterator[Contract]:
    """Return the requirements on the running kernel."""
    running = kernel_of(facts)
    if not running:
        return
    yield from _headers(running, facts)
    made_for = (text(told(facts, "nvidia.ko"), "vermagic") or "").partition(" ")[0]
    if made_for:
        other = Kept.LIMITED if loaded(facts, "nvidia.ko") else Kept.BROKEN  # the one on disk is not the one in memory
        kept = Kept.OK if made_for == running else other
        yield edge("nvidia.ko", "linux-kernel", "vermagic", Fit(kept=kept, needs=made_for, found=running))
    yield from _reach(running, facts, matrix)


def _headers(running: str, facts: Facts) -> Iterator[Contract]:
    headers = status(facts, "kernel-headers")
    if headers in {Status.PRESENT, Status.ABSENT} and copies(facts, "dkms"):
        found = (version(facts, "kernel-headers") if headers is Status.PRESENT else None) or "none"
        missing = Kept.LIMITED if loaded(facts, "nvidia.ko") else Kept.BROKEN  # needed for the next build alone
        kept = Kept.OK if found == running else missing
        yield edge("dkms", "kernel-headers", "headers", Fit(kept=kept, needs=running, found=found))


def _reach(running: str, facts: Facts, matrix: Matrix) -> Iterator[Contract]:
    """Return whether a driver that is not loaded can be built for this kernel; nothing if no row states it."""
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
        least, newest = ".".join(map(str, branch.kernel)), drivers.newest_kernel(matrix, release)
        new = newest is not None and numbers(newest.kernel)[:2] < plain[:2]
        kept = Kept.BROKEN if plain < branch.kernel else Kept.UNKNOWN if new else Kept.OK
        wanted = f"Linux {least} to {newest.kernel}, the newest that is known" if newest else f"Linux {least} or newer"
        fit = Fit(kept=kept, needs=wanted, found=found, row=newest.row if new and newest else branch.row)
        yield edge("nvidia-driver", "linux-kernel", "kernel", fit)


MODULES = ("nvidia-uvm.ko", "nvidia-modeset.ko", "nvidia-drm.ko", "nvidia-peermem.ko")


def driver_draw(facts: Facts, _matrix: Matrix) -> Iterator[Contract]:
    """Return whether modules and libraries are of nvidia.ko's release."""
    loaded = loaded_release(facts)
    if loaded is None:
        return
    driver = told(facts, "nvidia-driver")
    parts = [(module, text(told(facts, module), "version_loaded")) for module in MODULES]
    if not facts.host.wsl:
        parts += [("libcuda", text(driver, "libcuda")), ("libnvidia-ml", text(driver, "libnvidia_ml"))]
    otherwise = Kept.LIMITED if number(told(facts, "nvml"), "code") == 0 else Kept.BROKEN
    for part, said in parts:
        release = DriverRelease.parse(said)
        if release:
            kept = Kept.OK if release == loaded else otherwise
            yield edge(part, "nvidia.ko", "release", Fit(kept=kept, needs=str(release), found=str(loaded)))


class Kind(NamedTuple):
    """GPUs of one architecture, by its first word; ``product`` names one that is only asked about.

    ``chip`` is the compute capability if known, since Blackwell Ultra is newer than Blackwell. ``listed``: the driver
    runs one, whatever rows say.
    """

    arch: str
    product: str | None = None
    chip: ComputeCapability | None = None
    listed: bool = False


def gpu_draw(facts: Facts, matrix: Matrix) -> Iterator[Contract]:
    """Return whether driver and module support the GPUs, once for each kind; Jetsons have their own drivers."""
    release = loaded_release(facts) or (driver_release(facts) if not ours(facts) else None)
    branch = _branch(release, facts, matrix)
    flavour = text(told(facts, "nvidia.ko"), "flavour")
    kinds = tuple(_kinds(facts, matrix))
    if branch and flavour == "open" and (not kinds or any(map(asked, copies(facts, "nvidia.ko")))):
        yield _offered(branch, matrix)  # what is loaded is there
    for arch in dict.fromkeys(kind.arch for kind in kinds):
        drawn = list(_branches([kind for kind in kinds if kind.arch == arch], branch, matrix)) if branch else []
        rule = matrix.flavour(arch)
        if rule and flavour in {"open", "proprietary"}:
            drawn.append(_module(rule, arch, flavour))
        works = not from_text(facts) and any(kind.listed for kind in kinds if kind.arch == arch)
        yield from (replace(one, status=Kept.LIMITED) if works and one.status is Kept.BROKEN else one for one in drawn)
    for product in dict.fromkeys(kind.product for kind in kinds if kind.product):
        if release and not on_windows(facts):
            yield from _listed(product, release, matrix)


def _kinds(facts: Facts, matrix: Matrix) -> Iterator[Kind]:
    """Return the kinds of GPUs, on the bus and listed by the driver, which knows those that it lists."""
    for copy in ours(facts):
        arch = arch_on_bus(copy, matrix)
        if arch:
            yield Kind(arch.partition(" ")[0])
    for gpu in gpus(facts):
        known = matrix.arch(gpu.capability) if gpu.capability else None
        if known and not known.embedded:
            product = text(gpu.copy.facts, "name") if asked(gpu.copy) else None
            runs = gpu.copy.status is Status.PRESENT and not asked(gpu.copy)
            yield Kind(known.name.partition(" ")[0], product, gpu.capability, listed=runs)


def _branch(release: DriverRelease | None, facts: Facts, matrix: Matrix) -> int | None:
    """Return the branch of the driver, or what a text names; for Windows' own numbers a row gives the branch."""
    on_host = windows_release(facts)
    known = drivers.for_windows(matrix, on_host.branch) if on_host else None
    if known or on_windows(facts):
        return known.number if known else None
    named = None if facts.host.wsl else number(told(facts, "nvidia-driver"), "branch")
    held = release.branch if release else named
    return drivers.series_of(matrix, int(held)) if held else None


def _branches(kinds: Sequence[Kind], branch: int, matrix: Matrix) -> Iterator[Contract]:
    """Return whether the driver supports GPUs of one architecture, by the chip's own row if it states more."""
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
            yield edge("gpu", "nvidia-driver", "last branch" if last and branch > last else "branch", fit)


def _listed(product: str, release: DriverRelease, matrix: Matrix) -> Iterator[Contract]:
    """Return that a driver is older than the first that lists the product; it may still support the chip."""
    since = drivers.listed_since(matrix, product)
    if since and release < since.driver:
        needs = f"driver {since.driver} or newer to be listed"
        fit = Fit(kept=Kept.UNKNOWN, needs=needs, found=f"driver {release}", row=since.row)
        yield edge("gpu", "nvidia-driver", "listed", fit)


def _offered(branch: int, matrix: Matrix) -> Contract:
    """Return whether a driver branch includes an open kernel module."""
    row = min((one for one in matrix.flavours if one.first), key=lambda one: one.first or 0)
    kept = Kept.OK if branch >= (row.first or 0) else Kept.BROKEN
    needs = f"a driver of branch {row.first} or newer, the first with an open kernel module"
    return edge("nvidia.ko", "nvidia-driver", "offered", Fit(kept=kept, needs=needs, found=f"{branch}", row=row.row))


def _module(rule: Flavour, arch: str, flavour: str) -> Contract:
    allowed = rule.open if flavour == "open" else rule.closed
    needs = f"a kernel module for {arch}: open {rule.open}, proprietary {rule.closed}"
    kept = Kept.BROKEN if allowed == "impossible" else Kept.OK
    return edge("gpu", "nvidia.ko", "flavour", Fit(kept=kept, needs=needs, found=flavour, row=rule.row))
