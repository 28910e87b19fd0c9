"""Docker comes from a snap, which cannot see the driver of the machine.

A snap runs in a world of its own: the libraries of the machine's driver and its own configuration of Docker
(/etc/docker) are not in it, so the NVIDIA container toolkit finds no libnvidia-ml.so.1, or Docker knows no GPU at all.
Remove the snap and install Docker from Docker's own packages, then the toolkit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.rules.containers import NOT_FOUND, TOOLKIT
from gpustack.diagnose.rules.fixes import CONTAINERS
from gpustack.diagnose.rules.reading import number, told
from gpustack.diagnose.rules.saying import grounds, heard, said
from gpustack.model.command import ADDRESS, sh
from gpustack.model.facts import Layer
from gpustack.model.report import Confidence, Finding, Fix, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts

RUNS = sh("docker run --rm --gpus all ubuntu nvidia-smi")
NO_LIBRARY = "toolkit-needs-nvml"
OF_DRIVER = ("libdxcore", "libnvidia", "libcuda.so", "libnvoptix")
FAILS = (NO_LIBRARY, *TOOLKIT, "toolkit-driver-not-loaded", "no-device", "cuda-available-false", *NOT_FOUND)


def judge(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """Give the finding where Docker is a snap and finds no GPU, or finds no library of a driver that works."""
    named = heard(facts, "docker-snap") and (heard(facts, *FAILS) or _no_driver_library(facts))
    if not named and not _unseen_driver(facts):
        return
    yield Finding(
        id="docker-snap",
        severity=Severity.ERROR,
        layer=Layer.CONTAINER,
        component="docker",
        title="Docker is a snap, and a snap cannot see the driver of the machine"
        if named
        else "Docker does not see the driver (libnvidia-ml.so.1) that works on the machine, as when Docker is a snap",
        detail="The container toolkit looks for the driver's libraries where the snap cannot see them."
        if named
        else "Whether Docker is a snap, snap list docker says. Docker Desktop and rootless Docker can do the same.",
        confidence=Confidence.LIKELY if named else Confidence.POSSIBLE,
        because=grounds(facts, "docker-snap", *FAILS, "host-smi-works"),
        fix=_fix(named=named),
    )


def _fix(*, named: bool) -> Fix:
    """Give how the snap is taken away, which takes all that Docker holds with it; only a look where it may be none."""
    if not named:
        return Fix(
            text="See whether Docker is a snap; if so, put Docker's own packages in its place.",
            commands=(sh("snap list docker"),),
            verify=RUNS,
        )
    return Fix(
        text="Save what is needed: with the snap go its images, containers and volumes. Then remove it, and install"
        " Docker from Docker's own packages and nvidia-container-toolkit.",
        commands=(
            sh("sudo snap save docker"),
            sh("# sudo snap remove docker, when images and volumes are saved or not needed"),
            sh(
                "# install docker-ce from Docker's repository, and nvidia-container-toolkit: {page}",
                page=ADDRESS(CONTAINERS),
            ),
            sh("sudo nvidia-ctk runtime configure --runtime=docker && sudo systemctl restart docker"),
        ),
        needs_root=True,
        verify=RUNS,
    )


def _no_driver_library(facts: Facts) -> bool:
    """Tell whether a library was not found that is the driver's own, on Linux or that of Windows in WSL."""
    return any(one.values.get("soname", "").startswith(OF_DRIVER) for one in said(facts, "missing-library"))


def _unseen_driver(facts: Facts) -> bool:
    works = heard(facts, "host-smi-works") or number(told(facts, "nvml"), "code") == 0
    return heard(facts, NO_LIBRARY) and works and not facts.host.wsl and not heard(facts, "docker-desktop")
