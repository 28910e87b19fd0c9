"""Figures that need a word become findings: failed is an error, low a warning, the others are worth knowing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from gpustack.model.bench import Mark
from gpustack.model.command import NAME, NUMBER, sh
from gpustack.model.facts import Layer
from gpustack.model.report import Because, Confidence, Finding, Fix, Severity

if TYPE_CHECKING:
    from gpustack.model.bench import Result

SEVERITIES = {
    Mark.FAILED: Severity.ERROR,
    Mark.LOW: Severity.WARNING,
    Mark.UNSTEADY: Severity.INFO,
    Mark.SKIPPED: Severity.INFO,
}
TITLES = {
    Mark.FAILED: "{name} failed",
    Mark.LOW: "{name} is low",
    Mark.UNSTEADY: "{name} is not steady",
    Mark.SKIPPED: "{name} was skipped",
}


def found(results: Sequence[Result]) -> tuple[Finding, ...]:
    """Give a finding for every result that is not simply good."""
    return tuple(_finding(result) for result in results if result.verdict is not Mark.OK)


def _finding(result: Result) -> Finding:
    where = result.place()
    return Finding(
        id=f"bench-{result.verdict.value}",
        instance=f"{result.id}{where}",
        severity=SEVERITIES[result.verdict],
        layer=Layer.HARDWARE,
        component="gpu",
        title=TITLES[result.verdict].format(name=f"{result.id}{where}"),
        detail="; ".join(result.why),
        because=tuple(_because(result)),
        fix=_fix(result),
        confidence=Confidence.LIKELY if result.verdict is Mark.LOW else Confidence.CERTAIN,
    )


def _fix(result: Result) -> Fix | None:
    """Give what to do: about the reasons, or to have the figure at all."""
    if result.remedy:
        return Fix(text="This would bring the figure.", commands=(result.remedy,))
    if not result.advice:
        return None
    commands = dict.fromkeys(command for advice in result.advice for command in advice.commands)
    gpus = result.gpus or ((result.device,) if result.device else ())
    again = sh(
        "gpustack bench {bench} {gpus}",
        bench=NAME(result.id),
        gpus=[sh("--gpu {gpu}", gpu=NUMBER(gpu)) for gpu in gpus],
    )
    said = " ".join(advice.text for advice in result.advice)
    root = any(command.startswith("sudo ") for command in commands)
    return Fix(text=said, commands=tuple(commands), needs_root=root, verify=again)


def _because(result: Result) -> Iterable[Because]:
    if result.value is not None:
        yield Because(
            component="gpu", fact=result.id, value=f"{result.value:.4g} {result.unit}", source="gpustack bench"
        )
    if result.ceiling is not None:
        source = result.ceiling_from or ""
        yield Because(component="gpu", fact="limit", value=f"{result.ceiling:.4g} {result.unit}", source=source)
    if result.value is None and result.why:
        yield Because(component="gpu", fact=result.id, value=result.why[0], source="gpustack bench")
