"""TensorFlow after 2.10 does not use the GPU on Windows itself.

2.10 was the last release with GPU support on native Windows; newer ones come without CUDA there, whatever is installed
beside them, and list the CPU alone. Run it in WSL2, or take TensorFlow 2.10 with CUDA 11.2 and cuDNN 8.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.rules.frameworks import because_package, installed
from gpustack.diagnose.rules.reading import because, copies, status, version
from gpustack.diagnose.rules.saying import grounds, heard, said
from gpustack.diagnose.rules.seen import nvidia_here
from gpustack.matrix.subjects import frameworks
from gpustack.matrix.subjects.ranges import is_version
from gpustack.model.command import sh
from gpustack.model.facts import Layer
from gpustack.model.report import Because, Confidence, Finding, Fix, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts

ID, LAST = "tf-no-native-windows-gpu", "2.10"
NAMES = ("tensorflow", "tensorflow-intel", "tensorflow-gpu")
SAYS, LISTS, EMPTY = "tf-windows", "tf-cpu-listed", "tf-gpu-empty"
SOUGHT = (LISTS, EMPTY, "tf-built-with-cuda", "tf-no-cuda-drivers", "gpu-unused-said", "cuda-available-true")


def judge(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Give TensorFlow on native Windows beside a GPU, or where it says itself that it uses none."""
    release = version(facts, "tensorflow") or installed(facts, *NAMES)
    windows = "windows" in (facts.host.os or "").lower() or bool(installed(facts, "tensorflow-intel"))
    here = windows and not facts.host.wsl and not heard(facts, "tf-gpu-listed") and not _directml(facts)
    without = is_version(release or "") and frameworks.tensorflow_gpu_on(matrix, release or "", "windows") is False
    without = without or (release is None and _without_cuda(facts))
    sought = nvidia_here(facts) or bool(copies(facts, "gpu")) or status(facts, "cuda-toolkit") or heard(facts, *SOUGHT)
    if heard(facts, SAYS) or (here and without and sought):
        yield _finding(facts, release)


def _without_cuda(facts: Facts) -> bool:
    """Tell whether TensorFlow itself says that it has no CUDA, and is no build for the processor by its name."""
    answers = [one.values.get("answer") for one in said(facts, "tf-built-with-cuda")]
    return "False" in answers and not installed(facts, "tensorflow-cpu")


def _directml(facts: Facts) -> bool:
    return bool(installed(facts, "tensorflow-directml-plugin", "tensorflow-directml"))


def _finding(facts: Facts, release: str | None) -> Finding:
    said = heard(facts, SAYS)
    return Finding(
        id=ID,
        severity=Severity.ERROR,
        layer=Layer.FRAMEWORK,
        component="tensorflow",
        title=f"TensorFlow {release or 'here'} uses no GPU on native Windows: {LAST} is the last that does",
        detail="CUDA and cuDNN beside it change nothing; driver and GPU are not at fault.",
        because=(*grounds(facts, SAYS, LISTS, EMPTY, "tf-built-with-cuda"), *_ground(facts)),
        confidence=Confidence.CERTAIN if said or release else Confidence.LIKELY,
        fix=Fix(
            text=f"Run TensorFlow in WSL2, which uses the GPU by the driver of Windows; or take TensorFlow {LAST}.",
            commands=(
                sh("wsl --install"),
                sh('python -m pip install "tensorflow[and-cuda]"  # inside WSL2'),
                sh('# or: python -m pip install "tensorflow<2.11"  # on Windows itself: 2.10, Python 3.7 to 3.10'),
            ),
            verify=sh("python -c \"import tensorflow as tf; print(tf.config.list_physical_devices('GPU'))\""),
        ),
    )


def _ground(facts: Facts) -> Iterator[Because]:
    if version(facts, "tensorflow"):
        yield because(facts, "tensorflow", "version")
    else:
        yield from (one for name in NAMES for one in because_package(facts, name))
    if facts.host.os:
        yield Because(component="host", fact="os", value=facts.host.os)
