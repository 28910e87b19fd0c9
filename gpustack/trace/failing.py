"""What goes wrong in a trace: whether a result is correct, the finding if not, and the step at which a stack stops.

The finding's layer decides, since a program reaches the layers in this order; a finding is listed here only if its
layer does not decide.
"""

from __future__ import annotations

import shlex
from dataclasses import replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from gpustack.matrix import Matrix
from gpustack.model.command import sh
from gpustack.model.difference import Check
from gpustack.model.facts import Layer
from gpustack.model.report import Because, Finding, Fix, Health, Report, Severity
from gpustack.model.trace import Ground, State, Step, Stop, Subject, Trace
from gpustack.trace import NAMES, left_out, needing

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy as np
    from numpy.typing import NDArray


BOUNDS = {"fp32": 1e-5, "fp16": 1e-2, "bf16": 1e-2}
TRUTH = "numpy in float64"
STEPS = Matrix().table("findings")["steps"]
BY_LAYER: Mapping[Layer, int] = {Layer(layer): step for layer, step in STEPS["layers"].items()}
BY_FINDING: Mapping[str, int] = STEPS["findings"]
WHY: Mapping[int, str] = {int(step): why for step, why in STEPS["why"].items()}
WHY_FINDING: Mapping[str, str] = STEPS["told"]
WITHOUT = "these facts contain no GPU"
UNTOLD = "too little is known to say whether this step would fail"
MOST = 160


def compare(
    got: NDArray[np.floating], wanted: NDArray[np.floating], precision: str, *, what: str, rows: int | None = None
) -> Check:
    """Return how far a result is from the reference; ``rows`` is how many rows there were before sampling.

    Two measures, since the first alone would accept one wrong number among many: the norm of the difference over the
    norm of the reference, and the largest difference over the largest reference value.
    """
    import numpy as np  # noqa: PLC0415 - only what runs a model needs it

    said = np.asarray(got, np.float64)
    if said.shape != wanted.shape:
        raise ValueError(f"the answer has the shape {said.shape}, expected {wanted.shape}")
    finite = bool(np.isfinite(said).all())
    apart = np.abs(np.where(np.isfinite(said), said, 0.0) - wanted)
    length, largest = float(np.sqrt((wanted**2).sum())), float(np.abs(wanted).max(initial=0.0))
    return Check(
        what=what,
        against=TRUTH,
        precision=precision,
        error=_over(float(np.sqrt((apart**2).sum())), length),
        largest=_over(float(apart.max(initial=0.0)), largest),
        bound=BOUNDS[precision],
        compared=len(said),
        rows=rows or len(said),
        finite=finite,
    )


def said(check: Check) -> str:
    """Return in words what the check found: why the result is wrong, or how close it is."""
    rows = f"{check.compared} of {check.rows} rows" if check.compared < check.rows else f"all {check.rows} rows"
    if not check.compared:
        return "nothing was compared"
    if not check.finite:
        return f"the answer contains values that are not numbers (NaN or infinity), in {rows}"
    near = f"relative error {max(check.error, check.largest):.2g} against {check.against}, over {rows}"
    return f"{near}, within {check.bound:g}" if check.passed else f"{near}: more than {check.bound:g} is wrong"


def _over(error: float, size: float) -> float:
    return error / size if size else error


def wrong(check: Check, *, component: str = "gpu", layer: Layer = Layer.HARDWARE) -> Finding:
    """Return the finding for a wrong result; no figure of such a run counts."""
    return Finding(
        id="trace-wrong-answer",
        severity=Severity.ERROR,
        layer=layer,
        component=component,
        title="The model gives a wrong answer",
        detail=f"{said(check)[:1].upper()}{said(check)[1:]}. The figures of this run do not count.",
        because=(
            Because(component=component, fact="relative error", value=max(check.error, check.largest), source="trace"),
        ),
        fix=Fix(
            text="Compare every bit under load: a faulty unit or faulty memory shows up there.",
            commands=(sh("gpustack stress --seconds 60"),),
            verify=sh("gpustack trace"),
        ),
    )


def step_failed(number: int, why: str, *, component: str = "gpu", layer: Layer = Layer.DRIVER) -> Finding:
    """Return the finding for a failed step, in the words of what refused it."""
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


def step_of(finding: Finding) -> int:
    """Return the number of the step that this finding affects."""
    return BY_FINDING.get(finding.id, BY_LAYER[finding.layer])


def why_of(finding: Finding) -> str:
    """Return why it is this step."""
    return WHY_FINDING.get(finding.id, WHY[step_of(finding)])


def stop(report: Report) -> Stop | None:
    """Return the step at which a report's stack fails, from its first root cause; None without one."""
    root = next((one for key in report.verdict.root_keys for one in report.findings if one.key == key), None)
    if root is None:
        return None
    number = step_of(root)
    return Stop(
        step=number,
        name=NAMES[number],
        finding=root.key,
        says=root.title,
        why=why_of(root),
        explain=f"gpustack explain {root.id}",
        fails=root.severity is Severity.ERROR,
    )


def recorded(report: Report, subject: Subject) -> Trace:
    """Return the expected outcome of the seven steps on this report's machine."""
    where = stop(report)
    roots = tuple(one for key in report.verdict.root_keys for one in report.findings if one.key == key)
    return Trace(
        tool=report.tool,
        ground=Ground.RECORDED,
        subject=subject,
        steps=tuple(_recorded_step(number, where, report.verdict.status) for number in NAMES),
        findings=roots,
        stop=where,
        says=_summary(where, report.verdict.status),
        taken=report.taken or datetime.now(timezone.utc).isoformat(timespec="seconds"),
        seconds=report.seconds,
    )


def _summary(where: Stop | None, health: Health) -> str:
    """Return the expected outcome of the seven steps in a sentence."""
    if where is not None and where.fails:
        return f"it would fail at step {where.step}, {where.name}: {where.says}"
    if where is not None:
        return f"none of the seven steps is known to fail; step {where.step}, {where.name}, has limits: {where.says}"
    return {
        Health.NO_GPU: f"{WITHOUT}: steps 1, 5 and 6 run on a CPU, with gpustack trace --cpu",
        Health.UNKNOWN: "too little is known to name a step",
    }.get(health, "none of the seven steps is known to fail")


def _recorded_step(number: int, where: Stop | None, health: Health) -> Step:
    if where is None and health is Health.NO_GPU:
        return needing(number) if number not in {1, 5, 6} else left_out(number, WITHOUT)
    if where is None:
        return left_out(number, UNTOLD if health is Health.UNKNOWN else "nothing is known against it")
    if number == where.step:
        status = State.FAILED if where.fails else State.SKIPPED
        return Step(number=number, name=NAMES[number], status=status, why=(where.says, where.why))
    late = where.fails and number > where.step
    return left_out(number, "not reached" if late else "nothing is known against it")


def refused(
    number: int, words: str, component: str, judge: Callable[[str], Report]
) -> tuple[Stop, tuple[Finding, ...]]:
    """Return where the stack stops and why, from the framework's message at this step."""
    report = judge(words)
    where = stop(report)
    if where is None:
        finding = step_failed(number, words, component=component, layer=Layer.FRAMEWORK)
        halt = Stop(
            step=number,
            name=NAMES[number],
            finding=finding.id,
            says=words,
            why="no rule matches this message",
            explain=f"gpustack explain {shlex.quote(words[:MOST])}",
        )
        return halt, (finding,)
    roots = tuple(one for one in report.findings if one.key in report.verdict.root_keys)
    return replace(where, step=number, name=NAMES[number], why=f"{component} said: {words}", fails=True), roots
