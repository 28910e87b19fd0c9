"""A build reaches this GPU only by PTX, which the driver must compile at the first start.

It works, but the first start takes minutes while the driver compiles every kernel, and the result is slower than code
made for the GPU. The driver keeps what it compiled (in ~/.nv/ComputeCache) until build or driver changes. Take a build
with machine code for this GPU where there is one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.rules import fixes
from gpustack.diagnose.rules.compatibility import arch_fit, by_ptx, ptx_too_new
from gpustack.diagnose.rules.reading import because_of
from gpustack.diagnose.rules.seen import builds, capabilities
from gpustack.model.command import sh
from gpustack.model.facts import Layer
from gpustack.model.report import Finding, Fix, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts


def judge(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Give each build that has PTX and no machine code for a GPU, where the driver can compile it."""
    for build in builds(facts):
        gpus = [gpu for gpu in capabilities(facts) if by_ptx(build, gpu)]
        if not gpus or ptx_too_new(build, facts, matrix):
            continue
        wheel = fixes.torch_wheel(build, facts, matrix)
        yield Finding(
            id="arch-by-ptx-only",
            instance=build.mark,
            severity=Severity.WARNING,
            layer=Layer.FRAMEWORK,
            component=build.component,
            title=f"{build.name} reaches {gpus[0].sm} only by PTX: its first start is slow",
            because=(because_of(facts, build.component, build.copy, "archs"),),
            row=arch_fit(build, gpus[0], facts, matrix).row,
            fix=Fix(
                text=wheel[0]
                if wheel
                else "Give the driver room to keep what it compiles, and the first start its time.",
                commands=wheel[1] if wheel else (sh("export CUDA_CACHE_MAXSIZE=4294967296"),),
                verify=fixes.verify(build),
            ),
        )
