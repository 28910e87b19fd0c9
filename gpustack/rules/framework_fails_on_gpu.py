"""A framework that is built for the GPU was run and did not compute on it, or not rightly.

gpustack --deep imports each framework in a process of its own and lets it compute something with a known answer. This
one raised an error, fell back to the CPU, or gave a wrong answer. Mostly that follows from something deeper, which is
then named as its cause; its own words are below.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.model.facts import Layer
from gpustack.model.report import Finding, Fix, Severity
from gpustack.rules import fixes
from gpustack.rules.reading import because_of, flag, text
from gpustack.rules.seen import builds, nvidia_here

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts
    from gpustack.rules.seen import Build

SILENT = "gave no answer"


def judge(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """Give each GPU build that was run in vain on a machine with a GPU; running out of time is not knowing."""
    for build in builds(facts):
        if build.accelerator != "cuda" or build.ran_on_gpu is not False or not nvidia_here(facts):
            continue
        late = SILENT in (text(build.exercise, "reason") or "")
        yield Finding(
            id="framework-fails-on-gpu",
            instance=build.mark,
            severity=Severity.UNKNOWN if late else Severity.ERROR,
            layer=Layer.FRAMEWORK,
            component=build.component,
            title=f"{build.name} {what(build)}",
            detail=said(build),
            because=(
                because_of(facts, build.component, build.copy, "exercise", "ok"),
                because_of(facts, build.component, build.copy, "exercise", "device"),
                because_of(facts, build.component, build.copy, "exercise", "error"),
            ),
            fix=Fix(text="Run it by hand and read what it says.", commands=(fixes.verify(build),)),
        )


def what(build: Build) -> str:
    """Give what became of running it."""
    device = text(build.exercise, "device")
    if SILENT in (text(build.exercise, "reason") or ""):
        return "gave no answer in the time it had"
    if not flag(build.exercise, "ran"):
        return "could not be run"
    if text(build.exercise, "error"):
        return f"failed on {device or 'the GPU'}"
    return "computed on the CPU and not on the GPU" if device == "cpu" else f"gave a wrong answer on {device}"


def said(build: Build) -> str:
    """Give its own words."""
    words = (text(build.exercise, name) for name in ("error", "unavailable", "reason"))
    return next((word for word in words if word), "")
