"""Combinations that are known to fail, and which of them a machine has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from gpustack.matrix.subjects import rows_of
from gpustack.matrix.subjects.ranges import VersionRange
from gpustack.model import field, record, row
from gpustack.model.reading import key
from gpustack.model.rows import Stated

if TYPE_CHECKING:
    from gpustack.matrix import Matrix
    from gpustack.model.versions import ComputeCapability


class Effect(str, Enum):
    """What goes wrong. ``crash``: an error, or a failure to load or build; ``slow``: much time or memory is lost."""

    WRONG_RESULTS = "wrong-results"
    CRASH = "crash"
    HANG = "hang"
    SLOW = "slow"
    LEAK = "leak"


class Proof(str, Enum):
    """Who says so: the project itself (its code, notes or maintainers), or people who measured it."""

    PROJECT = "project"
    REPORT = "report"


@record
class Machine:
    """The facts of a machine that rows need; unknown ones stay empty, and rows that need them do not match."""

    capabilities: tuple[ComputeCapability, ...] = ()
    gfx: tuple[str, ...] = ()
    gpu_count: int = 0
    architecture: str | None = None


@row
class KnownBad(Stated):
    """One combination: versions that fail, with what and on what; ``when`` is a condition that no version shows.

    ``install`` are the requirements, or the oldest driver, that ``advice`` names, if one command can install them.
    """

    id: str
    component: str
    versions: VersionRange
    effect: Effect
    what: str
    advice: str
    proof: Proof
    when: str = ""
    partners: Mapping[str, VersionRange] = field(default_factory=dict, metadata=key("with"))
    capabilities: VersionRange | None = field(default=None, metadata=key("cc"))
    gfx: tuple[str, ...] = ()
    gpus: VersionRange | None = None
    machines: tuple[str, ...] = ()
    install: tuple[str, ...] = ()

    def __str__(self) -> str:
        named = {self.component: self.versions, **self.partners}
        given = " with ".join(f"{name} {span.text}".strip() for name, span in named.items())
        place = [f"compute capability {self.capabilities.text}"] if self.capabilities else []
        place += [", ".join(names) for names in (self.gfx, self.machines) if names]
        place += [f"{self.gpus.text} GPUs"] if self.gpus else []
        on = f" on {' and '.join(place)}" if place else ""
        return f"{given}{on}{f', when {self.when}' if self.when else ''}: {self.what}"

    def fits(self, versions: Mapping[str, str], machine: Machine) -> bool:
        """Return whether these versions on this machine are the combination, ignoring ``when``."""
        own = versions.get(self.component)
        return (
            own is not None
            and self.versions.holds(own)
            and all(name in versions and span.holds(versions[name]) for name, span in self.partners.items())
            and self._fits_gpus(machine)
            and (not self.machines or machine.architecture in self.machines)
        )

    def _fits_gpus(self, machine: Machine) -> bool:
        wanted = self.capabilities
        return (
            (wanted is None or any(wanted.holds(str(one)) for one in machine.capabilities))
            and (not self.gfx or any(fnmatchcase(one, name) for one in machine.gfx for name in self.gfx))
            and (self.gpus is None or self.gpus.holds(str(machine.gpu_count)))
        )


# Every combination that is known to fail, the lowest layer first.
rows = rows_of("known_bad", "combinations", KnownBad)


def matching(
    matrix: Matrix,
    versions: Mapping[str, str],
    capabilities: Iterable[ComputeCapability] = (),
    gfx: Iterable[str] = (),
    gpu_count: int = 0,
    *,
    architecture: str | None = None,
) -> tuple[KnownBad, ...]:
    """Return the combinations that match these versions (by component id) on these GPUs, wrong results first."""
    machine = Machine(capabilities=tuple(capabilities), gfx=tuple(gfx), gpu_count=gpu_count, architecture=architecture)
    found = (one for one in rows(matrix) if one.component in versions and one.fits(versions, machine))
    order = tuple(Effect)
    return tuple(sorted(found, key=lambda one: order.index(one.effect)))


def of(matrix: Matrix, component: str) -> tuple[KnownBad, ...]:
    """Return every combination that involves the component."""
    return tuple(one for one in rows(matrix) if component == one.component or component in one.partners)
