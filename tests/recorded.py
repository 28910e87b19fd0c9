"""The recorded cases of ``tests/cases``, read as ``doctor --from`` reads files, and judged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.engine import judge
from gpustack.imports import load_texts
from tests.build import MATRIX

if TYPE_CHECKING:
    from gpustack.model.facts import Facts
    from gpustack.model.report import Report
    from tools.cases import Case


def facts_of(case: Case) -> Facts:
    """Return the facts of a case."""
    return load_texts(case.files, MATRIX)


def judged(case: Case) -> Report:
    """Return the report on a case."""
    return judge(facts_of(case), MATRIX)
