"""Something here is newer than the compatibility matrix knows.

What the matrix does not know is never called fine and never called broken: the rules that need its rows stay silent.
Bring gpustack up to date, or let ``gpustack matrix update`` show what the package index has that the matrix lacks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.rules.reading import because, because_of
from gpustack.diagnose.rules.seen import builds, driver_release, user_release
from gpustack.matrix.subjects.ranges import numbers
from gpustack.model.command import sh
from gpustack.model.facts import Layer
from gpustack.model.report import Because, Finding, Fix, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts

FIX = Fix(
    text="Bring gpustack up to date, from where this one was installed; this shows what the matrix lacks.",
    commands=(sh("gpustack matrix update"),),
    verify=sh("gpustack --version"),
)


def judge(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Give a remark for each thing that is newer than all rows about it."""
    yield from _drivers(facts, matrix)
    yield from _torch(facts, matrix)


def _drivers(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    release, newest = driver_release(facts) or user_release(facts), max(matrix.branches)
    if release and release.branch > newest and not facts.host.wsl:
        title = f"Driver {release} is of a branch newer than the matrix knows ({newest})"
        yield _newer("nvidia-driver", Layer.DRIVER, title, because(facts, "nvidia-driver", "version"))


def _torch(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    for build in builds(facts):
        if build.component == "pytorch" and build.copy.version:
            newest = max(matrix.torch_releases, key=numbers)
            if numbers(build.copy.version)[:2] > numbers(newest):
                title = f"{build.name} is newer than the matrix knows ({newest})"
                ground = because_of(facts, "pytorch", build.copy, "version")
                yield _newer("pytorch", Layer.FRAMEWORK, title, ground, build.mark)


def _newer(component: str, layer: Layer, title: str, ground: Because, instance: str | None = None) -> Finding:
    return Finding(
        id="newer-than-matrix",
        instance=instance,
        severity=Severity.INFO,
        layer=layer,
        component=component,
        title=title,
        detail="What depends on it is not judged by rows.",
        because=(ground,),
        fix=FIX,
    )
