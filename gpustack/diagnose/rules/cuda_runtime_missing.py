"""A program finds no CUDA runtime of the major that it was built for.

The driver brings libcuda and nothing else: libcudart, cuBLAS, cuFFT and their kin come with a toolkit or with wheels,
and the CUDA version that nvidia-smi shows is only the newest that the driver can run. Here a program looked for such a
library in vain ("libcudart.so.12: cannot open shared object file"). Install the libraries of that major, or where they
are installed show the loader their folder.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.rules.cuda_major_mixed import clashing
from gpustack.diagnose.rules.saying import because_said
from gpustack.diagnose.rules.seen import driver_cuda
from gpustack.diagnose.rules.wanting import CUDNN, TENSORFLOW, cuda_here, install, missing
from gpustack.model.facts import Layer
from gpustack.model.report import Because, Confidence, Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.diagnose.rules.wanting import Missing
    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts


def judge(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Give the libraries of CUDA that were looked for in vain, where no other major explains it."""
    elsewhere = {one.soname for one in clashing(facts, matrix)}
    wanted = [
        one
        for one in missing(facts, matrix)
        if one.library != CUDNN and one.asker != TENSORFLOW and one.soname not in elsewhere
    ]
    if not wanted or elsewhere:
        return
    first = wanted[0]
    major = first.majors[0] if first.majors else None
    installed = [one for one in cuda_here(facts, matrix) if one.sure and one.major in first.majors]
    driver = driver_cuda(facts, matrix)
    yield Finding(
        id="cuda-runtime-missing",
        severity=Severity.ERROR,
        layer=Layer.RUNTIME,
        component=first.library,
        title=f"{first.soname} is not found: no {f'CUDA {major}' if major else 'CUDA'} runtime is "
        f"{'on the path of the loader' if installed else 'installed'}",
        detail=_detail(wanted, str(driver) if driver else None, [one.what for one in installed]),
        confidence=Confidence.CERTAIN if not installed else Confidence.LIKELY,
        because=(
            *(because_said(one.message) for one in wanted[:3]),
            *(one.because for one in installed[:2]),
            *(
                [Because(component="nvml", fact="cuda_version", value=str(driver), source="the driver")]
                if driver
                else []
            ),
        ),
        fix=install(facts, matrix, major, *(one.soname for one in wanted)),
    )


def _detail(wanted: list[Missing], driver: str | None, installed: list[str]) -> str:
    names = f"Not found: {', '.join(one.soname for one in wanted)}."
    told = f" CUDA {driver} is what the driver can run, and brings no such library." if driver else ""
    here = f" {installed[0]} is here, and the loader does not look there." if installed else ""
    return names + told + here
