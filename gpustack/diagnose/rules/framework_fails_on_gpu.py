"""A framework or a library that is built for the GPU was run and did not compute on it, or not rightly.

gpustack --deep imports each framework, and each library and compiler for the GPU, in a process of its own and lets it
compute something with a known answer. This one raised an error, fell back to the CPU, or gave a wrong answer. Mostly
that follows from something deeper, which is then named as its cause; its own words are below. What no framework rests
on is a warning: the frameworks compute without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.rules import fixes, tried
from gpustack.diagnose.rules.reading import because_of, flag, text
from gpustack.diagnose.rules.seen import builds, nvidia_here
from gpustack.diagnose.rules.tried import SILENT
from gpustack.model.command import PYTHON, Command, sh
from gpustack.model.facts import Layer
from gpustack.model.report import Because, Finding, Fix, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from gpustack.diagnose.rules.tried import Trial
    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts, JsonValue

WENT_WRONG = {"import": "cannot be imported", "compile": "cannot compile for {device}"}


def judge(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """Give all that was run in vain on a machine with a GPU; running out of time is not knowing."""
    if not nvidia_here(facts):
        return
    for build in builds(facts):
        if build.accelerator != "cuda" or build.ran_on_gpu is not False:
            continue
        late = SILENT in (text(build.exercise, "reason") or "")
        yield Finding(
            id="framework-fails-on-gpu",
            instance=build.mark,
            severity=Severity.UNKNOWN if late else Severity.ERROR,
            layer=Layer.FRAMEWORK,
            component=build.component,
            title=f"{build.name} {what(build.exercise)}",
            detail=said(build.exercise),
            because=(
                because_of(facts, build.component, build.copy, "exercise", "ok"),
                because_of(facts, build.component, build.copy, "exercise", "device"),
                because_of(facts, build.component, build.copy, "exercise", "error"),
            ),
            fix=Fix(text="Run it by hand and read what it says.", commands=(fixes.verify(build),)),
        )
    for trial in tried.trials(facts):
        if tried.failed(trial, facts) and not tried.at_import(trial.exercise):
            yield _library(trial, facts)


def _library(trial: Trial, facts: Facts) -> Finding:
    return Finding(
        id="framework-fails-on-gpu",
        instance=trial.mark,
        severity=tried.weight(trial, facts),
        layer=trial.layer,
        component=trial.component,
        title=f"{trial.name} {what(trial.exercise)}",
        detail=said(trial.exercise),
        because=grounds(trial),
        fix=Fix(text="What it says is the lead; run it again when that is mended.", commands=(again(trial),)),
    )


def again(trial: Trial) -> Command:
    """Give the command that runs it once more."""
    if not trial.environment:
        return sh("gpustack doctor --deep")
    return sh("gpustack doctor --deep --python {python}", python=PYTHON(trial.environment))


def grounds(trial: Trial) -> tuple[Because, ...]:
    """Give what a trial's failing rests on: what was raised and where, else what came out."""
    told = tuple(name for name in ("error", "reason") if text(trial.exercise, name))
    names = (*told, "failed_at") if told else ("ok", "device")
    return tuple(
        Because(component=trial.component, fact=f"exercise.{name}", value=trial.exercise.get(name), source=tried.SOURCE)
        for name in names
        if trial.exercise.get(name) is not None
    )


def what(exercise: Mapping[str, JsonValue]) -> str:
    """Give what became of running it."""
    device = text(exercise, "device")
    if SILENT in (text(exercise, "reason") or ""):
        return "gave no answer in the time it had"
    if not flag(exercise, "ran"):
        known = WENT_WRONG.get(text(exercise, "failed_at") or "", "could not be run")
        return known.format(device=device or "the GPU")
    if text(exercise, "error"):
        return f"failed on {device or 'the GPU'}"
    return "computed on the CPU and not on the GPU" if device == "cpu" else f"gave a wrong answer on {device}"


def said(exercise: Mapping[str, JsonValue]) -> str:
    """Give its own words."""
    words = (text(exercise, name) for name in ("error", "unavailable", "reason"))
    return next((word for word in words if word), "")
