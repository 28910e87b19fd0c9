"""A framework cannot be imported at all, GPU or none.

gpustack --deep imports each framework in a process of its own. This import failed, which no GPU and no driver can mend:
a library that it needs is missing or is another's, or the installation is damaged. Its own words are below. Where a GPU
is there and the build is for it, framework-fails-on-gpu says so instead, with what is behind it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.model.facts import Layer
from gpustack.model.report import Finding, Fix, Severity
from gpustack.rules import fixes
from gpustack.rules.framework_fails_on_gpu import SILENT, said
from gpustack.rules.reading import because_of, flag
from gpustack.rules.seen import builds, nvidia_here

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts


def judge(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """Give each framework whose import failed; running out of time is not knowing."""
    for build in builds(facts):
        told_elsewhere = build.accelerator == "cuda" and nvidia_here(facts)
        if flag(build.exercise, "ran") is not False or told_elsewhere:
            continue
        late = SILENT in said(build)
        yield Finding(
            id="framework-import-fails",
            instance=build.mark,
            severity=Severity.UNKNOWN if late else Severity.ERROR,
            layer=Layer.FRAMEWORK,
            component=build.component,
            title=f"{build.name} {'gave no answer in the time it had' if late else 'cannot be imported'}",
            detail=said(build),
            because=(
                because_of(facts, build.component, build.copy, "exercise", "error"),
                because_of(facts, build.component, build.copy, "exercise", "reason"),
            ),
            fix=Fix(text="Import it by hand and read what it says.", commands=(fixes.verify(build),)),
        )
