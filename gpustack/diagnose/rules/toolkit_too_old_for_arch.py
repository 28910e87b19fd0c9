"""The CUDA toolkit is older than the GPU: its compiler does not know the GPU's architecture.

nvcc, ptxas and NVRTC make code for the architectures that were known when they were released; a newer one is refused
("Unsupported gpu architecture 'compute_89'", "Value 'sm_120' is not defined for option 'gpu-name'"). Install the
toolkit that first knows it, or newer, and a framework that is built with it. Until then code for an older architecture
of the same major, with PTX, runs on the GPU as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.rules.reading import version
from gpustack.diagnose.rules.toolchain import parsed
from gpustack.diagnose.rules.unknown_target import gpu_name, refused
from gpustack.matrix.subjects import toolkits
from gpustack.model.command import ARCH, PATH, Command, sh
from gpustack.model.facts import Layer
from gpustack.model.report import Confidence, Finding, Fix, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.diagnose.rules.unknown_target import Target
    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts


def judge(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Give the target that a compiler of an older toolkit refused; the first, for one build names them all."""
    one = next((target for target in refused(facts, matrix) if not target.dropped), None)
    if one is None:
        return
    known = matrix.arch(one.arch.capability) if one.arch else None
    toolkit = f"The CUDA toolkit {one.toolkit}" if one.toolkit else "This CUDA toolkit"
    needs = f": CUDA {one.first} or newer does" if one.first else ""
    yield Finding(
        id="toolkit-too-old-for-arch",
        severity=Severity.ERROR,
        layer=Layer.COMPILER,
        component="cuda-toolkit",
        title=f"{toolkit} does not know {one.spelled or 'the architecture of this GPU'}{needs}",
        detail=_detail(one, facts),
        confidence=Confidence.CERTAIN if one.arch else Confidence.LIKELY,
        because=one.because,
        row=known.row if known else None,
        fix=_fix(one, facts, matrix),
    )


def _detail(one: Target, facts: Facts) -> str:
    name = gpu_name(one, facts)
    what = f"{one.spelled} is {one.capability}{f', that of {name}' if name else ''}. " if one.capability else ""
    return f"{what}It was refused by {one.by}."


def _fix(one: Target, facts: Facts, matrix: Matrix) -> Fix:
    wanted = f"CUDA {one.first} or newer" if one.first else "a newer CUDA toolkit"
    torch = " and a PyTorch that is built with it" if version(facts, "pytorch") else ""
    older = _older(one, matrix)
    meanwhile = f" Until then build for {older} with PTX, which the driver compiles for the GPU." if older else ""
    return Fix(
        text=f"Install {wanted}{torch}, and put its nvcc first on PATH (CUDA_HOME).{meanwhile}",
        commands=(
            *_newer(one),
            *((sh("export TORCH_CUDA_ARCH_LIST={older}+PTX", older=ARCH(older)),) if older else ()),
        ),
        needs_root=True,
        verify=sh("nvcc --list-gpu-arch"),
    )


def _newer(one: Target) -> tuple[Command, ...]:
    if not one.first:
        return (sh("# install a newer CUDA toolkit"),)
    home = PATH(f"/usr/local/cuda-{one.first}")
    return (sh("export CUDA_HOME={home} PATH={home}/bin:$PATH", home=home),)


def _older(one: Target, matrix: Matrix) -> str | None:
    """Give the newest compute capability of the same or an older major that this toolkit compiles for."""
    cuda = parsed(one.toolkit)
    target = toolkits.target_of(matrix, cuda) if cuda else None
    known = list(target.capabilities) if target else []
    if not known and cuda:
        spans = (
            (one, it.first_toolkit, it.last_toolkit) for one, it in matrix.architectures.items() if not it.embedded
        )
        known = [cc for cc, first, last in spans if first and first <= cuda and (last is None or cuda <= last)]
    fitting = [cc for cc in known if one.arch and cc < one.arch.capability]
    return str(max(fitting)) if fitting else None
