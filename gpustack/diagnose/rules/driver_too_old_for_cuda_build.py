"""The driver is too old for the CUDA version of a build.

A build for a CUDA major needs a driver of that major's time or newer: CUDA 12.x runs from driver 525.60.13 on, 13.x
from 580.65.06 on; before CUDA 11 each minor needs its own. Within a major an older driver works with limits, which is
no fault. Take a build for the driver's CUDA, which changes nothing for others on the machine, or bring the driver up to
date.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpustack.diagnose.rules import driver_complaints, fixes, naming
from gpustack.diagnose.rules.compatibility import driver_fit
from gpustack.diagnose.rules.reading import because, because_of, copies, flag, text
from gpustack.diagnose.rules.saying import grounds, heard
from gpustack.diagnose.rules.seen import builds, driver_release, from_text, gpus, nvidia_here
from gpustack.diagnose.rules.wheels import wheel_for_driver
from gpustack.model.facts import Layer
from gpustack.model.report import Confidence, Finding, Fix, Kept, Severity
from gpustack.model.versions import CudaVersion

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.diagnose.rules.compatibility import Fit
    from gpustack.diagnose.rules.seen import Build
    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts
    from gpustack.model.report import Because

ID = "driver-too-old-for-cuda-build"
CONSUMER = re.compile(r"GeForce|\bGTX\b|\bRTX\b|TITAN|Quadro")


def judge(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Give each framework whose CUDA the driver cannot run, and, as a remark, the toolkit in use."""
    too_new = [(build, fit) for build, fit in _fits(facts, matrix) if fit.kept is Kept.BROKEN]
    for build, fit in too_new:
        yield _finding(build, fit, facts, matrix)
    told = None if too_new else driver_complaints.finding(facts, matrix)
    if told:
        yield told
    if nvidia_here(facts):
        yield from _toolkit(facts, matrix)


def _fits(facts: Facts, matrix: Matrix) -> Iterator[tuple[Build, Fit]]:
    """Give how each build for CUDA fits the driver, those left out that are known to reach a GPU."""
    for build in builds(facts) if nvidia_here(facts) or driver_complaints.complained(facts) else ():
        works = build.ran_on_gpu or (from_text(facts) and flag(build.copy.facts, "available"))
        if build.cuda and not works and not (from_text(facts) and heard(facts, "cuda-available-true")):
            yield build, driver_fit(build.cuda, facts, matrix)


def _finding(build: Build, fit: Fit, facts: Facts, matrix: Matrix) -> Finding:
    wheel = wheel_for_driver(build, facts, matrix)
    other = f"Or bring the driver up to date: {fit.needs}."
    commands = wheel[1] if wheel else fixes.driver(facts, matrix)
    return Finding(
        id=ID,
        instance=build.mark,
        severity=Severity.ERROR,
        layer=Layer.DRIVER,
        component="nvidia-driver",
        title=f"The driver is too old for {build.name}: it is built for CUDA {build.cuda}, this is {fit.found}",
        detail=f"It needs {fit.needs}.{_gpus(facts)}{_compat(build, facts, matrix)}",
        confidence=_sure(build, facts),
        because=(*grounds(facts, *driver_complaints.COMPLAINTS), *_grounds(build, facts)),
        row=fit.row,
        fix=Fix(
            text=f"{wheel[0]} {other}" if wheel else f"{fixes.place(facts)}Install a newer driver: {fit.needs}.",
            commands=commands,
            needs_root=not wheel,
            needs_reboot=not wheel,
            verify=fixes.verify(build),
        ),
    )


def _sure(build: Build, facts: Facts) -> Confidence:
    """Tell how sure it is: a build that is only thought to be the usual one is a guess until a program complains."""
    guessed = text(build.copy.facts, "build_from") is not None
    return Confidence.LIKELY if guessed and not driver_complaints.complained(facts) else Confidence.CERTAIN


def _grounds(build: Build, facts: Facts) -> tuple[Because, ...]:
    if not from_text(facts):
        return (
            because_of(facts, build.component, build.copy, "build"),
            because(facts, "nvidia.ko", "version_loaded"),
            because(facts, "libcuda", "driver_cuda"),
        )
    of_build = (because_of(facts, build.component, build.copy, name) for name in ("version", "build", "cuda"))
    return (*(one for one in of_build if one.value is not None), *naming.of_driver(facts))


def _gpus(facts: Facts) -> str:
    names = naming.gpu_names(facts)
    return f" GPU: {names}." if names and from_text(facts) else ""


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
