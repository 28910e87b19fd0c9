"""One contract after another is made here: what its two ends are called, and what was merely asked about."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpustack.diagnose.machine.values import copies, text, version
from gpustack.diagnose.requirements.fits import Fit
from gpustack.matrix.subjects.ranges import is_version
from gpustack.matrix.subjects.ranges import numbers as leading
from gpustack.model.report import Contract, Kept

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.model.facts import Facts, Instance
    from gpustack.model.report import Row
    from gpustack.model.versions import ComputeCapability


GIVEN = "given"
STARTS = re.compile("[0-9]")


def edge(from_: str, to: str, kind: str, fit: Fit, environment: str | None = None) -> Contract:
    """Return the contract that this fit is."""
    return Contract(
        from_=from_,
        to=to,
        kind=kind,
        needs=fit.needs,
        found=fit.found,
        status=fit.kept,
        row=fit.row,
        environment=environment,
    )


def asked(copy: Instance) -> bool:
    """Tell whether somebody asks about this copy, rather than having it: it is to be installed from its own wheels."""
    return copy.facts.get(GIVEN) is True


LOADED = "loaded"  # the copy of a library that a message names as the one that a program loaded


def spoken(facts: Facts, component: str) -> Iterator[str]:
    """Return the versions that somebody says are in use, of a component of which many copies may lie about."""
    for copy in copies(facts, component):
        if copy.version and STARTS.match(copy.version) and (asked(copy) or copy.key == LOADED):
            yield copy.version


def release(copy: Instance) -> str | None:
    """Return the version of a copy where it starts like that of a release, with major and minor; else None."""
    return copy.version if copy.version and is_version(copy.version) else None


def floor_fit(gpu: ComputeCapability, floor: ComputeCapability, row: Row | None, kept: Kept = Kept.BROKEN) -> Fit:
    """Tell how a GPU fits something that runs from a compute capability on; ``kept`` is what it is below that."""
    needs = f"compute capability {floor} or newer"
    return Fit(kept=Kept.OK if gpu >= floor else kept, needs=needs, found=f"a GPU of {gpu.sm}", row=row)


def same_major(name: str, wanted: str, found: str, row: Row | None) -> Fit:
    """Tell how a library fits what was built with it: the same major and no older minor; a major alone may be said."""
    needed, there = leading(wanted), leading(found)
    fits = there[:1] == needed[:1] and (len(there) == 1 or there[:2] >= needed[:2])
    least = ".".join(str(number) for number in needed[:2])
    needs = f"{name} {least}" + (" or newer of that major" if len(needed) > 1 else "")
    return Fit(kept=Kept.OK if fits else Kept.BROKEN, needs=needs, found=f"{name} {found}", row=row)


def loaded(facts: Facts, module: str) -> bool:
    """Return whether a kernel module is in memory, so that it was surely built for this kernel."""
    return any(text(copy.facts, "version_loaded") for copy in copies(facts, module))


def kernel_of(facts: Facts) -> str | None:
    """Return the release of the running kernel."""
    return version(facts, "linux-kernel")
