"""The words of the stack that are no component, and where findings and numbers belong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpustack.matrix import tables
from gpustack.model.facts import Layer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gpustack.matrix import Matrix
    from gpustack.model.report import Row


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """One word of the field: what it is, what it needs (terms and ids of systems), and commands that show it."""

    name: str
    layer: Layer
    role: str
    see: tuple[str, ...]
    row: Row
    also: tuple[str, ...] = ()
    stands_on: tuple[str, ...] = ()
    findings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberLeads:
    """The findings that a number of a table (cuda, nvml, xid …) mostly leads to, the likeliest first."""

    table: str
    number: int
    findings: tuple[str, ...]
    row: Row


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The layer of a finding, and the system or term that it is about, if one."""

    finding: str
    layer: Layer
    row: Row
    about: str | None = None


def terms(matrix: Matrix) -> tuple[Term, ...]:
    """Give every term."""
    return matrix.rows("terms", "terms", _term)


def leads_of(matrix: Matrix, table: str, number: int) -> tuple[str, ...]:
    """Give the ids of the findings that this number mostly leads to; none where no row says it."""
    rows = matrix.rows("terms", "leads", _leads)
    return next((one.findings for one in rows if (one.table, one.number) == (table, number)), ())


def places(matrix: Matrix) -> tuple[Place, ...]:
    """Give where each finding belongs."""
    return matrix.rows("terms", "places", _place)


def place_of(matrix: Matrix, finding: str) -> Place | None:
    """Give where a finding belongs, or None where no row says it."""
    return next((one for one in places(matrix) if one.finding == finding), None)


def _term(line: Mapping[str, Any]) -> Term:
    return Term(
        name=line["name"],
        layer=Layer(line["layer"]),
        role=line["role"],
        see=tuple(line["see"]),
        also=tuple(line.get("also", ())),
        stands_on=tuple(line.get("stands_on", ())),
        findings=tuple(line.get("findings", ())),
        row=tables.row("terms", f"{line['name']}: {line['role']}", line),
    )


def _leads(line: Mapping[str, Any]) -> NumberLeads:
    table, number, findings = line["table"], int(line["code"]), tuple(line["findings"])
    row = tables.row("terms", f"{table} {number} mostly leads to {', '.join(findings)}", line)
    return NumberLeads(table=table, number=number, findings=findings, row=row)


def _place(line: Mapping[str, Any]) -> Place:
    finding, layer = line["finding"], Layer(line["layer"])
    row = tables.row("terms", f"{finding} belongs to the {layer.value} layer", line)
    return Place(finding=finding, layer=layer, about=line.get("about"), row=row)
