"""Which wheel of a framework to install instead, for this driver, these GPUs and this Python."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose import fixes
from gpustack.diagnose.requirements.fits import driver_fit
from gpustack.model.command import Command, requirement, sh
from gpustack.model.report import Kept
from gpustack.model.versions import CudaVersion

if TYPE_CHECKING:
    from gpustack.diagnose.machine.inventory import Build
    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts


if TYPE_CHECKING:
    Wheel = tuple[str, tuple[Command, ...]]


def wheel_for_driver(build: Build, facts: Facts, matrix: Matrix) -> Wheel | None:
    """Give in words and as commands the build of this framework that runs on this driver; None where none is known."""
    if build.component == "pytorch":
        return fixes.torch_wheel(build, facts, matrix)
    if build.component == "jax":
        return _jax(build, facts, matrix)
    return _onnxruntime(build, facts, matrix)


def _jax(build: Build, facts: Facts, matrix: Matrix) -> Wheel | None:
    for one in matrix.jax_extras:
        if _runs(one.cuda, facts, matrix):
            command = sh(
                "{python} -m pip install --upgrade {jax}", python=build.python, jax=requirement(f"jax[{one.extra}]")
            )
            return f"Install JAX with the plugin for CUDA {one.cuda}.", (command,)
    return None


def _onnxruntime(build: Build, facts: Facts, matrix: Matrix) -> Wheel | None:
    for one in reversed(matrix.onnxruntime):
        if _runs(one.cuda, facts, matrix):
            wanted = requirement("onnxruntime-gpu", f"<{_after(one.last)}" if one.last else "")
            commands = (
                sh("{python} -m pip uninstall -y onnxruntime onnxruntime-gpu", python=build.python),
                sh("{python} -m pip install {wanted}", python=build.python, wanted=wanted),
            )
            return f"Install onnxruntime-gpu, made for CUDA {one.cuda}, in the place of this one.", commands
    return None


def _runs(major: int, facts: Facts, matrix: Matrix) -> bool:
    return driver_fit(CudaVersion(major), facts, matrix).kept in {Kept.OK, Kept.LIMITED}


def _after(minor: str) -> str:
    """Return the minor release after this one."""
    major, _, number = minor.partition(".")
    return f"{major}.{int(number) + 1}"
