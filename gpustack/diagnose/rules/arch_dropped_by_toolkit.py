"""The CUDA toolkit is newer than the GPU: its compiler no longer makes code for the GPU's architecture.

Each major of CUDA drops old architectures, and then refuses them in the words that it has for unknown ones
("Unsupported gpu architecture 'compute_35'"). Build with the last toolkit that has it, or take the target out of the
list where no such GPU is meant: where none is here, that is a setting of the program that is built, and no fault.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.rules.unknown_target import gpu_name, refused
from gpustack.model.command import DOTTED, either, sh
from gpustack.model.facts import Layer
from gpustack.model.report import Confidence, Finding, Fix, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts


def judge(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Give the first target that a newer toolkit refused."""
    one = next((target for target in refused(facts, matrix) if target.dropped), None)
    if one is None:
        return
    known = matrix.arch(one.arch.capability) if one.arch else None
    name = gpu_name(one, facts)
    toolkit = f"CUDA {one.toolkit}" if one.toolkit else "This CUDA toolkit"
    yield Finding(
        id="arch-dropped-by-toolkit",
        severity=Severity.ERROR if name else Severity.INFO,
        layer=Layer.COMPILER,
        component="cuda-toolkit",
        title=f"{toolkit} no longer compiles for {one.spelled}: CUDA {one.last} was the last",
        detail=f"{one.spelled} is {one.capability}{f', that of {name}' if name else ''}.",
        confidence=Confidence.CERTAIN if one.toolkit else Confidence.LIKELY,
        because=one.because,
        row=known.row if known else None,
        fix=Fix(
            text=f"Take {one.spelled} out of the list of targets (TORCH_CUDA_ARCH_LIST, CMAKE_CUDA_ARCHITECTURES, "
            f"-gencode), or build with CUDA {one.last} where such a GPU is meant.",
            commands=either(
                sh("nvcc --list-gpu-arch"), sh("export CUDA_HOME=/usr/local/cuda-{cuda}", cuda=DOTTED(one.last))
            ),
            verify=sh("nvcc --list-gpu-arch"),
        ),
    )
