"""cuda-bindings is of a newer CUDA major than the driver, and loses functions there.

cuda-bindings asks the driver for each function by the CUDA version that brought its newest form, and has no older form.
On an older driver some calls fail when they are made (event timing), others only give a warning. Install the release of
cuda-bindings for the driver's CUDA major, or bring the driver up to date.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.rules.reading import because, because_of, copies
from gpustack.diagnose.rules.seen import driver_cuda, nvidia_here
from gpustack.matrix.subjects.ranges import numbers
from gpustack.model.command import PYTHON, requirement, sh
from gpustack.model.facts import Layer
from gpustack.model.report import Finding, Fix, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts


def judge(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Give each Python whose cuda-bindings loses something on this driver, the strongest loss alone."""
    highest = driver_cuda(facts, matrix)
    if highest is None or not nvidia_here(facts):
        return
    for copy in copies(facts, "cuda-bindings"):
        major = numbers(copy.version)[:1]
        floors = [one for one in matrix.bindings_floors if (one.bindings,) == major and highest < one.driver]
        if not floors:
            continue
        python = PYTHON(copy.environment)
        yield Finding(
            id="cuda-bindings-newer-than-driver",
            instance=copy.environment,
            severity=Severity(floors[0].weight),
            layer=Layer.RUNTIME,
            component="cuda-bindings",
            title=f"cuda-bindings {copy.version} on a driver of CUDA {highest}: {floors[0].outcome}",
            because=(
                because_of(facts, "cuda-bindings", copy, "version"),
                because(facts, "libcuda", "driver_cuda"),
                because(facts, "nvidia-driver", "version"),
            ),
            row=floors[0].row,
            fix=Fix(
                text=f"Install cuda-bindings for CUDA {highest.major}; other packages here may require the newer one.",
                commands=(
                    sh(
                        "{python} -m pip install {wanted}",
                        python=python,
                        wanted=requirement("cuda-bindings", f"=={highest.major}.*"),
                    ),
                ),
                verify=sh('{python} -c "import cuda.bindings.driver"', python=python),
            ),
        )
