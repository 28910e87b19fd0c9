"""The driver is too old for the CUDA version of a build.

A build for a CUDA major needs a driver of that major's time or newer: CUDA 12.x runs from driver 525.60.13 on, 13.x
from 580.65.06 on; before CUDA 11 each minor needs its own. Within a major an older driver works with limits, which is
no fault. Take a build for the driver's CUDA, which changes nothing for others on the machine, or bring the driver up to
date.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpustack.model.facts import Layer
from gpustack.model.report import Finding, Fix, Kept, Severity
from gpustack.model.versions import CudaVersion
from gpustack.rules import fixes
from gpustack.rules.compatibility import driver_fit
from gpustack.rules.reading import because, because_of, copies, flag
from gpustack.rules.seen import builds, driver_release, gpus, nvidia_here
from gpustack.rules.wheels import wheel_for_driver

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts
    from gpustack.rules.compatibility import Fit
    from gpustack.rules.seen import Build

ID = "driver-too-old-for-cuda-build"
CONSUMER = re.compile(r"GeForce|\bGTX\b|\bRTX\b|TITAN|Quadro")


def judge(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Give each framework whose CUDA the driver cannot run, and, as a remark, the toolkit in use."""
    if not nvidia_here(facts):
        return
    for build in builds(facts):
        fit = driver_fit(build.cuda, facts, matrix) if build.cuda else None
        if fit and fit.kept is Kept.BROKEN and not build.ran_on_gpu:
            yield _finding(build, fit, facts, matrix)
    yield from _toolkit(facts, matrix)


def _finding(build: Build, fit: Fit, facts: Facts, matrix: Matrix) -> Finding:
    wheel = wheel_for_driver(build, facts, matrix)
    other = f"Or bring the driver up to date: {fit.needs}."
    commands = wheel[1] if wheel else fixes.driver(facts)
    return Finding(
        id=ID,
        instance=build.mark,
        severity=Severity.ERROR,
        layer=Layer.DRIVER,
        component="nvidia-driver",
        title=f"The driver is too old for {build.name}: it is built for CUDA {build.cuda}, this is {fit.found}",
        detail=f"It needs {fit.needs}.{_compat(build, facts, matrix)}",
        because=(
            because_of(facts, build.component, build.copy, "build"),
            because(facts, "nvidia.ko", "version_loaded"),
            because(facts, "libcuda", "driver_cuda"),
        ),
        row=fit.row,
        fix=Fix(
            text=f"{wheel[0]} {other}" if wheel else f"{fixes.place(facts)}Install a newer driver: {fit.needs}.",
            commands=commands,
            needs_root=not wheel,
            needs_reboot=not wheel,
            verify=fixes.verify(build),
        ),
    )


def _compat(build: Build, facts: Facts, matrix: Matrix) -> str:
    """Give the compat package that would do, on GPUs where one may be used."""
    release, names = driver_release(facts), [gpu.name for gpu in gpus(facts)]
    if release is None or not names or any(CONSUMER.search(name) for name in names):
        return ""
    fitting = [one for one in matrix.compats if one.cuda == build.cuda and release.branch in one.bases]
    return f" On data-centre GPUs the package {fitting[0].name} lets it run on this driver." if fitting else ""


def _toolkit(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    for copy in copies(facts, "cuda-toolkit"):
        cuda = CudaVersion.parse(copy.version)
        fit = driver_fit(cuda, facts, matrix) if cuda and flag(copy.facts, "in_use") else None
        if fit and fit.kept is Kept.BROKEN:
            yield Finding(
                id=ID,
                instance=f"cuda-toolkit:{copy.key}",
                severity=Severity.INFO,
                layer=Layer.RUNTIME,
                component="cuda-toolkit",
                title=f"What CUDA toolkit {cuda} builds needs a newer driver than {fit.found}",
                because=(
                    because_of(facts, "cuda-toolkit", copy, "version"),
                    because(facts, "nvidia-driver", "version"),
                ),
                row=fit.row,
            )
