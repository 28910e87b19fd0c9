"""There are several copies of cuDNN; this says which one a framework uses. No fault by itself.

A wheel brings its own cuDNN, and the system may have another. Which of them counts is decided by the loader's order, or
by the framework itself, and other tools guess it from file names. With --deep the framework is run and its own memory
map says which files it really loaded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.rules.libraries import evidence, owner, used
from gpustack.diagnose.rules.reading import copies, flag
from gpustack.diagnose.rules.seen import builds
from gpustack.model.facts import Layer
from gpustack.model.report import Because, Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.diagnose.rules.seen import Build
    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts, Instance


def judge(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """Give, for each framework, the cuDNN that it uses where copies of other versions could be taken for it."""
    for build in builds(facts):
        one = used(build, "libcudnn", "cudnn", facts)
        others = [copy for copy in reachable(build, facts) if one and copy.path != one.path and copy.version]
        differing = [copy for copy in others if one and copy.version != one.version]
        if one is None or not differing:
            continue
        version = one.version or "of an unknown version"
        yield Finding(
            id="several-cudnn-copies",
            instance=build.mark,
            severity=Severity.INFO,
            layer=Layer.LIBRARY,
            component="cudnn",
            title=f"{build.name} {one.how} cuDNN {version}, not {' or '.join(_versions(differing))}",
            detail=f"In use: {one.path}. Passed over: {'; '.join(map(_line, differing))}.",
            because=(
                evidence(build, "libcudnn", one),
                *(Because(component="cudnn", fact="path", value=copy.path, source=owner(copy)) for copy in differing),
            ),
        )


def reachable(build: Build, facts: Facts) -> tuple[Instance, ...]:
    """Give the copies in the same Python and those of the system, stubs left out."""
    places = {None, build.copy.environment}
    return tuple(copy for copy in copies(facts, "cudnn") if copy.environment in places and not flag(copy.facts, "stub"))


def _versions(found: list[Instance]) -> list[str]:
    return sorted({copy.version for copy in found if copy.version})


def _line(copy: Instance) -> str:
    return f"{copy.version} at {copy.path} ({owner(copy)})"
