"""The driver works, and its CUDA library (libcuda) is not there.

NVML and nvidia-smi come with the driver's tools, libcuda with its computing part. Distributions put them into packages
of their own, and a container gets libcuda only where NVIDIA_DRIVER_CAPABILITIES names compute. Install the package, or
start the container with the capability.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.rules import fixes
from gpustack.diagnose.rules.reading import because, number, status, told
from gpustack.diagnose.rules.seen import nvidia_here, user_release
from gpustack.model.command import BRANCH, Command, sh
from gpustack.model.facts import Layer, Status
from gpustack.model.report import Because, Finding, Fix, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts

SHUT_DOWN = (sh("wsl.exe --shutdown"),)


def judge(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """Give the finding where NVML starts and the loader finds no libcuda."""
    absent = status(facts, "libcuda") is Status.ABSENT
    if not absent or number(told(facts, "nvml"), "code") != 0 or not nvidia_here(facts):
        return
    yield Finding(
        id="libcuda-missing",
        severity=Severity.ERROR,
        layer=Layer.DRIVER,
        component="libcuda",
        title="The driver works, and its CUDA library libcuda.so.1 is not there",
        because=(
            Because(component="libcuda", fact="status", value="absent", source="the loader"),
            because(facts, "nvml", "code"),
        ),
        fix=_fix(facts),
    )


def _fix(facts: Facts) -> Fix:
    if facts.host.container:
        command = sh("docker run --gpus all -e NVIDIA_DRIVER_CAPABILITIES=compute,utility …")
        return Fix(
            text="Start the container with the driver's computing part.",
            commands=(command,),
            verify=sh("gpustack doctor"),
        )
    if facts.host.wsl:
        text, commands = "Bring the driver of Windows up to date, which brings libcuda, and restart WSL.", SHUT_DOWN
        return Fix(text=text, commands=commands, verify=sh("gpustack doctor"))
    return _installed(facts)


def _installed(facts: Facts) -> Fix:
    """Give how the package with libcuda is installed."""
    release = user_release(facts)
    family = fixes.manager(facts)
    if family == "apt":
        branch = BRANCH(release.branch if release else 580)
        ubuntu = sh("sudo apt-get install libnvidia-compute-{branch}", branch=branch)
        commands: tuple[Command, ...] = (ubuntu if fixes.ubuntu(facts) else sh("sudo apt-get install libcuda1"),)
    else:
        commands = fixes.from_nvidia(facts, "nvidia-driver-cuda", fixes.DRIVERS, arch="nvidia-utils")
    return Fix(
        text="Install the driver's computing part, in the driver's own release.",
        commands=(*commands, sh("sudo ldconfig")),
        needs_root=True,
        verify=sh("gpustack doctor"),
    )
