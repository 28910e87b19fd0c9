"""What to install where a wheel and the torch beside it are of two CUDA majors: another wheel, or another torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.rules.extensions import distribution_of
from gpustack.diagnose.rules.fixes import TORCH_INDEX, install_torch
from gpustack.diagnose.rules.frameworks import torch_version
from gpustack.matrix.subjects import torch as wheels
from gpustack.model.command import (
    ADDRESS,
    BUILD_TAG,
    MODULE,
    NUMBER,
    SOME_PYTHON,
    Command,
    code,
    either,
    requirement,
    sh,
)
from gpustack.model.report import Fix

if TYPE_CHECKING:
    from gpustack.diagnose.rules.extensions import Extension
    from gpustack.matrix import Matrix
    from gpustack.model.command import Command
    from gpustack.model.facts import Facts

ASK = sh('python -c "import torch; print(torch.__version__, torch.version.cuda)"')


def shows(name: str) -> Command:
    """Give the command that shows that a wheel is imported beside torch, and for which CUDA that is."""
    module = MODULE(name.replace("-", "_"))
    return sh("python -c {code}", code=code("import torch, {module}; print(torch.version.cuda)", module=module))


def torches(wheel: Extension, major: int, matrix: Matrix) -> tuple[Command, ...]:
    """Give the command that installs the torch of this CUDA major that a wheel asks for, where one is known."""
    release = (wheel.torch or "").lstrip("=").partition("+")[0]
    tags = [one for one in wheels.builds_of(matrix, release) if one.cuda and one.cuda.major == major] if release else []
    return (install_torch(SOME_PYTHON, release, tags[-1].tag, force=False),) if tags else ()


def fix(wheel: Extension | None, own: str, major: int, facts: Facts, matrix: Matrix) -> Fix:
    """Give the wheel for the CUDA of torch, or the torch for the CUDA of the wheel."""
    release = (torch_version(facts) or "").partition("+")[0]
    tags = [one for one in wheels.builds_of(matrix, release) if one.cuda and one.cuda.major == major] if release else []
    name = wheel.name if wheel else "the wheel"
    commands = []
    wanted = distribution_of(wheel.name, facts) if wheel else None
    if wheel and wanted:
        pinned = requirement(wanted, f"=={wheel.version}" if wheel.version else "")
        commands.append(
            sh(
                "python -m pip install --force-reinstall {pinned} --extra-index-url {index}/{tag}",
                pinned=pinned,
                index=ADDRESS(TORCH_INDEX),
                tag=BUILD_TAG(f"cu{own.replace('.', '')}"),
            )
        )
    if tags:
        torch_command = install_torch(SOME_PYTHON, release, tags[-1].tag)
        commands.append(sh("{install}  # torch for CUDA {major}", install=torch_command, major=NUMBER(major)))
    return Fix(
        text=f"Take the build of {name} for CUDA {own.partition('.')[0]} (its wheels with +cu in the name)"
        f", or the torch for CUDA {major}{f' ({tags[-1].tag})' if tags else ''}: both must be of one major.",
        commands=either(*commands) or (ASK,),
        verify=shows(name) if wheel else None,
    )
