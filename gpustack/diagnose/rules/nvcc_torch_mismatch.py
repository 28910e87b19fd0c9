"""nvcc is of another CUDA than PyTorch was built with, and an extension shall be built.

An extension is compiled by the toolkit's nvcc and linked to PyTorch's CUDA runtime, so PyTorch refuses where the two
differ in their major ("The detected CUDA version mismatches the version that was used to compile PyTorch"). Which nvcc
counts is decided by CUDA_HOME, else by PATH. Point CUDA_HOME to a toolkit of PyTorch's CUDA, or install the PyTorch
that is built for the toolkit. Programs that build nothing do not mind the difference.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.rules import fixes
from gpustack.diagnose.rules.completing import platform
from gpustack.diagnose.rules.frameworks import dotted
from gpustack.diagnose.rules.reading import because, version
from gpustack.diagnose.rules.saying import grounds, heard, value
from gpustack.diagnose.rules.seen import builds, on_windows
from gpustack.diagnose.rules.toolchain import parsed, toolkits, used
from gpustack.diagnose.rules.wanting import plain_version
from gpustack.matrix.subjects import torch as torch_rows
from gpustack.matrix.subjects.ranges import is_version
from gpustack.model.command import DOTTED, SOME_PYTHON, either, sh
from gpustack.model.facts import Layer
from gpustack.model.report import Confidence, Finding, Fix, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts
    from gpustack.model.versions import CudaVersion

SAID = ("torch-cuda-mismatch", "apex-cuda-mismatch", "deepspeed-cuda-mismatch", "cuda-mismatch-said")
HEADER, FAILED = "cuda-header-missing", "extension-build-failed"
OTHERWISE = (
    "gcc-too-new",
    "clang-too-new",
    "msvc-unsupported",
    "gcc-header-error",
    "nvcc-unknown-arch",
    "nvcc-missing",
)


def judge(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Give the two versions where a build complained that they differ."""
    if not heard(facts, *SAID) and not _unbuilt(facts):
        return
    mine = next((build for build in builds(facts) if build.component == "pytorch"), None)
    wanted = _said(facts, "torch") or (str(mine.cuda) if mine and mine.cuda else None)
    toolkit = used(facts)
    found = _said(facts, "found") or next((one.version for one in toolkits(facts) if one.version != wanted), None)
    name = f"PyTorch {release}" if (release := version(facts, "pytorch")) else "PyTorch"
    yield Finding(
        id="nvcc-torch-mismatch",
        severity=Severity.ERROR,
        layer=Layer.COMPILER,
        component="cuda-toolkit",
        title=f"nvcc is of CUDA {found or 'another version'} and {name} was built with CUDA {wanted or 'another one'}",
        detail="An extension cannot be built for this PyTorch by this toolkit.",
        confidence=Confidence.CERTAIN if found and wanted and heard(facts, *SAID) else Confidence.LIKELY,
        because=(
            *grounds(facts, *SAID, HEADER, FAILED),
            *([toolkit.because] if toolkit else []),
            *([because(facts, "pytorch", "version")] if mine else []),
        ),
        fix=_fix(facts, matrix, wanted, found),
    )


def _unbuilt(facts: Facts) -> bool:
    """Tell whether a build failed for a header that nvcc is too old to have, or with an nvcc of another major."""
    mine = next((build for build in builds(facts) if build.component == "pytorch"), None)
    toolkit = used(facts)
    if mine is None or mine.cuda is None or toolkit is None or not toolkit.sure:
        return False
    if heard(facts, HEADER):
        return toolkit.cuda < mine.cuda
    return heard(facts, FAILED) and toolkit.cuda.major != mine.cuda.major and not heard(facts, *OTHERWISE)


def _said(facts: Facts, name: str) -> str | None:
    found = next((one for kind in SAID if (one := value(facts, kind, name))), None)
    return dotted(found) or found


ON_WINDOWS = r"set CUDA_PATH=C:\Program Files\NVIDIA GPU Computing Toolkit\CUDA\v{cuda}"


def _fix(facts: Facts, matrix: Matrix, wanted: str | None, found: str | None) -> Fix:
    use = ON_WINDOWS if on_windows(facts) and not facts.host.wsl else "export CUDA_HOME=/usr/local/cuda-{cuda}"
    commands = [sh(use, cuda=DOTTED(wanted))] if wanted and is_version(wanted) else []
    cuda = parsed(found)
    tag = _tag(facts, matrix, cuda) if cuda else None
    if tag:
        commands.append(fixes.install_torch(SOME_PYTHON, None, tag))
    other = f", or install the PyTorch that is built for CUDA {found}" if found else ""
    return Fix(
        text=f"Build with a toolkit of CUDA {wanted or 'the version of PyTorch'} (CUDA_HOME and PATH decide which "
        f"nvcc is taken; in conda it is CUDA_HOME=$CONDA_PREFIX){other}.",
        commands=either(*commands) or (sh("nvcc --version"), sh('python -c "import torch; print(torch.version.cuda)"')),
        verify=sh('python -c "import torch.utils.cpp_extension as e, torch; print(e.CUDA_HOME, torch.version.cuda)"'),
    )


def _tag(facts: Facts, matrix: Matrix, cuda: CudaVersion) -> str | None:
    """Give the build of PyTorch for this CUDA version, else for the newest older one of its major."""
    release = (plain_version(facts, "pytorch") or "").partition("+")[0]
    where = platform(facts) or "linux-x86_64"
    held = torch_rows.builds_of(matrix, release, where) if release else ()
    held = held or tuple(
        one for row in torch_rows.releases(matrix) for one in torch_rows.builds_of(matrix, row.version)
    )
    fitting = [one for one in held if one.cuda and one.cuda.major == cuda.major and one.cuda <= cuda]
    return max(fitting, key=lambda one: one.cuda or cuda).tag if fitting else None
