"""LD_LIBRARY_PATH puts another cuDNN before the framework's own.

The loader looks into LD_LIBRARY_PATH before the folders that a wheel names, so the cuDNN there is loaded in the place
of the one that the framework was built and tested with. An older one is refused by PyTorch ("compiled against … but
found runtime version …") or fails later. Take that folder off LD_LIBRARY_PATH: wheels bring what they need.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.model.facts import Layer
from gpustack.model.report import Because, Finding, Severity
from gpustack.rules import fixes
from gpustack.rules.libraries import LD_LIBRARY_PATH, copy_at, evidence, pinned, used
from gpustack.rules.reading import numbers
from gpustack.rules.seen import builds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts
    from gpustack.rules.libraries import Used
    from gpustack.rules.seen import Build

UP_TO_MINOR = 2


def judge(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """Give each framework whose cuDNN comes from LD_LIBRARY_PATH and is another than its own: an error if older."""
    for build in builds(facts):
        one = used(build, "libcudnn", "cudnn", facts)
        if one is None or one.step != LD_LIBRARY_PATH:
            continue
        own = _own(build, one, facts)
        if own and one.version and numbers(one.version)[:3] != numbers(own)[:3]:
            older = numbers(one.version)[:UP_TO_MINOR] < numbers(own)[:UP_TO_MINOR]
            yield _finding(build, one, own, older=older and not build.ran_on_gpu)


def _own(build: Build, one: Used, facts: Facts) -> str | None:
    """Give the version that the framework would have: that of its pin, else of the next copy in the order."""
    next_ = (copy_at(path, "cudnn", facts) for path in one.passed_over)
    return pinned(build, "nvidia-cudnn") or next((copy.version for copy in next_ if copy and copy.version), None)


def _finding(build: Build, one: Used, own: str, *, older: bool) -> Finding:
    folder = one.path.rpartition("/")[0]
    return Finding(
        id="cudnn-shadowed-by-ld-library-path",
        instance=build.mark,
        severity=Severity.ERROR if older else Severity.WARNING,
        layer=Layer.LIBRARY,
        component="cudnn",
        title=f"LD_LIBRARY_PATH gives {build.name} cuDNN {one.version} in the place of its own {own}",
        because=(
            evidence(build, "libcudnn", one),
            Because(component="cudnn", fact="version", value=one.version, source=one.path),
            Because(component=build.component, fact="pins", value=own, source="metadata of the wheel"),
        ),
        fix=fixes.off_path([folder], folder, fixes.verify_loaded(build)),
    )
