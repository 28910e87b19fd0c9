"""A program finds no cuDNN, or none of the major that it was built for.

cuDNN is no part of the driver nor of the CUDA toolkit: it comes as a package of its own or as a wheel, and its major is
in its name (libcudnn.so.8, libcudnn_ops.so.9). A wheel's cuDNN lies in its Python, where other programs do not look.
Install cuDNN of that major for the same CUDA, or show the loader the folder of the wheel's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.rules.saying import because_said
from gpustack.diagnose.rules.wanting import CUDNN, cuda_here, cudnn_here, majors, missing
from gpustack.matrix.subjects.ranges import numbers
from gpustack.model.command import requirement, sh
from gpustack.model.facts import Layer
from gpustack.model.report import Confidence, Finding, Fix, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts


def judge(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Give the parts of cuDNN that a program other than TensorFlow and ONNX Runtime looked for in vain."""
    wanted = [one for one in missing(facts, matrix) if one.library == CUDNN and one.asker is None]
    if not wanted:
        return
    major = next((one.number for one in wanted if one.number), "")
    here = cudnn_here(facts)
    others = [number for number, _ in here if major and numbers(number)[:1] != (int(major),)]
    cuda = next(iter(majors(cuda_here(facts, matrix))), None)
    wheel = requirement(f"nvidia-cudnn-cu{cuda or 12}", f"=={major}.*" if major else "")
    yield Finding(
        id="cudnn-missing",
        severity=Severity.ERROR,
        layer=Layer.LIBRARY,
        component=CUDNN,
        title=f"{wanted[0].soname} of cuDNN {major} is not found".replace("  ", " ")
        + (f"; cuDNN {others[0]} is here" if others else ""),
        detail="A cuDNN of another major cannot take its place."
        if others
        else "It is not installed, or it lies in a wheel, where the loader does not look for other programs.",
        confidence=Confidence.LIKELY,
        because=(*(because_said(one.message) for one in wanted[:3]), *(ground for _, ground in here[:2])),
        fix=Fix(
            text=f"Install cuDNN {major} for the CUDA of the program and let the loader find it.".replace("  ", " "),
            commands=(
                sh("python -m pip install {wheel}", wheel=wheel),
                sh(
                    "export LD_LIBRARY_PATH=$(python -c "
                    "\"import nvidia.cudnn; print(list(nvidia.cudnn.__path__)[0] + '/lib')\"):$LD_LIBRARY_PATH"
                ),
            ),
            verify=sh("ldconfig -p | grep libcudnn"),
        ),
    )
