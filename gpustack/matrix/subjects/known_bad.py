"""Combinations that are known to go wrong, and which of them a machine has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from gpustack.matrix.subjects.ranges import VersionRange
from gpustack.matrix.tables import row

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpustack.matrix import Matrix
    from gpustack.matrix.tables import Line
    from gpustack.model.report import Row
    from gpustack.model.versions import ComputeCapability


class Effect(str, Enum):
    """What goes wrong. ``crash``: an error, or it does not load or build; ``slow``: much time or memory is lost."""

    WRONG_RESULTS = "wrong-results"
    CRASH = "crash"
    HANG = "hang"
    SLOW = "slow"
    LEAK = "leak"


class Proof(str, Enum):
    """Who says so: the project itself (its code, notes or maintainers), or people who measured it."""

    PROJECT = "project"
    REPORT = "report"


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What of a machine the rows ask for; what is not known stays empty, and rows that need it do not match."""

    capabilities: tuple[ComputeCapability, ...] = ()
    gfx: tuple[str, ...] = ()
    gpu_count: int = 0
    architecture: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownBad:
    """One combination: versions that go wrong, with what and on what; ``when`` is what no version shows."""

    id: str
    component: str
    versions: VersionRange
    effect: Effect
    what: str
    advice: str
    proof: Proof
    row: Row
    when: str = ""
    partners: Mapping[str, VersionRange] = field(default_factory=dict)
    capabilities: VersionRange | None = None
    gfx: tuple[str, ...] = ()
    gpus: VersionRange | None = None
    machines: tuple[str, ...] = ()

    def fits(self, versions: Mapping[str, str], machine: Machine) -> bool:
        """Tell whether these versions on this machine are the combination, ``when`` aside."""
        named = {self.component: self.versions, **self.partners}
        return (
            all(name in versions and span.holds(versions[name]) for name, span in named.items())
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


def rows(matrix: Matrix) -> tuple[KnownBad, ...]:
    """Give every combination that is known to go wrong, the lowest layer first."""
    return matrix.rows("known_bad", "combinations", _known_bad)


def matching(
    matrix: Matrix,
    versions: Mapping[str, str],
    capabilities: Iterable[ComputeCapability] = (),
    gfx: Iterable[str] = (),
    gpu_count: int = 0,
    *,
    architecture: str | None = None,
) -> tuple[KnownBad, ...]:
    """Give the combinations that these versions (by component id) on these GPUs are, wrong results first."""
    machine = Machine(capabilities=tuple(capabilities), gfx=tuple(gfx), gpu_count=gpu_count, architecture=architecture)
    found = (one for one in rows(matrix) if one.fits(versions, machine))
    order = tuple(Effect)
    return tuple(sorted(found, key=lambda one: order.index(one.effect)))


def of(matrix: Matrix, component: str) -> tuple[KnownBad, ...]:
    """Give every combination in which the component takes part."""
    return tuple(one for one in rows(matrix) if component == one.component or component in one.partners)


def _known_bad(line: Line) -> KnownBad:
    return KnownBad(
        id=line["id"],
        component=line["component"],
        versions=VersionRange(line["versions"]),
        effect=Effect(line["effect"]),
        what=line["what"],
        advice=line["advice"],
        proof=Proof(line["proof"]),
        row=row("known_bad", _text(line), line),
        when=line.get("when", ""),
        partners={name: VersionRange(span) for name, span in line.get("with", {}).items()},
        capabilities=_optional(line.get("cc")),
        gfx=tuple(line.get("gfx", ())),
        gpus=_optional(line.get("gpus")),
        machines=tuple(line.get("machines", ())),
    )


def _text(line: Line) -> str:
    named = [(line["component"], line["versions"]), *line.get("with", {}).items()]
    said = " with ".join(f"{name} {span}".strip() for name, span in named)
    place = [f"compute capability {line['cc']}"] if "cc" in line else []
    place += [", ".join(line[key]) for key in ("gfx", "machines") if key in line]
    place += [f"{line['gpus']} GPUs"] if "gpus" in line else []
    on = f" on {' and '.join(place)}" if place else ""
    when = f", when {line['when']}" if "when" in line else ""
    return f"{said}{on}{when}: {line['what']}"


def _optional(text: str | None) -> VersionRange | None:
    return None if text is None else VersionRange(text)
