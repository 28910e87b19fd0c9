"""A framework or a library for the GPU cannot be imported at all, GPU or none.

gpustack --deep imports each in a process of its own. This import failed, which no GPU and no driver can mend: a library
that it needs is missing or is another's, or the installation is damaged. Its own words are below. Where a GPU is there
and a framework's build is for it, framework-fails-on-gpu says so instead, with what is behind it. What no framework
rests on is a warning.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.rules import fixes, tried
from gpustack.diagnose.rules.framework_fails_on_gpu import again, grounds, said
from gpustack.diagnose.rules.reading import because_of, flag, text
from gpustack.diagnose.rules.seen import builds, nvidia_here
from gpustack.diagnose.rules.tried import SILENT
from gpustack.model.facts import Layer
from gpustack.model.report import Finding, Fix, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts


def judge(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """Give all whose import failed; running out of time is not knowing."""
    for build in builds(facts):
        told_elsewhere = build.accelerator == "cuda" and nvidia_here(facts)
        if flag(build.exercise, "ran") is not False or told_elsewhere:
            continue
        late = SILENT in said(build.exercise)
        yield Finding(
            id="framework-import-fails",
            instance=build.mark,
            severity=Severity.UNKNOWN if late else Severity.ERROR,
            layer=Layer.FRAMEWORK,
            component=build.component,
            title=f"{build.name} {_what(late=late)}",
            detail=said(build.exercise),
            because=(
                because_of(facts, build.component, build.copy, "exercise", "error"),
                because_of(facts, build.component, build.copy, "exercise", "reason"),
            ),
            fix=Fix(text="Import it by hand and read what it says.", commands=(fixes.verify(build),)),
        )
    for trial in tried.trials(facts):
        if not (tried.failed(trial, facts) and tried.at_import(trial.exercise)):
            continue
        yield Finding(
            id="framework-import-fails",
            instance=trial.mark,
            severity=tried.weight(trial, facts),
            layer=trial.layer,
            component=trial.component,
            title=f"{trial.name} {_what(late=SILENT in (text(trial.exercise, 'reason') or ''))}",
            detail=said(trial.exercise),
            because=grounds(trial),
            fix=Fix(text="Mend what it says, then run it again.", commands=(again(trial),)),
        )


def _what(*, late: bool) -> str:
    return "gave no answer in the time it had" if late else "cannot be imported"
