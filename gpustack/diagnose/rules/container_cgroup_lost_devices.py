"""The container's device rules have lost the GPU.

The device nodes are there and their modes allow opening them, yet opening is refused: the container's cgroup no longer
lists them. That happens to running containers when systemd reloads its units (systemctl daemon-reload), and NVML then
says "Unknown Error". Start the container again; to keep it from coming back, pass the devices by CDI or by --device.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpustack.diagnose.rules.containers import NOT_WORKING, TOOLKIT
from gpustack.diagnose.rules.nodes import refused, withheld
from gpustack.diagnose.rules.reading import because
from gpustack.diagnose.rules.saying import grounds, heard
from gpustack.model.command import sh
from gpustack.model.facts import Layer
from gpustack.model.report import Confidence, Finding, Fix, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpustack.matrix import Matrix
    from gpustack.model.facts import Facts

BLAMED = "reload-blamed-said"
UNKNOWN, LOST, RELOAD = "nvml-unknown", "container-lost-said", "daemon-reload"
WITH = ("node-not-permitted", "restart-helps-said", *NOT_WORKING)


def judge(facts: Facts, _matrix: Matrix) -> Iterator[Finding]:
    """Give the finding where a container may open a node by its mode and is refused all the same."""
    reloaded = heard(facts, BLAMED) and heard(facts, *WITH) and not heard(facts, *TOOLKIT)
    reloaded = reloaded or (heard(facts, "node-not-permitted") and heard(facts, "restart-helps-said"))
    if heard(facts, UNKNOWN) or (heard(facts, LOST) and heard(facts, RELOAD, *WITH)) or reloaded:
        yield _said(facts)
        return
    lost = [path for path, by_mode in refused(facts) if not by_mode]
    if not facts.host.container or not lost or withheld(facts):
        return
    yield Finding(
        id="container-cgroup-lost-devices",
        severity=Severity.ERROR,
        layer=Layer.CONTAINER,
        component="nvidia-container-toolkit",
        title=f"The container's device rules refuse {', '.join(lost)}, whose modes allow it",
        because=(because(facts, "nvidia.ko", "nodes"), because(facts, "nvml", "error")),
        fix=_fix(),
    )


def _said(facts: Facts) -> Finding:
    """Give the finding on NVML's Unknown Error: what it mostly means, and in a container almost always."""
    sure = heard(facts, RELOAD, "cgroup-devices")
    inside = bool(facts.host.container) or heard(facts, "container-told", "docker-run")
    return Finding(
        id="container-cgroup-lost-devices",
        severity=Severity.ERROR,
        layer=Layer.CONTAINER,
        component="nvidia-container-toolkit",
        title="The container's cgroup has lost the GPU's device nodes"
        + " (Failed to initialize NVML: Unknown Error)" * heard(facts, UNKNOWN),
        detail="The container worked until systemd wrote its device rules anew (systemctl daemon-reload, or an update "
        "that does the same): nodes that systemd was not told of are refused since. The machine itself is well.",
        confidence=Confidence.CERTAIN if sure else Confidence.LIKELY if inside else Confidence.POSSIBLE,
        because=grounds(facts, UNKNOWN, LOST, RELOAD, "cgroup-devices", "node-not-permitted", "host-smi-works"),
        fix=_fix(),
    )


def _fix() -> Fix:
    return Fix(
        text="Start the container again. To keep it from coming back, pass the devices by CDI, or name each node "
        "(--device /dev/nvidia0 …), or make the links in /dev/char "
        "(nvidia-ctk system create-dev-char-symlinks --create-all), or let Docker use the cgroupfs driver.",
        commands=(sh("docker run --device nvidia.com/gpu=all …"),),
        verify=sh("nvidia-smi"),
    )
