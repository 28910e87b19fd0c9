"""What a trace finds wrong, as a finding: an answer that is not the right one, or a step that did not work."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.model.command import sh
from gpustack.model.facts import Layer
from gpustack.model.report import Because, Finding, Fix, Severity
from gpustack.trace.checking import said

if TYPE_CHECKING:
    from gpustack.model.trace_figures import Check


def wrong(check: Check, *, component: str = "gpu", layer: Layer = Layer.HARDWARE, where: str = "") -> Finding:
    """Give the finding of an answer that is not the right one; no figure of such a run counts."""
    return Finding(
        id="trace-wrong-answer",
        severity=Severity.ERROR,
        layer=layer,
        component=component,
        title=f"The model gives a wrong answer{where}",
        detail=f"{said(check)[:1].upper()}{said(check)[1:]}. The figures of this run do not count.",
        because=(
            Because(component=component, fact="relative error", value=max(check.error, check.largest), source="trace"),
        ),
        fix=Fix(
            text="Compare every bit under load: a unit or a memory that errs shows there.",
            commands=(sh("gpustack stress --seconds 60"),),
            verify=sh("gpustack trace"),
        ),
    )


def failed(number: int, why: str, *, component: str = "gpu", layer: Layer = Layer.DRIVER) -> Finding:
    """Give the finding of a step that did not work, in the words of what refused it."""
    return Finding(
        id="trace-step-failed",
        severity=Severity.ERROR,
        layer=layer,
        component=component,
        title=f"Step {number} failed: {why}",
        fix=Fix(
            text="Let the doctor look for the cause.",
            commands=(sh("gpustack doctor --deep"),),
            verify=sh("gpustack trace"),
        ),
    )
