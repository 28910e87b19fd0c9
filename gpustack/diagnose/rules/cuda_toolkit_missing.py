"""There is no CUDA toolkit (nvcc), or no host compiler, on a machine with an NVIDIA GPU.

Frameworks bring the CUDA that they need, so nothing is missing to run them. Who builds extensions (flash-attn,
vLLM from source) needs nvcc of the CUDA version that the framework was built with: ask with ``--for build``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.rules.fixes import TOOLKITS, from_nvidia
from gpustack.diagnose.rules.reading import because, status
from gpustack.diagnose.rules.seen import builds, nvidia_here
from gpustack.model.command import DOTTED, NOTHING, PATH, sh
from gpustack.model.facts import Layer, Status
from gpustack.model.report import Finding, Fix, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts
    from gpustack.model.versions import CudaVersion


def judge(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """Give a remark where somebody looked for nvcc beside an NVIDIA GPU and found none."""
    if not nvidia_here(facts) or status(facts, "cuda-toolkit") is not Status.ABSENT:
        return
    cuda = next((build.cuda for build in builds(facts) if build.component == "pytorch" and build.cuda), None)
    wanted = f" of CUDA {cuda}, which PyTorch here was built with" if cuda else ""
    yield Finding(
        id="cuda-toolkit-missing",
        severity=Severity.INFO,
        layer=Layer.RUNTIME,
        component="cuda-toolkit",
        title="There is no CUDA toolkit (nvcc): programs run, extensions cannot be built",
        because=(because(facts, "cuda-toolkit", "version"),),
        fix=_fix(f"To build extensions, install the toolkit{wanted}.", cuda, facts),
    )


def _fix(text: str, cuda: CudaVersion | None, facts: Facts) -> Fix:
    """Give how it is installed: into the environment where that is one of conda's, else beside the system's files."""
    if any(one.kind == "conda" for one in facts.environments[:1]):
        pin = sh("={cuda}", cuda=DOTTED(cuda)) if cuda else NOTHING
        command = sh("conda install -c nvidia cuda-toolkit{pin}", pin=pin)
        return Fix(text=text, commands=(command, sh("export CUDA_HOME=$CONDA_PREFIX")), verify=sh("nvcc --version"))
    named = f"cuda-toolkit-{cuda.major}-{cuda.minor}" if cuda else "cuda-toolkit"
    home = PATH(f"/usr/local/cuda-{cuda}" if cuda else "/usr/local/cuda")
    return Fix(
        text=text,
        commands=(*from_nvidia(facts, named, TOOLKITS), sh("export CUDA_HOME={home} PATH={home}/bin:$PATH", home=home)),
        needs_root=True,
        verify=sh("nvcc --version"),
    )
