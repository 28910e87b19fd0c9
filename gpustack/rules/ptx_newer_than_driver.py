"""A build has only PTX for this GPU, and of a newer CUDA than the driver can compile.

PTX is turned into machine code by the driver when the program starts. A driver knows the PTX of its own CUDA version
and older; newer is refused ("unsupported toolchain", error 222). Take a build with machine code for this GPU, or of a
CUDA that the driver knows, or bring the driver up to date.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.model.facts import Layer
from gpustack.model.report import Finding, Fix, Severity
from gpustack.rules import fixes
from gpustack.rules.compatibility import by_ptx, ptx_too_new
from gpustack.rules.reading import because, because_of
from gpustack.rules.seen import builds, capabilities, driver_cuda
from gpustack.rules.wheels import wheel_for_driver

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts


def judge(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Give each build that reaches a GPU by PTX alone, where the driver cannot read it."""
    for build in builds(facts):
        gpus = [gpu for gpu in capabilities(facts) if by_ptx(build, gpu)]
        if not gpus or not ptx_too_new(build, facts, matrix) or build.ran_on_gpu:
            continue
        wheel = wheel_for_driver(build, facts, matrix)
        yield Finding(
            id="ptx-newer-than-driver",
            instance=build.mark,
            severity=Severity.ERROR,
            layer=Layer.DRIVER,
            component="nvidia-driver",
            title=f"{build.name} reaches {gpus[0].sm} by PTX of CUDA {build.cuda}, which a driver of CUDA "
            f"{driver_cuda(facts, matrix)} cannot compile",
            because=(
                because_of(facts, build.component, build.copy, "archs"),
                because(facts, "libcuda", "driver_cuda"),
                because(facts, "nvidia-driver", "version"),
            ),
            fix=Fix(
                text=wheel[0] if wheel else f"{fixes.place(facts)}Install a driver of CUDA {build.cuda} or newer.",
                commands=wheel[1] if wheel else fixes.driver(facts),
                needs_root=not wheel,
                needs_reboot=not wheel,
                verify=fixes.verify(build),
            ),
        )
