"""The compatibility matrix is old beside the machine that it judges.

Releases of the last months are missing from it, so more and more of the machine is neither called fine nor called
broken. Bring gpustack up to date.
"""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

from gpustack.diagnose.rules.newer_than_matrix import FIX
from gpustack.model.facts import Layer
from gpustack.model.report import Because, Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts

OLD_DAYS = 270  # PyTorch and the CUDA toolkit bring a minor release every two to three months: three are missing then


def judge(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Give a remark where the facts were taken long after the youngest row was checked."""
    age = _days(matrix.date, facts.taken)
    if age is not None and age > OLD_DAYS:
        yield Finding(
            id="matrix-old",
            severity=Severity.INFO,
            layer=Layer.ENVIRONMENT,
            component="gpustack",
            title=f"The compatibility matrix is of {matrix.date}, {age} days before these facts were taken",
            because=(Because(component="gpustack", fact="matrix_date", value=matrix.date, source="the matrix"),),
            fix=FIX,
        )


def _days(then: str, now: str) -> int | None:
    """Give the days from one date to another, None where either is none."""
    try:
        return (date.fromisoformat(now[:10]) - date.fromisoformat(then)).days
    except ValueError:
        return None
