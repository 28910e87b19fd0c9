"""Parts of two cuDNN versions are mixed.

cuDNN is several libraries that must be of one version (libcudnn, _ops, _cnn, _graph …). Here they are not: one folder
holds parts of two versions, or a framework loaded parts from two folders. cuDNN then says
CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH or does not find a part. Install one cuDNN anew, and take the other off the
path.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.model.facts import Layer
from gpustack.model.report import Because, Finding, Fix, Severity
from gpustack.rules import fixes
from gpustack.rules.libraries import evidence, used
from gpustack.rules.reading import because_of, flag, text, texts
from gpustack.rules.seen import builds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts
    from gpustack.rules.libraries import Used
    from gpustack.rules.seen import Build


def judge(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """Give each framework that uses a mixed cuDNN: a warning where it ran rightly all the same."""
    for build in builds(facts):
        one = used(build, "libcudnn", "cudnn", facts)
        folders = {path.rpartition("/")[0] for path in texts(build.exercise, "loaded", "libcudnn")}
        mixed = bool(one and one.copy and flag(one.copy.facts, "mixed"))
        if one and (mixed or len(folders) > 1):
            yield _finding(build, one, sorted(folders), facts)


def _finding(build: Build, one: Used, folders: list[str], facts: Facts) -> Finding:
    where = " and ".join(folders) if len(folders) > 1 else one.path.rpartition("/")[0]
    parts = [because_of(facts, "cudnn", one.copy, "parts")] if one.copy else []
    loaded = [Because(component=build.component, fact="exercise.loaded.libcudnn", value=path) for path in folders[1:]]
    name = text(one.copy.facts, "owner", "name") if one.copy else None
    version = one.version or ""
    return Finding(
        id="cudnn-two-copies",
        instance=build.mark,
        severity=Severity.WARNING if build.ran_on_gpu else Severity.ERROR,
        layer=Layer.LIBRARY,
        component="cudnn",
        title=f"{build.name} uses parts of two cuDNN versions, in {where}",
        because=(evidence(build, "libcudnn", one), *parts, *loaded),
        fix=Fix(
            text="Install the cuDNN that the framework requires anew, and take every other off the loader's path.",
            commands=(
                f"{build.python} -m pip install --force-reinstall --no-deps {name or 'nvidia-cudnn-cu12'}"
                + (f"=={version}.*" if name and version else ""),
            ),
            verify=fixes.verify(build),
        ),
    )
