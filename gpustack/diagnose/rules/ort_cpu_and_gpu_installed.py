"""onnxruntime and onnxruntime-gpu are both installed.

They bring the same package, onnxruntime, and write over each other's files: the one installed last answers, and after
one of them is removed neither works. Remove both and install the one that is wanted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.rules import fixes
from gpustack.diagnose.rules.reading import because_of, table, told, version
from gpustack.diagnose.rules.saying import grounds, heard, holding, value
from gpustack.diagnose.rules.seen import builds
from gpustack.model.command import DISTRIBUTION, sh
from gpustack.model.facts import Layer
from gpustack.model.report import Finding, Fix, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts

PLAIN = "onnxruntime"
SAID, EMPTY = "ort-both-said", "ort-empty"
ABSENT = ("ort-provider-unavailable", "ort-cuda-absent-said")
GPU = ("onnxruntime-gpu", "ort-nightly-gpu")


def judge(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """Give each Python that has both: an error where the CPU one answers, a warning where the GPU one does."""
    found = list(_seen(facts))
    yield from found or _said(facts)


def _said(facts: Facts) -> Iterator[Finding]:
    """Give the two packages where somebody says that both are installed, or a list and its providers show it."""
    names = {one.values["name"].lower().replace("_", "-") for one in holding(facts, "pip-existing", "name")}
    names |= {one.values["package"] for one in holding(facts, "ort-installed", "package")}
    listed = {*names, *table(told(facts, "packages"), "distributions")}
    providers = value(facts, "ort-providers", "providers")
    lost = (providers is not None and "CUDA" not in providers) or heard(facts, *ABSENT)
    both = PLAIN in listed and any(name in listed for name in GPU)
    empty = heard(facts, EMPTY) and (both or holding(facts, "ort-named", "package"))
    if not (heard(facts, SAID) or (both and lost) or empty):
        return
    release = version(facts, PLAIN) or value(facts, "pip-existing", "version")
    mine = next((build.mark for build in builds(facts) if build.component == PLAIN), PLAIN)
    yield Finding(
        id="ort-cpu-and-gpu-installed",
        instance=mine,
        severity=Severity.ERROR if lost or providers is None else Severity.WARNING,
        layer=Layer.LIBRARY,
        component=PLAIN,
        title=f"onnxruntime{f' {release}' if release else ''} and onnxruntime-gpu are both installed"
        + ("; the one for the CPU answers" if lost and not heard(facts, EMPTY) else ""),
        detail="They bring the same package and write over each other's files"
        + (f": the providers are {providers}, without CUDA." if lost and providers else ".")
        + (" After one was removed the package is empty." if heard(facts, EMPTY) else ""),
        because=grounds(facts, SAID, EMPTY, *ABSENT, "ort-providers", "pip-existing"),
        fix=Fix(
            text="Remove both and install onnxruntime-gpu alone.",
            commands=(
                sh("python -m pip uninstall -y onnxruntime onnxruntime-gpu"),
                sh("python -m pip install onnxruntime-gpu"),
            ),
            verify=sh('python -c "import onnxruntime; print(onnxruntime.get_available_providers())"'),
        ),
    )


def _seen(facts: Facts) -> Iterator[Finding]:
    for build in builds(facts):
        names = table(build.copy.facts, "distributions")
        both = [name for name in GPU if name in names]
        if build.component != PLAIN or PLAIN not in names or not both:
            continue
        yield Finding(
            id="ort-cpu-and-gpu-installed",
            instance=build.mark,
            severity=Severity.ERROR if build.accelerator == "cpu" else Severity.WARNING,
            layer=Layer.LIBRARY,
            component=PLAIN,
            title=f"onnxruntime and {both[0]} are both installed; the {build.copy.build or 'last'} one answers",
            because=(
                because_of(facts, PLAIN, build.copy, "distributions"),
                because_of(facts, PLAIN, build.copy, "build"),
            ),
            fix=Fix(
                text="Remove both and install one.",
                commands=(
                    sh(
                        "{python} -m pip uninstall -y onnxruntime {other}",
                        python=build.python,
                        other=DISTRIBUTION(both[0]),
                    ),
                    sh("{python} -m pip install {other}", python=build.python, other=DISTRIBUTION(both[0])),
                ),
                verify=fixes.verify(build),
            ),
        )
