"""The words of what refused a step go to the judge: the finding behind them, and what to type next."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import TYPE_CHECKING

from gpustack.model.facts import Layer
from gpustack.model.trace import Stop
from gpustack.trace import failing
from gpustack.trace.steps import NAMES
from gpustack.trace.wrong import failed

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpustack.model.report import Finding, Report

MOST = 160


def refused(
    number: int, words: str, component: str, judge: Callable[[str], Report]
) -> tuple[Stop, tuple[Finding, ...]]:
    """Give where the stack stops and why, by what the framework said at this step."""
    report = judge(words)
    stop = failing.stop(report)
    if stop is None:
        finding = failed(number, words, component=component, layer=Layer.FRAMEWORK)
        why = "no rule knows these words"
        return _stop(number, finding.id, words, why, f"gpustack explain {shlex.quote(words[:MOST])}"), (finding,)
    keys = set(report.verdict.root_keys)
    roots = tuple(one for one in report.findings if one.key in keys)
    return replace(stop, step=number, name=NAMES[number], why=f"{component} said: {words}", fails=True), roots


def _stop(number: int, finding: str, says: str, why: str, explain: str) -> Stop:
    return Stop(step=number, name=NAMES[number], finding=finding, says=says, why=why, explain=explain)
