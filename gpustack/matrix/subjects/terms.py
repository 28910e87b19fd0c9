"""The terms of the stack: its layers, its systems, other terms of the field, and where findings and numbers belong."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.matrix.subjects import rows_of
from gpustack.model import field, row
from gpustack.model.facts import Layer
from gpustack.model.reading import key
from gpustack.model.rows import Stated

if TYPE_CHECKING:
    from gpustack.matrix import Matrix


@row
class LayerRow(Stated):
    """One layer of the stack; ``also`` are other names for it, ``see`` commands that show what is in it."""

    layer: Layer = field(metadata=key("id"))
    role: str
    see: tuple[str, ...]
    also: tuple[str, ...] = ()

    @property
    def beside(self) -> bool:
        """Whether it is beside the stack, not in it."""
        return self.layer in {Layer.ENVIRONMENT, Layer.CONTAINER}

    def __str__(self) -> str:
        return f"{self.layer.value} layer: {self.role}"


@row
class Named(Stated):
    """A term of the stack: what it is for, what it needs (ids and terms), and commands that show it."""

    layer: Layer
    role: str
    see: tuple[str, ...]
    also: tuple[str, ...] = ()
    stands_on: tuple[str, ...] = ()
    findings: tuple[str, ...] = ()


@row
class System(Named):
    """One system of the stack."""

    id: str
    vendor: str

    def __str__(self) -> str:
        return f"{self.id}: {self.role}"


@row
class Term(Named):
    """One term of the field that is not a system."""

    name: str

    def __str__(self) -> str:
        return f"{self.name}: {self.role}"


@row
class NumberLeads(Stated):
    """The findings that a number of a family (cuda, nvml, xid …) usually leads to, the likeliest first."""

    family: str = field(metadata=key("table"))
    number: int = field(metadata=key("code"))
    findings: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.family} {self.number} mostly leads to {', '.join(self.findings)}"


@row
class Place(Stated):
    """The layer of a finding, and the system or term that it is about, if any."""

    finding: str
    layer: Layer
    about: str | None = None

    def __str__(self) -> str:
        return f"{self.finding} belongs to the {self.layer.value} layer"


layers = rows_of("stack", "layers", LayerRow)  # the twelve layers, bottom first, and the two beside them
systems = rows_of("stack", "systems", System)  # every system, bottom layer first
terms = rows_of("terms", "terms", Term)  # every term
places = rows_of("terms", "places", Place)  # where each finding belongs


def leads_of(matrix: Matrix, table: str, number: int) -> tuple[str, ...]:
    """Return the ids of the findings that this number usually leads to; none if no row states it."""
    rows = matrix.rows("terms", "leads", NumberLeads)
    return next((one.findings for one in rows if (one.family, one.number) == (table, number)), ())


def place_of(matrix: Matrix, finding: str) -> Place | None:
    """Return where a finding belongs, or None if no row states it."""
    return next((one for one in places(matrix) if one.finding == finding), None)
