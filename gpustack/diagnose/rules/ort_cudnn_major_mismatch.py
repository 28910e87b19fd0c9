"""onnxruntime-gpu wants another major of cuDNN than the one that is installed.

ONNX Runtime's CUDA provider is linked to one major of cuDNN by name (libcudnn.so.8 or libcudnn.so.9) and brings none
itself; where that name is not found it goes on without the GPU. A cuDNN of another major cannot take its place. Install
cuDNN of the right major for the same CUDA, or the onnxruntime-gpu that was built for the one that is here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.rules.cuda_major_mixed import required
from gpustack.diagnose.rules.saying import because_said, grounds, said, value
from gpustack.diagnose.rules.wanting import (
    CUDNN,
    ONNXRUNTIME,
    cuda_here,
    cudnn_here,
    majors,
    missing,
    onnxruntime_version,
)
from gpustack.matrix.subjects import frameworks
from gpustack.matrix.subjects.ranges import numbers
from gpustack.model.command import NUMBER, requirement, sh
from gpustack.model.facts import Layer
from gpustack.model.report import Confidence, Finding, Fix, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts
    from gpustack.model.report import Because

FAILED = ("ort-provider-failed", "ort-provider-create-failed", "ort-requires")


def judge(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Give the cuDNN that ONNX Runtime looked for in vain, or that it needs and is of another major."""
    named = next((one for one in missing(facts, matrix) if one.library == CUDNN and one.asker == ONNXRUNTIME), None)
    here = cudnn_here(facts)
    release = frameworks.onnxruntime_of(matrix, onnxruntime_version(facts) or "0")
    wanted = _number(named.number if named else None) or _number(value(facts, "ort-requires", "cudnn"))
    wanted = wanted or (
        _archive(facts, matrix) or (release.cudnn if release else None) if said(facts, *FAILED) else None
    )
    others = [one for one in here if numbers(one[0])[:1] not in {(wanted,), ()}]
    same = any(numbers(one[0])[:1] == (wanted,) for one in here)
    if wanted is None or same or not (named or (others and _alone(facts, matrix))):
        return
    because = [because_said(named.message)] if named else list(grounds(facts, *FAILED, most=2))
    yield _finding(wanted, others, because, facts, matrix)


def _archive(facts: Facts, matrix: Matrix) -> int | None:
    """Give the cuDNN of an archive that names its CUDA, which is another build than that of the package index."""
    cuda = _number(value(facts, "ort-package", "cuda"))
    feeds = frameworks.onnxruntime_feeds(matrix, onnxruntime_version(facts) or "0") if cuda else ()
    return next((one.cudnn for one in feeds if one.cuda == cuda), None)


def _alone(facts: Facts, matrix: Matrix) -> bool:
    """Tell whether nothing else was missing, so that a cuDNN that nobody named can be to blame."""
    here = majors([one for one in cuda_here(facts, matrix) if one.sure])
    return not missing(facts, matrix) and (not here or required(facts, matrix) in {None, *here})


def _number(said_: str | None) -> int | None:
    return int(said_[:3]) if said_ and said_.isascii() and said_.isdecimal() else None


def _finding(
    wanted: int, others: list[tuple[str, Because]], because: list[Because], facts: Facts, matrix: Matrix
) -> Finding:
    release = frameworks.onnxruntime_of(matrix, onnxruntime_version(facts) or "0")
    name = f"onnxruntime-gpu {onnxruntime_version(facts) or ''}".strip()
    found = f"cuDNN {others[0][0]} is installed" if others else "no cuDNN of that major is found"
    return Finding(
        id="ort-cudnn-major-mismatch",
        severity=Severity.ERROR,
        layer=Layer.LIBRARY,
        component=CUDNN,
        title=f"{name} wants cuDNN {wanted} (libcudnn.so.{wanted}), and {found}",
        detail="The CUDA provider cannot be loaded, and ONNX Runtime goes on without the GPU.",
        confidence=Confidence.CERTAIN if others else Confidence.POSSIBLE,
        because=(*because, *(ground for _, ground in others[:2])),
        row=release.row if release else None,
        fix=_fix(wanted, others, facts, matrix),
    )


def _fix(wanted: int, others: list[tuple[str, Because]], facts: Facts, matrix: Matrix) -> Fix:
    here = majors(cuda_here(facts, matrix))
    release = frameworks.onnxruntime_of(matrix, onnxruntime_version(facts) or "0")
    cuda = here[0] if here else release.cuda if release else None
    if cuda:
        wheel = sh("python -m pip install {cudnn}", cudnn=requirement(f"nvidia-cudnn-cu{cuda}", f"=={wanted}.*"))
    else:
        wheel = sh("# install cuDNN {wanted}", wanted=NUMBER(wanted))
    held = numbers(others[0][0])[0] if others else None
    fitting = [one for one in frameworks.onnxruntime_releases(matrix) if one.cudnn == held and cuda in {one.cuda, None}]
    feeds = [
        one for one in frameworks.onnxruntime_feeds(matrix, onnxruntime_version(facts) or "0") if one.cudnn == held
    ]
    other = f", or onnxruntime-gpu {fitting[-1].version}, which is built for cuDNN {held}" if fitting else ""
    other = other or (
        f", or the build of ONNX Runtime's feed for CUDA {feeds[0].cuda} and cuDNN {held}" if feeds else ""
    )
    return Fix(
        text=f"Install cuDNN {wanted} for the CUDA that onnxruntime was built for, where the loader finds it{other}.",
        commands=(wheel,),
        verify=sh('python -c "import onnxruntime; print(onnxruntime.get_available_providers())"'),
    )
