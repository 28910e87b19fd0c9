"""What the command gives a trace to find the cause with, where a framework refuses a step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.engine import judge
from gpustack.imports.texts import take
from gpustack.matrix import Matrix

if TYPE_CHECKING:
    from gpustack.model.report import Report

MATRIX = Matrix()


def judged(words: str) -> Report:
    facts, _ = take([("the error", words)], MATRIX)
    return judge(facts, MATRIX)
