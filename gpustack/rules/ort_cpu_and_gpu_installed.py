"""onnxruntime and onnxruntime-gpu are both installed.

They bring the same package, onnxruntime, and write over each other's files: the one installed last answers, and after
one of them is removed neither works. Remove both and install the one that is wanted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.model.facts import Layer
from gpustack.model.report import Finding, Fix, Severity
from gpustack.rules import fixes
from gpustack.rules.reading import because_of, table
from gpustack.rules.seen import builds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts

PLAIN = "onnxruntime"
GPU = ("onnxruntime-gpu", "ort-nightly-gpu")


def judge(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """Give each Python that has both: an error where the CPU one answers, a warning where the GPU one does."""
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
                    f"{build.python} -m pip uninstall -y onnxruntime {both[0]}",
                    f"{build.python} -m pip install {both[0]}",
                ),
                verify=fixes.verify(build),
            ),
        )
