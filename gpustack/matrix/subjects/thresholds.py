"""From which value on a counter, a latency or a limit is bad, as tools that watch fleets have it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from gpustack.matrix.tables import row
from gpustack.model.report import Severity

if TYPE_CHECKING:
    from gpustack.matrix import Matrix
    from gpustack.matrix.tables import Line
    from gpustack.model.report import Row


class Side(str, Enum):
    """Which side of the value is bad."""

    ABOVE = "above"
    AT_LEAST = "at-least"
    BELOW = "below"


@dataclass(frozen=True, slots=True, kw_only=True)
class Threshold:
    """One limit; ``value`` is in ``unit``, and so must be what is compared with it."""

    name: str
    value: float
    unit: str
    bad: Side
    severity: Severity
    what: str
    row: Row

    def broken(self, measured: float) -> bool:
        """Tell whether the measured value is on the bad side."""
        if self.bad is Side.BELOW:
            return measured < self.value
        return measured > self.value or (self.bad is Side.AT_LEAST and measured == self.value)


def thresholds(matrix: Matrix) -> tuple[Threshold, ...]:
    """Give every limit."""
    return matrix.rows("thresholds", "thresholds", _threshold)


def limit(matrix: Matrix, name: str) -> Threshold:
    """Give one limit by its name, which is a key of ours: KeyError means that the caller is wrong."""
    return {one.name: one for one in thresholds(matrix)}[name]


def replays(matrix: Matrix, generation: int, lanes: int) -> float | None:
    """Give how many replays a minute a link may have, or None for a generation that no row states."""
    found = next((one for one in thresholds(matrix) if one.name == f"pcie.replays.gen{generation}"), None)
    return None if found is None else math.ceil(found.value * lanes)


def _threshold(line: Line) -> Threshold:
    side = Side(line["bad"])
    text = f"{line['name']} is bad {side.value.replace('-', ' ')} {line['value']} {line['unit']}: {line['what']}"
    return Threshold(
        name=line["name"],
        value=float(line["value"]),
        unit=line["unit"],
        bad=side,
        severity=Severity(line["severity"]),
        what=line["what"],
        row=row("thresholds", text, line),
    )
