"""The container engine knows nothing of GPUs: the NVIDIA container toolkit is not installed or not configured.

Docker, Podman and containerd pass a GPU on only with the help of the NVIDIA container toolkit. Without it they do not
know a runtime called nvidia, a device driver with the capability gpu, or the names of CDI devices. Install
nvidia-container-toolkit, let nvidia-ctk write the engine's configuration, and restart the engine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.rules import fixes, naming
from gpustack.diagnose.rules.containers import TOOLKIT
from gpustack.diagnose.rules.saying import grounds, heard, said
from gpustack.model.command import NAME, sh
from gpustack.model.facts import Layer
from gpustack.model.report import Confidence, Finding, Fix, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts

WHAT = {
    "no-gpu-driver": "it has no device driver with the capability gpu",
    "unknown-runtime": "it knows no runtime called nvidia",
    "cdi-unresolvable": "it has no description (CDI) of the GPUs",
    "runtime-not-found": "a program of the toolkit is not there",
    "toolkit-missing-said": "it is said not to be there",
}


def judge(facts: Facts, matrix: Matrix) -> Iterator[Finding]:
    """Give the finding where a container engine says that it cannot pass a GPU on."""
    if not heard(facts, *TOOLKIT):
        return
    kinds = dict.fromkeys(one.kind for one in said(facts, *TOOLKIT))
    driver = naming.driver_name(facts, matrix)
    yield Finding(
        id="container-toolkit-missing",
        severity=Severity.ERROR,
        layer=Layer.CONTAINER,
        component="nvidia-container-toolkit",
        title=f"nvidia-container-toolkit is not installed or not configured for {_engine(facts)}: "
        + ", ".join(WHAT[kind] for kind in kinds),
        detail=f"The driver itself is there: {driver}." if driver else "",
        confidence=Confidence.CERTAIN,
        because=grounds(facts, *TOOLKIT, "runtimes-listed", "docker-run"),
        fix=_fix(facts),
    )


def _engine(facts: Facts) -> str:
    lines = " ".join(one.line.lower() for one in said(facts, *TOOLKIT, "docker-run"))
    if "podman" in lines:
        return "podman"
    return "containerd" if "is configured" in lines or "runtimehandler" in lines else "docker"


def _fix(facts: Facts) -> Fix:
    engine = _engine(facts)
    configure = sh("sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml")
    if engine != "podman":
        configure = sh("sudo nvidia-ctk runtime configure --runtime={engine}", engine=NAME(engine))
    install = fixes.from_nvidia(facts, "nvidia-container-toolkit", fixes.CONTAINERS, arch="nvidia-container-toolkit")
    restart = () if engine == "podman" else (sh("sudo systemctl restart {engine}", engine=NAME(engine)),)
    return Fix(
        text="Install the NVIDIA container toolkit on the machine, have it write the engine's configuration, and "
        "restart the engine.",
        commands=(*install, configure, *restart),
        needs_root=True,
        verify=sh("docker run --rm --gpus all ubuntu nvidia-smi"),
    )
